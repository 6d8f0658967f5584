"""Checks the data side of quern-nano against itself: needs jinja2 and tokenizers, no model.

    python tools/nano/self_check.py
"""

import itertools
import json

import chat
import checks
import data
import intervals
from generators.build import held_out

COUNT = 300  # conversations of each kind


def check_text():
    """Training text is the template's, and cutting it where the prompt ends does not change its tokens."""
    compiled, tokenizer = chat.template(), data.load_tokenizer()
    for kind in data.KINDS:
        for conversation in itertools.islice(data.conversations(kind, "self-check"), COUNT):
            chat.check(conversation, compiled)
            parts = [text for text, _ in chat.segments(conversation)]
            whole = "".join(parts)
            ids = tokenizer.encode(whole, add_special_tokens=False).ids
            pieces = tokenizer.encode_batch(parts, add_special_tokens=False)
            assert ids == [i for piece in pieces for i in piece.ids], whole
            assert tokenizer.decode(ids, skip_special_tokens=False) == whole, whole


def answer_of(conversation):
    """The answer that the check of a conversation is about, as a server returns it."""
    messages = conversation["messages"]
    last = max(i for i, m in enumerate(messages) if m["role"] == "user")
    return messages[last + 1]


def check_checks():
    """Every right answer passes, and that of the next conversation does not."""
    for kind in data.HOLDING:
        items = list(itertools.islice(data.conversations(kind, "self-check", "eval"), COUNT))
        wrong = 0
        for item, other in zip(items, items[1:] + items[:1]):
            assert checks.is_right(item["check"], answer_of(item)), item
            wrong += checks.is_right(item["check"], answer_of(other))
        assert wrong < COUNT / 10, (kind, wrong)  # small numbers and two greetings do meet by chance


def check_evals():
    """The sets hold only questions that training never draws, and each fits a context of 4096."""
    for path in sorted((chat.ROOT / "models" / "evals").glob("*.jsonl")):
        items = [json.loads(line) for line in path.read_text().splitlines()]
        assert len(items) >= 200 and len({item["id"] for item in items}) == len(items), path
        if path.stem == "quern":
            trained = {c["messages"][-2]["content"] for c in itertools.islice(data.conversations("quern", 1), 20000)}
            assert not any(item["messages"][-1]["content"] in trained for item in items), path
        else:
            no_call = {"kind": "calls", "calls": []}  # few wordings, so not held out
            assert all(held_out(i["messages"][-1]["content"]) or i["check"] == no_call for i in items), path


def check_intervals():
    """Against the published examples of Newcombe (Statistics in Medicine 17, 1998)."""
    low, high = intervals.wilson(81, 263)
    assert abs(low - 0.2553) < 1e-4 and abs(high - 0.3662) < 1e-4
    low, high = intervals.paired_difference(20, 2, 12, 16)
    assert abs(low - 0.0562) < 1e-4 and abs(high - 0.3292) < 1e-4
    assert intervals.wilson(0, 10)[0] == 0.0 and intervals.mcnemar(0, 0) == 1.0


def main():
    for check in (check_text, check_checks, check_evals, check_intervals):
        check()
        print(f"{check.__name__}: good")


if __name__ == "__main__":
    main()
