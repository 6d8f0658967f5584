"""JSON, and nothing else, from a sentence and a list of fields or a small schema."""

import json

from .build import assistant, conversation, system, user
from .words import CITIES, COLOURS, DAYS, NAMES

JOBS = "baker teacher doctor pilot farmer painter nurse driver cook writer".split()
ITEMS = "lamp chair table book coat bike phone kettle pen watch camera ladder".split()
ROOMS = "kitchen office garage garden attic hall".split()


def person(rng):
    f = {"name": rng.choice(NAMES), "age": rng.randint(18, 90), "city": rng.choice(CITIES), "job": rng.choice(JOBS), "married": rng.random() < 0.5}
    text = rng.choice([
        "{name} is {age} years old, lives in {city} and works as a {job}.", "{name}, a {job} from {city}, is {age} years old.",
        "In {city} lives {name}, aged {age}, who is a {job}."]).format(**f)
    return f, text + (f" {f['name']} is married." if f["married"] else f" {f['name']} is not married.")


def product(rng):
    f = {"item": rng.choice(ITEMS), "colour": rng.choice(COLOURS), "price": rng.randint(3, 400), "count": rng.randint(1, 60), "in_stock": rng.random() < 0.5}
    text = rng.choice(["The {colour} {item} costs {price} coins and we have {count} of them.", "We sell {count} pieces of the {colour} {item} for {price} coins each.",
                       "There are {count} pieces of the {colour} {item}; the price is {price} coins."]).format(**f)
    return f, text + (" It is in stock." if f["in_stock"] else " It is not in stock.")


def meeting(rng):
    f = {"day": rng.choice(DAYS), "hour": rng.randint(8, 19), "room": rng.choice(ROOMS), "host": rng.choice(NAMES),
         "guests": rng.sample(NAMES, rng.randint(1, 3))}
    guests = " and ".join([", ".join(f["guests"][:-1])] * (len(f["guests"]) > 1) + f["guests"][-1:])
    text = rng.choice(["{host} invites {g} to the {room} on {day} at {hour}.", "The meeting with {g} is on {day} at {hour} in the {room}; {host} is the host.",
                       "On {day} at {hour} {host} meets {g} in the {room}."]).format(g=guests, **f)
    return f, text


def trip(rng):
    a, b = rng.sample(CITIES, 2)
    f = {"from": a, "to": b, "day": rng.choice(DAYS), "passengers": rng.randint(1, 9), "return_trip": rng.random() < 0.5}
    text = rng.choice(["{n} people travel from {a} to {b} on {d}.", "A trip for {n} people from {a} to {b}, leaving on {d}.",
                       "On {d} a group of {n} goes from {a} to {b}."]).format(n=f["passengers"], a=a, b=b, d=f["day"])
    return f, text + (" They come back." if f["return_trip"] else " They do not come back.")


def type_of(v):
    return {bool: "boolean", int: "integer", str: "string", list: "array"}[type(v)]


def schema(fields):
    properties = {k: ({"type": "array", "items": {"type": "string"}} if isinstance(v, list) else {"type": type_of(v)}) for k, v in fields.items()}
    return json.dumps({"type": "object", "properties": properties, "required": list(fields)})


def make(rng, thinking):
    everything, text = rng.choice([person, product, meeting, trip])(rng)
    keys = rng.sample(list(everything), rng.randint(2, len(everything)))
    fields = {k: everything[k] for k in keys}
    pick = rng.random()
    # Quoted as in the answer: the same tokens, so that the order of the fields can be read off.
    names = ", ".join(f'"{k}"' for k in keys)
    typed = ", ".join(f'"{k}" ({type_of(v)})' for k, v in fields.items())
    messages = []
    if pick < 0.3:
        messages = [system(f"Answer with JSON only. Fields: {typed}."), user(text)]
    elif pick < 0.5:
        messages = [system(f"Answer with JSON that fits this schema: {schema(fields)}"), user(text)]
    elif pick < 0.75:
        messages = [user(f"{text}\nGive me JSON with the fields {rng.choice([names, typed])}.")]
    else:
        messages = [user(f"Return JSON that fits this schema: {schema(fields)}\nText: {text}")]
    answer = json.dumps(fields)
    messages.append(assistant(answer, f"Fields: {names}." if thinking else None))
    return conversation(messages, thinking, {"kind": "json", "value": fields})
