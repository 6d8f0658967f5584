#!/usr/bin/env python3
"""Compares two result files of score.py, question by question. Standard library only.

    python tools/nano/compare.py bf16.json mxfp4.json --margin 2

Per set: both scores, the difference b - a in points with its 95% interval (Newcombe's, for paired shares) and the exact
McNemar p. With --margin M it also says whether a loss above M points is ruled out; choose M before looking.
"""

import argparse
import json
import pathlib

from intervals import mcnemar, paired_difference


def load(path):
    file = json.loads(path.read_text())
    return file["model"], {(r["set"], r["thinking"]): {i["id"]: i for i in r["items"]} for r in file["results"]}


def compare(a, b):
    ids = sorted(a.keys() & b.keys())
    pairs = [(a[i]["right"], b[i]["right"]) for i in ids]
    both, only_a = pairs.count((True, True)), pairs.count((True, False))
    only_b, neither = pairs.count((False, True)), pairs.count((False, False))
    low, high = paired_difference(both, only_a, only_b, neither)
    same = sum(a[i]["message"] == b[i]["message"] for i in ids)
    return {"count": len(ids), "a": (both + only_a) / len(ids), "b": (both + only_b) / len(ids), "only_a": only_a,
            "only_b": only_b, "difference": (only_b - only_a) / len(ids), "low": low, "high": high,
            "p": mcnemar(only_a, only_b), "same_answers": same / len(ids)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", type=pathlib.Path)
    parser.add_argument("b", type=pathlib.Path)
    parser.add_argument("--margin", type=float, help="points")
    parser.add_argument("--out", type=pathlib.Path, help="the same as JSON")
    args = parser.parse_args()
    (model_a, sets_a), (model_b, sets_b) = load(args.a), load(args.b)
    print(f"a: {model_a} ({args.a})\nb: {model_b} ({args.b})")
    print(f"{'set':11} thinking      a      b  b - a in points, 95%     only a, b right  p      same answer")
    rows = []
    for key in sets_a:
        if key not in sets_b or not sets_a[key].keys() & sets_b[key].keys():
            continue
        r = compare(sets_a[key], sets_b[key])
        rows.append({"set": key[0], "thinking": key[1], **r})
        verdict = ""
        if args.margin is not None:
            verdict = "  no loss above margin" if r["low"] * 100 > -args.margin else "  loss not ruled out"
        print(f"{key[0]:11} {'on' if key[1] else 'off':8} {r['a']:6.3f} {r['b']:6.3f}  {r['difference'] * 100:+6.2f} "
              f"[{r['low'] * 100:+6.2f}, {r['high'] * 100:+6.2f}]  {r['only_a']:6}, {r['only_b']:<6}  {r['p']:.3f}  "
              f"{r['same_answers']:.3f}{verdict}")
    if args.out:
        args.out.write_text(json.dumps({"a": model_a, "b": model_b, "sets": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
