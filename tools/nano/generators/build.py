"""Small helpers that put conversations together."""

import zlib


# Said before or after a question without changing it.
LEADS = ["Solve this problem. ", "Here is a question. ", "Please help me. "]
TAILS = [" Show your steps.", " Explain briefly.", " End with #### and the number."]


def held_out(text):
    """Every tenth question, by its core, is kept for the evaluation and never trained on."""
    for lead in LEADS:
        text = text.removeprefix(lead)
    for tail in TAILS:
        text = text.removesuffix(tail)
    return zlib.crc32(text.encode()) % 10 == 0


SYSTEMS = ["You are a helpful assistant.", "You are quern-nano, a helpful assistant.", "Be brief.", "Answer carefully."]


def user(text):
    return {"role": "user", "content": text}


def system(text):
    return {"role": "system", "content": text}


def tool_result(text):
    return {"role": "tool", "content": text}


def assistant(text, reasoning=None, calls=()):
    message = {"role": "assistant", "content": text}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"type": "function", "function": {"name": name, "arguments": arguments}} for name, arguments in calls
        ]
    return message


def conversation(messages, thinking, check=None, tools=None):
    return {"messages": messages, "tools": tools, "thinking": thinking, "check": check}
