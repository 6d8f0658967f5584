"""Says whether an answer is right. Standard library only."""

import json
import re


def number(check, message):
    found = re.search(r"####\s*(-?\d+)\s*$", message.get("content") or "")
    return bool(found) and int(found.group(1)) == check["number"]


def contains(check, message):
    """The text as whole words: 473 is not in 4731."""
    return bool(re.search(rf"(?<!\w){re.escape(check['text'])}(?!\w)", message.get("content") or ""))


def exact(check, message):
    return (message.get("content") or "").strip() == check["text"]


def keywords(check, message):
    text = (message.get("content") or "").lower()
    return all(word.lower() in text for word in check["words"])


def parsed(message):
    try:
        return json.loads(message.get("content") or "")
    except ValueError:
        return None


def same(a, b):
    """Equal, and of the same types: true is not 1."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def json_value(check, message):
    return same(parsed(message), check["value"])


def json_valid(check, message):
    """An object with the wanted fields and types, whatever the values."""
    value = parsed(message)
    wanted = check["value"]
    return isinstance(value, dict) and set(value) == set(wanted) and all(type(value[k]) is type(wanted[k]) for k in wanted)


def calls_of(message):
    """[{"name", "arguments"}]; arguments None if they are no JSON."""
    out = []
    for call in message.get("tool_calls") or []:
        arguments = call["function"]["arguments"]
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except ValueError:
                arguments = None
        out.append({"name": call["function"]["name"], "arguments": arguments})
    return out


def calls(check, message):
    """The wanted calls in their order, every argument exact; with no call wanted, an answer and no call."""
    got = calls_of(message)
    if not check["calls"]:
        return not got and bool((message.get("content") or "").strip())
    return same(got, check["calls"])


CHECKS = {"number": number, "contains": contains, "exact": exact, "keywords": keywords, "json": json_value, "calls": calls}
# Reported beside the score: what is right about the form.
EXTRA = {"json": ("valid", json_valid)}


def is_right(check, message):
    return CHECKS[check["kind"]](check, message)
