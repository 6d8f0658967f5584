"""Makes the evaluation sets: models/evals/NAME.jsonl, one item a line.

An item has `id`, `messages` (the last is the user's), `tools` if any, and `check` (see checks.py). Questions are the
held-out ones of the generators: by their text, a tenth that training never draws.

    python tools/nano/make_evals.py
"""

import json
import random

import chat
from generators import arithmetic, facts, json_answers, quern, tools
from generators.build import held_out, system, user
from generators.quern_topics import TOPICS

OUT = chat.ROOT / "models" / "evals"
SEED = "evaluation 1"


def item(conversation, extra=None):
    """The conversation without its answer."""
    messages = conversation["messages"]
    last = max(i for i, m in enumerate(messages) if m["role"] == "user")
    out = {"messages": messages[: last + 1], "check": conversation["check"]}
    if conversation["tools"]:
        out["tools"] = conversation["tools"]
    return out | (extra or {})


def question(entry):
    return entry["messages"][-1]["content"]


def distinct(make, count):
    """`count` items with held-out questions, no two of them alike."""
    items, seen = [], set()
    while len(items) < count:
        entry = make()
        text = question(entry)
        if held_out(text) and text not in seen:
            seen.add(text)
            items.append(entry)
    return items


def fact_items(rng, tokens, count):
    def make():
        conversation = facts.make(rng, False, tokens=tokens, turns=1)
        content = conversation["messages"][0]["content"]
        answer = conversation["messages"][1]["content"]
        return item(conversation, {"depth": round(content.index(answer) / len(content), 3)})

    return distinct(make, count)


def tool_items(rng, count):
    """Calls, and for most of them the results that the scorer sends back."""

    def make():
        names = rng.sample(list(tools.TOOLS), rng.randint(1, 4))
        part, calls = tools.exchange(rng, names, False)
        check = {"kind": "calls", "calls": [{"name": n, "arguments": a} for n, a in calls]}
        results = [m["content"] for m in part if m["role"] == "tool"]
        if results:
            check |= {"results": results, "numbers": [str(next(iter(json.loads(r).values()))) for r in results]}
        messages = [system(rng.choice(tools.SYSTEMS))] if rng.random() < 0.2 else []
        out = {"messages": messages + part[:1], "check": check, "tools": [tools.definition(n) for n in names]}
        return out

    # Questions without a tool have few wordings and would never be held out; a few may be alike.
    items = distinct(lambda: next(entry for entry in iter(make, None) if entry["check"]["calls"]), count - count // 12)
    plain = (entry for entry in iter(make, None) if not entry["check"]["calls"])
    items += [next(plain) for _ in range(count // 12)]
    rng.shuffle(items)
    return items


def quern_items(rng, each):
    items = []
    for index, topic in enumerate(TOPICS):
        texts = set()
        while len(texts) < each:
            texts.add(quern.wording(rng, index, True))
        check = {"kind": "keywords", "topic": topic.name, "words": topic.keywords}
        items += [{"messages": [user(text)], "check": check} for text in sorted(texts)]
    return items


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    sets = {
        "arithmetic": lambda rng: distinct(lambda: item(arithmetic.problem(rng, False)), 300),
        "facts_256": lambda rng: fact_items(rng, 256, 200),
        "facts_1k": lambda rng: fact_items(rng, 1024, 200),
        "facts_4k": lambda rng: fact_items(rng, 3990, 200),
        "tools": lambda rng: tool_items(rng, 240),
        "json": lambda rng: distinct(lambda: item(json_answers.make(rng, False)), 240),
        "quern": lambda rng: quern_items(rng, 3),
    }
    for name, make in sets.items():
        items = make(random.Random(f"{SEED} {name}"))
        lines = [json.dumps({"id": f"{name}-{i:03}", **entry}, ensure_ascii=False) for i, entry in enumerate(items)]
        (OUT / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        print(f"{name:11} {len(lines)} items, {sum(map(len, lines)) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
