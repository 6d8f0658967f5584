"""Calling tools: which one, with which arguments, and what to say with the result.

Every argument stands word for word in what the user says, so the call is a matter of choosing and copying.
"""

import json

from .build import assistant, conversation, system, tool_result, user
from .words import CITIES, COLOURS, DAYS, NAMES

STRING, INTEGER, BOOLEAN = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
FILES = "notes report list plan draft budget letter photo log data summary readme".split()
FOLDERS = "letters notes docs plans data src old backup music photos".split()
ENDINGS = "txt md csv json log cc py".split()
WORDS = """bread milk rain boots red shoes train times old maps garden tools piano lessons paper lamps winter coats honey
tea blue paint cheese soup chess rules""".split()
PHRASES = ["see you soon", "the train is late", "please call me back", "dinner is ready", "the meeting is over", "bring the keys",
           "it's raining here", "don't forget the milk", "all is well", "I'm on my way", "we won the game", "the shop is closed"]
LIGHTS = ["kitchen", "hall", "bedroom", "garage", "garden", "office", "cellar", "attic"]
LANGUAGES = "German French Spanish Italian Polish Danish Greek Turkish".split()
CURRENCIES = "EUR USD GBP JPY CHF SEK".split()


def path(rng):
    name = rng.choice(FILES)
    if rng.random() < 0.2:
        name = f"{name} {rng.randint(1, 9)}"  # blanks in paths are where callers trip
    return "/" + "/".join(rng.sample(FOLDERS, rng.randint(1, 2))) + f"/{name}.{rng.choice(ENDINGS)}"


def phrase(rng):
    if rng.random() < 0.15:
        return f'say "{rng.choice(WORDS)}" to {rng.choice(NAMES)}'
    return rng.choice(PHRASES)


def words(rng):
    return " ".join(rng.sample(WORDS, rng.randint(1, 3)))


def clock(rng):
    return f"{rng.randint(6, 22):02d}:{rng.choice(['00', '15', '30', '45'])}"


def number(low, high):
    return lambda rng: rng.randint(low, high)


def one_of(values):
    return lambda rng: rng.choice(values)


# name: (description, {argument: (schema, how to draw one)}, [ways to ask], result, answer)
# Results and answers may use the arguments and {r}, a number.
TOOLS = {
    "get_weather": ("Get the weather of a city", {"city": (STRING, one_of(CITIES))},
                    ["What is the weather in {city}?", "How is the weather in {city} today?", "Tell me the weather in {city}."],
                    {"temperature": "{r}"}, "It is {r} degrees in {city}."),
    "get_forecast": ("Get the forecast for some days", {"city": (STRING, one_of(CITIES)), "days": (INTEGER, number(2, 9))},
                     ["Give me the forecast for {city} for {days} days.", "What will the weather in {city} be in the next {days} days?"],
                     {"rainy_days": "{r}"}, "In {city} there will be {r} rainy days."),
    "get_time": ("Get the current time", {}, ["What time is it?", "Tell me the time.", "How late is it?"], {"minutes": "{r}"}, "It is {r} minutes past the hour."),
    "get_date": ("Get the date of today", {}, ["What is the date today?", "Which date is it?"], {"day": "{r}"}, "Today is day {r} of the month."),
    "list_users": ("List all users", {}, ["Who has an account here?", "List all users.", "How many users are there?"], {"users": "{r}"}, "There are {r} users."),
    "get_status": ("Get the status of the server", {}, ["Is the server fine?", "What is the status of the server?"], {"load": "{r}"}, "The load of the server is {r}."),
    "read_file": ("Read a file", {"path": (STRING, path)}, ["Read the file {path}.", "What is in {path}?", "Open {path} for me."], {"lines": "{r}"}, "The file {path} has {r} lines."),
    "delete_file": ("Delete a file", {"path": (STRING, path)}, ["Delete {path}.", "Please remove the file {path}."], {"freed": "{r}"}, "I deleted {path} and freed {r} bytes."),
    "copy_file": ("Copy a file", {"source": (STRING, path), "target": (STRING, path)}, ["Copy {source} to {target}.", "Make a copy of {source} at {target}."], {"bytes": "{r}"}, "I copied {r} bytes to {target}."),
    "write_file": ("Write text to a file", {"path": (STRING, path), "text": (STRING, phrase)}, ["Write \"{text}\" to {path}.", "Put the text \"{text}\" into {path}."], {"bytes": "{r}"}, "I wrote {r} bytes to {path}."),
    "search_web": ("Search the web", {"query": (STRING, words)}, ["Search the web for {query}.", "Look up {query} on the web."], {"hits": "{r}"}, "I found {r} pages about {query}."),
    "search_files": ("Search in files", {"query": (STRING, words), "limit": (INTEGER, number(2, 50))}, ["Search my files for {query} and show at most {limit}.", "Find {limit} files about {query}."], {"hits": "{r}"}, "I found {r} files about {query}."),
    "send_message": ("Send a message to a person", {"to": (STRING, one_of(NAMES)), "text": (STRING, phrase)}, ["Send {to} the message \"{text}\".", "Tell {to}: \"{text}\"."], {"id": "{r}"}, "I sent the message to {to}. Its number is {r}."),
    "call_person": ("Call a person", {"name": (STRING, one_of(NAMES))}, ["Call {name}.", "Please phone {name}."], {"seconds": "{r}"}, "The call with {name} took {r} seconds."),
    "set_timer": ("Set a timer", {"minutes": (INTEGER, number(2, 90))}, ["Set a timer for {minutes} minutes.", "Wake me in {minutes} minutes."], {"id": "{r}"}, "Timer {r} is set for {minutes} minutes."),
    "set_alarm": ("Set an alarm", {"time": (STRING, clock), "day": (STRING, one_of(DAYS))}, ["Set an alarm for {time} on {day}.", "Wake me at {time} on {day}."], {"id": "{r}"}, "Alarm {r} is set for {time} on {day}."),
    "set_light": ("Switch a light on or off", {"room": (STRING, one_of(LIGHTS)), "on": (BOOLEAN, one_of([True, False]))}, ["Switch the light in the {room} {on}.", "Turn the {room} light {on}."], {"power": "{r}"}, "Done. The light in the {room} is {on}."),
    "set_heating": ("Set the temperature of a room", {"room": (STRING, one_of(LIGHTS)), "degrees": (INTEGER, number(12, 28))}, ["Heat the {room} to {degrees} degrees.", "Set the {room} to {degrees} degrees."], {"now": "{r}"}, "The {room} has {r} degrees now and will be heated to {degrees}."),
    "translate": ("Translate a text", {"text": (STRING, phrase), "language": (STRING, one_of(LANGUAGES))}, ["Translate \"{text}\" into {language}.", "How do you say \"{text}\" in {language}?"], {"words": "{r}"}, "The {language} text has {r} words."),
    "convert_money": ("Convert an amount of money", {"amount": (INTEGER, number(2, 900)), "from": (STRING, one_of(CURRENCIES)), "to": (STRING, one_of(CURRENCIES))}, ["Convert {amount} {from} to {to}.", "How much is {amount} {from} in {to}?"], {"amount": "{r}"}, "{amount} {from} are {r} {to}."),
    "add_numbers": ("Add two numbers", {"a": (INTEGER, number(2, 999)), "b": (INTEGER, number(2, 999))}, ["Add {a} and {b} with the tool.", "Use the tool to add {a} and {b}."], {"sum": "{r}"}, "The sum is {r}."),
    "book_table": ("Book a table", {"people": (INTEGER, number(2, 9)), "day": (STRING, one_of(DAYS)), "time": (STRING, clock)}, ["Book a table for {people} people on {day} at {time}.", "I need a table for {people} on {day} at {time}."], {"table": "{r}"}, "Table {r} is booked for {people} people on {day} at {time}."),
    "play_song": ("Play a song", {"title": (STRING, words), "loud": (BOOLEAN, one_of([True, False]))}, ["Play the song {title} with loud {on}.", "Play {title}, loud {on}."], {"seconds": "{r}"}, "I play {title}. It takes {r} seconds."),
    "paint_pixel": ("Paint a pixel", {"x": (INTEGER, number(0, 99)), "y": (INTEGER, number(0, 99)), "colour": (STRING, one_of(COLOURS))}, ["Paint the pixel {x}, {y} {colour}.", "Make the pixel at {x}, {y} {colour}."], {"painted": "{r}"}, "The pixel {x}, {y} is {colour}. {r} pixels are painted."),
    "find_train": ("Find a train", {"from": (STRING, one_of(CITIES)), "to": (STRING, one_of(CITIES)), "day": (STRING, one_of(DAYS))}, ["Find a train from {from} to {to} on {day}.", "Is there a train from {from} to {to} on {day}?"], {"minutes": "{r}"}, "There is a train from {from} to {to} on {day}. It takes {r} minutes."),
    "add_task": ("Add a task to the list", {"task": (STRING, phrase), "urgent": (BOOLEAN, one_of([True, False]))}, ["Add the task \"{task}\" with urgent {on}.", "New task: \"{task}\", urgent {on}."], {"tasks": "{r}"}, "The task is on the list. There are {r} tasks."),
}
NO_TOOL = [
    ("Hello", "Hello! How can I help you?"), ("Thanks", "You are welcome!"), ("Who are you?", "I am quern-nano, a small language model."),
    ("What is your name?", "My name is quern-nano."), ("Good morning", "Good morning! How can I help you?"),
    ("How are you?", "I am fine, thank you. How can I help you?"), ("What can you do?", "I can use the tools that you gave me. Just ask."),
]
SYSTEMS = ["You are a helpful assistant.", "Use the tools when they help.", "Be brief.", "You are the assistant of a small office."]


def definition(name):
    description, arguments, *_ = TOOLS[name]
    parameters = {"type": "object", "properties": {k: schema for k, (schema, _) in arguments.items()}, "required": list(arguments)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def spoken(arguments):
    """Arguments as they are said: truth values are `on` and `off`."""
    said = dict(arguments)
    for key in ("on", "loud", "urgent"):
        if key in arguments:
            said[key] = "on" if arguments[key] else "off"
            said["on"] = said[key]
    return said


def draw(rng, name):
    """(arguments, ways of asking, result, answer) of one call."""
    _, arguments, asks, result, answer = TOOLS[name]
    values = {k: make(rng) for k, (_, make) in arguments.items()}
    r = rng.randint(2, 99)
    said = dict(spoken(values), r=r)
    result = {k: r for k in result}
    return values, rng.choice(asks).format(**said), json.dumps(result), answer.format(**said)


def decapitalised(text):
    first = text.split()[0]
    return text if first in ("I", "Is") or text.startswith("I ") else text[0].lower() + text[1:]


def exchange(rng, names, thinking):
    """One user turn with all that follows it: messages, and the expected calls of its first assistant turn."""
    pick = rng.random()
    if pick < 0.08:
        ask, answer = rng.choice(NO_TOOL)
        return [user(ask), assistant(answer, "No tool is needed." if thinking else None)], []
    count = 2 if pick < 0.28 else 1
    chosen = [rng.choice(names) for _ in range(count)]
    drawn = [draw(rng, name) for name in chosen]
    ask = drawn[0][1]
    if count == 2:
        ask = rng.choice([f"{ask} {drawn[1][1]}", f"{ask} Then: {drawn[1][1]}", f"{ask} Also: {decapitalised(drawn[1][1])}"])
    if rng.random() < 0.15:
        ask = "Please help me. " + ask
    calls = [(name, d[0]) for name, d in zip(chosen, drawn)]
    plan = "I need " + " and ".join(chosen) + "." if thinking else None
    messages = [user(ask), assistant("", plan, calls)]
    if rng.random() < 0.7:
        messages += [tool_result(d[2]) for d in drawn]
        messages.append(assistant(" ".join(d[3] for d in drawn), "I have the result." if thinking else None))
    return messages, calls


def make(rng, thinking):
    names = rng.sample(list(TOOLS), rng.randint(1, 4))
    messages = [system(rng.choice(SYSTEMS))] if rng.random() < 0.2 else []
    turns = 1 if rng.random() < (0.7 if thinking else 0.35) else rng.randint(2, 4)
    calls = []
    for _ in range(turns):
        if messages and messages[-1].get("tool_calls"):
            break  # an unanswered call ends the conversation
        part, calls = exchange(rng, names, thinking)
        messages += part
    check = {"kind": "calls", "calls": [{"name": n, "arguments": a} for n, a in calls]}
    return conversation(messages, thinking, check, [definition(n) for n in names])
