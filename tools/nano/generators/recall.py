"""Repeating text and looking up lists.

Nobody asks a chat model for this, but everything else here is made of it: finding facts, filling arguments and carrying
numbers from one step to the next are all copying. Here nearly every learned token is a copy, so that it is learned early.
"""

import json

from .build import assistant, conversation, user
from .facts import ATTRIBUTES, OBJECTS, PASSWORDS, PLACE_KINDS, PLACE_NAMES, SUBJECTS, VERBS
from .json_answers import ITEMS, JOBS, ROOMS
from .tools import FILES, FOLDERS, LANGUAGES, LIGHTS, WORDS, path
from .words import ANIMALS, CITIES, COLOURS, DAYS, FRUITS, NAMES, THINGS

POOL = sorted({*NAMES, *CITIES, *COLOURS, *FRUITS, *THINGS, *ANIMALS, *PASSWORDS, *PLACE_KINDS, *PLACE_NAMES, *WORDS})
FIELDS = """name age city job married item colour price count in_stock day hour room host guests from to passengers return_trip
path text query limit minutes time language amount people title degrees task source target""".split()
SPOKEN = [NAMES, CITIES, COLOURS, DAYS, JOBS, ITEMS, ROOMS, LIGHTS, LANGUAGES, WORDS, FILES, FOLDERS]
KEYS = sorted({*PASSWORDS, *ANIMALS, *FRUITS, *PLACE_KINDS})


def number(rng):
    return str(rng.randint(0, 10 ** rng.randint(1, 4) - 1))


def text(rng):
    pick = rng.random()
    if pick < 0.4:
        return " ".join(rng.choice(POOL) for _ in range(rng.randint(4, 30)))
    if pick < 0.6:
        return " ".join(number(rng) for _ in range(rng.randint(3, 15)))
    if pick < 0.7:
        return " ".join(path(rng) for _ in range(rng.randint(1, 3)))
    if pick < 0.8:
        return " ".join(f"The {rng.choice(list(ATTRIBUTES))} of the {rng.choice(PLACE_NAMES)} {rng.choice(PLACE_KINDS)} is "
                        f"{rng.choice([number(rng), rng.choice(POOL)])}." for _ in range(rng.randint(1, 3)))
    if pick < 0.9:
        return " ".join(f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}." for _ in range(rng.randint(1, 4)))
    return " ".join(rng.choice([number, lambda r: r.choice(POOL)])(rng) for _ in range(rng.randint(4, 20)))


def repeat(rng):
    copied = text(rng)
    return rng.choice(["Repeat: {}", "Say this again: {}", "Copy this: {}"]).format(copied), copied


def look_up(rng):
    """A list of pairs, and most of them asked for in another order."""
    count = rng.randint(3, 16)
    pick = rng.random()
    if pick < 0.4:
        keys = rng.sample(KEYS, count)
    elif pick < 0.7:
        keys = rng.sample([f"{a} {b}" for a in rng.sample(PLACE_NAMES, 5) for b in rng.sample(PLACE_KINDS, 4)], count)
    else:
        keys = rng.sample(NAMES, count)
    values = {k: number(rng) if rng.random() < 0.6 else rng.choice(POOL) for k in keys}
    asked = rng.sample(keys, rng.randint(max(1, count // 2), count))
    if rng.random() < 0.5:
        listed = "\n".join(f"{k}: {v}" for k, v in values.items())
        return f"{listed}\nLook up: {', '.join(asked)}", "\n".join(f"{k}: {values[k]}" for k in asked)
    listed = " ".join(f"The mark of {k} is {v}." for k, v in values.items())
    return f"{listed}\nWhat is the mark of {', '.join(asked)}?", " ".join(f"The mark of {k} is {values[k]}." for k in asked)


def spoken(rng):
    return number(rng) if rng.random() < 0.15 else rng.choice(rng.choice(SPOKEN))


def quote(rng):
    """A word after a blank and after a quotation mark are two tokens, and which belong together has to be learned by heart."""
    pick = rng.random()
    if pick < 0.45:
        words = [spoken(rng) for _ in range(rng.randint(3, 16))]
        listed = rng.choice([" ", ", ", " and "]).join(words)
        return rng.choice(["Quote: {}", "Put quotes around: {}"]).format(listed), ", ".join(f'"{w}"' for w in words)
    if pick < 0.6:
        words = [spoken(rng) for _ in range(rng.randint(3, 16))]
        return "Without quotes: " + ", ".join(f'"{w}"' for w in words), " ".join(words)
    keys = rng.sample(FIELDS, rng.randint(2, 7))
    values = {k: spoken(rng) for k in keys}
    form, between = rng.choice([("{} is {}", ", "), ("The {} is {}.", " "), ("{}: {}", ", "), ("{} {}", ", ")])
    listed = between.join(form.format(k, v) for k, v in values.items())
    asked = rng.sample(keys, rng.randint(1, len(keys)))
    names = ", ".join(f'"{k}"' for k in asked)
    return f"{listed}\nAs JSON with {names}.", json.dumps({k: values[k] for k in asked})


def make(rng, thinking):
    messages = []
    for _ in range(1 if thinking else rng.choice([1, 1, 2])):
        ask, answer = rng.choices([repeat, look_up, quote], [2, 2, 6])[0](rng)
        messages += [user(ask), assistant(answer, "Word by word." if thinking else None)]
    return conversation(messages, thinking, {"kind": "exact", "text": messages[-1]["content"]})
