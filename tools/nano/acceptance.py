"""Measures, on the held-out sets: how many drafts of the MTP layer greedy verification accepts, and (with --score) how many
answers are right, with sparse attention or dense. The reference for what an engine should reach.

    python acceptance.py --model models/quern-nano --limit 50 [--drafts 5] [--dense] [--thinking on|off]

A round: the MTP layer drafts `drafts` tokens in a chain, the trunk verifies them; the longest right prefix is kept and the trunk
adds one token. Since a draft counts only if all before it were right, a chain may be computed along the trunk's own greedy
answer, for all roots at once; the walk over the rounds then picks the roots that an engine would have used.
"""

import argparse
import json
import pathlib
import re

import chat
import checks
import data
import torch
from generate import greedy, load
from model import Batch, Trace, rotation

EVALS = pathlib.Path(__file__).resolve().parents[2] / "models" / "evals"


@torch.no_grad()
def right_drafts(model, prompt, answer, drafts, sparse):
    """-> for each root (the last prompt token's successor on), how many drafts of its chain are right."""
    c = model.c
    ids = prompt + answer
    batch = Batch.of([ids], c)
    h = model(batch, Trace(sparse=sparse))
    first = len(prompt)  # the first root: the answer's first token, drawn by the prefill
    wanted = torch.zeros(len(ids), dtype=torch.bool)
    wanted[first : len(ids) - 1] = True
    right = torch.zeros(len(ids), drafts, dtype=torch.bool)
    plain = lambda rows: (rows, len(rows))  # noqa: E731
    trace = Trace(sparse=sparse)
    steps = model.mtp.steps(h, model.embed_tokens, batch, trace, wanted, rotation, plain, drafts)
    for j, (r, rows, _) in enumerate(steps):
        best = torch.mm(r, model.lm_head.t()).argmax(-1)
        right[rows, j] = best == batch.ids[rows + j + 1]
    return right[first:].int().cumprod(1).sum(1).tolist()


def rounds(right):
    """Accepted drafts of each round an engine would run. The last token of `right` ends the answer."""
    at, accepted = 0, []
    while at < len(right) - 1:
        accepted.append(right[at])
        at += right[at] + 1
    return accepted


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", required=True)
    p.add_argument("--limit", type=int, default=50, help="items per set")
    p.add_argument("--sets", default="")
    p.add_argument("--drafts", type=int, default=5)
    p.add_argument("--dense", action="store_true", help="attend to everything, indexers unused")
    p.add_argument("--thinking", choices=["on", "off"], default="off")
    p.add_argument("--batch", type=int, default=25)
    p.add_argument("--max-tokens", type=int, default=300)
    p.add_argument("--no-drafts", action="store_true", help="scores only")
    p.add_argument("--show", action="store_true", help="print the answers")
    args = p.parse_args()
    model, eos = load(args.model)
    torch.set_grad_enabled(False)
    tokenizer, compiled = data.load_tokenizer(), chat.template()
    every = []
    for path in sorted(EVALS.glob("*.jsonl")):
        if args.sets and path.stem not in args.sets.split(","):
            continue
        items = [json.loads(line) for line in path.read_text().splitlines()][: args.limit]
        prompts = [encode(tokenizer, compiled, i, args.thinking == "on") for i in items]
        batch = args.batch if max(map(len, prompts)) < 1500 else 8
        all_rounds, right = [], 0
        for s in range(0, len(prompts), batch):
            part = prompts[s : s + batch]
            answers = greedy(model, part, eos, args.max_tokens, sparse=not args.dense)
            for item, prompt, answer in zip(items[s : s + batch], part, answers):
                text = tokenizer.decode(answer[:-1], skip_special_tokens=False)
                right += checks.is_right(item["check"], message(text, item.get("tools")))
                if args.show:
                    print(repr(text), item["check"])
                if not args.no_drafts:
                    all_rounds += rounds(right_drafts(model, prompt, answer, args.drafts, not args.dense))
        line = f"{path.stem:12} right {right / len(items):.3f} of {len(items)}"
        if all_rounds:
            every += all_rounds
            line += accept_line(all_rounds, args.drafts)
        print(line, flush=True)
    if every:
        print(f"{'all':12}" + accept_line(every, args.drafts))


def accept_line(accepted, drafts):
    share = [sum(a > j for a in accepted) / len(accepted) for j in range(drafts)]
    return f" accept length {1 + sum(accepted) / len(accepted):.2f} | per draft " + " ".join(f"{x:.2f}" for x in share)


def encode(tokenizer, compiled, item, thinking):
    conversation = {"messages": item["messages"], "tools": item.get("tools"), "thinking": thinking}
    text = compiled.render(**chat.context(conversation, generate=True))
    return tokenizer.encode(text, add_special_tokens=False).ids


def message(text, tools):
    """The assistant message of OpenAI's API that a model's text makes: what a server's parsers do."""
    text = text.split("</think>", 1)[-1]
    calls = []
    for call in re.findall(r"<tool_call>(.*?)</tool_call>", text, re.S):
        name = call.split("<arg_key>", 1)[0].strip()
        types = {}
        for tool in tools or []:
            if tool["function"]["name"] == name:
                types = tool["function"]["parameters"].get("properties", {})
        arguments = {}
        for key, value in re.findall(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", call, re.S):
            if types.get(key, {}).get("type") != "string":
                try:
                    value = json.loads(value)
                except ValueError:
                    pass
            arguments[key] = value
        calls.append({"function": {"name": name, "arguments": arguments}})
    return {"content": text.split("<tool_call>", 1)[0].strip(), "tool_calls": calls}


if __name__ == "__main__":
    main()
