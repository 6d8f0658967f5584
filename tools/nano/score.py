#!/usr/bin/env python3
"""Scores a running server on the sets of models/evals. Standard library only.

    python tools/nano/score.py --url http://127.0.0.1:8000 --out bf16.json
    python tools/nano/score.py --sets arithmetic,facts_4k --thinking off --limit 50

Greedy. Any server with OpenAI's chat API will do; `chat_template_kwargs` switches the reasoning. Prints each score with
its 95% interval (Wilson); --out keeps every answer, for compare.py.
"""

import argparse
import concurrent.futures
import json
import pathlib
import sys
import time
import urllib.error
import urllib.request

import checks
from intervals import wilson

EVALS = pathlib.Path(__file__).resolve().parents[2] / "models" / "evals"


class Server:
    def __init__(self, url, key, model, timeout):
        self.url = url.rstrip("/").removesuffix("/v1")
        self.headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self.timeout = timeout
        self.model = model or self.call("/v1/models")["data"][0]["id"]

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self.headers)
        while True:
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code != 429:  # a full queue is no answer: come back when told
                    raise RuntimeError(f"{self.url}{path}: {error.code} {error.read().decode(errors='replace')}") from None
                time.sleep(float(error.headers.get("Retry-After") or 1))

    def chat(self, messages, tools, thinking, max_tokens):
        body = {"model": self.model, "messages": messages, "temperature": 0, "max_tokens": max_tokens,
                "chat_template_kwargs": {"enable_thinking": thinking}}
        if tools:
            body["tools"] = tools
        return self.call("/v1/chat/completions", body)


def answer(server, item, thinking, max_tokens):
    """One item: the record that --out keeps."""
    check, messages, tools = item["check"], item["messages"], item.get("tools")
    reply = server.chat(messages, tools, thinking, max_tokens)
    choice = reply["choices"][0]
    message = choice["message"]
    record = {"id": item["id"], "right": checks.is_right(check, message), "finish": choice["finish_reason"],
              "tokens": reply["usage"]["completion_tokens"],
              "message": {k: message[k] for k in ("reasoning_content", "content", "tool_calls") if message.get(k)}}
    if check["kind"] in checks.EXTRA:
        name, extra = checks.EXTRA[check["kind"]]
        record[name] = extra(check, message)
    if record["right"] and check.get("results"):
        # The calls were right: hand over their results and see whether they are used.
        history = [*messages, {"role": "assistant", **record["message"]}]
        for call, result in zip(message["tool_calls"], check["results"]):
            history.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        reply = server.chat(history, tools, thinking, max_tokens)
        last = reply["choices"][0]["message"]
        record["tokens"] += reply["usage"]["completion_tokens"]
        record["last"] = last.get("content")
        record["right"] = not last.get("tool_calls") and all(
            checks.contains({"text": n}, last) for n in check["numbers"])
    return record


def run_set(server, name, thinking, args):
    items = [json.loads(line) for line in (args.evals / f"{name}.jsonl").read_text().splitlines()][: args.limit]
    begin = time.time()
    records = []
    label = f"{name}, thinking {'on' if thinking else 'off'}"
    with concurrent.futures.ThreadPoolExecutor(args.concurrency) as pool:
        for record in pool.map(lambda item: answer(server, item, thinking, args.max_tokens), items):
            records.append(record)
            if sys.stderr.isatty():
                right = sum(r["right"] for r in records)
                print(f"\r{label}: {len(records)} of {len(items)}, {right} right", end="\033[K", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    right, count = sum(r["right"] for r in records), len(records)
    low, high = wilson(right, count)
    result = {"set": name, "thinking": thinking, "right": right, "count": count, "score": right / count,
              "low": low, "high": high, "cut_short": sum(r["finish"] == "length" for r in records),
              "mean_tokens": sum(r["tokens"] for r in records) / count, "seconds": round(time.time() - begin, 1)}
    more = ""
    for extra in {extra for extra, _ in checks.EXTRA.values()}:
        if extra in records[0]:
            result[extra] = sum(r[extra] for r in records) / count
            more += f", {extra} {result[extra]:.3f}"
    if result["cut_short"]:
        more += f", {result['cut_short']} cut short at --max-tokens"
    print(f"{name:11} {'on' if thinking else 'off':8} {right / count:5.3f}  [{low:.3f}, {high:.3f}]  {right} of {count}, "
          f"{result['mean_tokens']:.0f} tokens each{more}", flush=True)
    return result | {"items": records}


def main():
    names = sorted(p.stem for p in EVALS.glob("*.jsonl"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--api-key", default="")
    parser.add_argument("--model", help="default: the first that the server names")
    parser.add_argument("--evals", type=pathlib.Path, default=EVALS, help="directory of the sets")
    parser.add_argument("--sets", default="all", help="names with commas between: " + ", ".join(names))
    parser.add_argument("--thinking", choices=["on", "off", "both"], default="both")
    parser.add_argument("--limit", type=int, help="the first N items of each set only")
    parser.add_argument("--max-tokens", type=int, default=400)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one answer")
    parser.add_argument("--out", type=pathlib.Path, help="JSON with every answer")
    args = parser.parse_args()
    wanted = sorted(p.stem for p in args.evals.glob("*.jsonl")) if args.sets == "all" else args.sets.split(",")
    for name in wanted:
        if not (args.evals / f"{name}.jsonl").exists():
            parser.error(f"no set {name} in {args.evals}")
    server = Server(args.url, args.api_key, args.model, args.timeout)
    print(f"{server.model} at {server.url}, greedy\n{'set':11} {'thinking':8} score  95% interval")
    results = []
    for name in wanted:
        for thinking in {"on": [True], "off": [False], "both": [True, False]}[args.thinking]:
            results.append(run_set(server, name, thinking, args))
            if args.out:  # after each set, so that a run that is stopped leaves what it has
                args.out.write_text(json.dumps({"model": server.model, "url": server.url, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
