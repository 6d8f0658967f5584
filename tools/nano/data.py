"""Training data of quern-nano: conversations from the generators, rendered and tokenized.

    python tools/nano/data.py --out DIR --tokens 15000000 --seed 1
    python tools/nano/data.py --show facts              # a few conversations as text
"""

import argparse
import collections
import dataclasses
import pathlib
import random
import time

import numpy as np

import chat
from generators import arithmetic, facts, json_answers, quern, recall, smalltalk, story, tools
from generators.build import SYSTEMS, held_out, system

KINDS = {"arithmetic": arithmetic, "facts": facts, "tools": tools, "json": json_answers, "quern": quern,
         "smalltalk": smalltalk, "story": story, "recall": recall}
# Shares of the tokens.
MIX = {"arithmetic": 0.27, "facts": 0.20, "tools": 0.15, "recall": 0.13, "json": 0.10, "quern": 0.08, "smalltalk": 0.03, "story": 0.04}
# How often reasoning is on. Long facts and stories gain little from it.
THINKING = {"arithmetic": 0.5, "facts": 0.35, "tools": 0.5, "json": 0.4, "quern": 0.4, "smalltalk": 0.4, "story": 0.25,
            "recall": 0.2}
# Kinds whose questions are held out by their text. quern.py does it by itself; the others have no evaluation.
HOLDING = ("arithmetic", "facts", "tools", "json")
BATCH = 512
MAX_TOKENS = 4096


@dataclasses.dataclass
class Example:
    ids: np.ndarray  # uint16 [tokens]
    loss_mask: np.ndarray  # bool [tokens]: learned
    kind: str
    conversation: dict

    @property
    def messages(self):
        return self.conversation["messages"]

    @property
    def tools(self):
        return self.conversation["tools"]

    @property
    def answer(self):
        return self.conversation["check"]


def load_tokenizer():
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(chat.ROOT / "models" / "quern-nano" / "tokenizer.json"))


def fits(conversation, split):
    held = [held_out(m["content"]) for m in conversation["messages"] if m["role"] == "user"]
    return not any(held) if split == "train" else held[-1]


def conversations(kind, seed, split="train"):
    """Endless. In the split "train" no question is a held-out one; in others the last one always is."""
    rng = random.Random(f"{seed} {split} {kind}")
    while True:
        thinking = rng.random() < THINKING[kind]
        held = {"held": True} if kind == "quern" and split != "train" else {}
        conversation = KINDS[kind].make(rng, thinking, **held)
        if thinking and rng.random() < 0.1:
            conversation["effort"] = "high"
        if conversation["messages"][0]["role"] == "user" and rng.random() < 0.08:
            conversation["messages"].insert(0, system(rng.choice(SYSTEMS)))
        if kind in HOLDING and not fits(conversation, split):
            continue
        yield conversation


def examples(kind, seed, split="train", tokenizer=None):
    tokenizer = tokenizer or load_tokenizer()
    source = conversations(kind, seed, split)
    while True:
        batch = [next(source) for _ in range(BATCH)]
        parts = [chat.segments(c) for c in batch]
        encoded = iter(tokenizer.encode_batch_fast([t for p in parts for t, _ in p], add_special_tokens=False))
        for conversation, segments in zip(batch, parts):
            pieces = [(next(encoded).ids, learn) for _, learn in segments]
            ids = np.concatenate([np.asarray(i, np.uint16) for i, _ in pieces])
            if len(ids) > MAX_TOKENS:
                continue
            mask = np.concatenate([np.full(len(i), learn) for i, learn in pieces])
            yield Example(ids, mask, kind, conversation)


def stream(seed, split="train", mix=None):
    """Examples of all kinds, so that each kind has its share of the tokens so far."""
    mix = mix or MIX
    tokenizer = load_tokenizer()
    sources = {k: examples(k, seed, split, tokenizer) for k in mix if mix[k] > 0}
    given = collections.Counter()
    while True:
        kind = min(sources, key=lambda k: given[k] / mix[k])
        example = next(sources[kind])
        given[kind] += len(example.ids)
        yield example


def write_shards(path, tokens, seed, mix=None, split="train"):
    """One NAME.npz per kind: ids uint16 and mask bool, all conversations in a row; offsets int64 [conversations + 1]."""
    mix = mix or MIX
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    tokenizer = load_tokenizer()
    for kind, share in mix.items():
        if share <= 0:
            continue
        begin = time.time()
        ids, masks, offsets = [], [], [0]
        for example in examples(kind, seed, split, tokenizer):
            ids.append(example.ids)
            masks.append(example.loss_mask)
            offsets.append(offsets[-1] + len(example.ids))
            if offsets[-1] >= share * tokens / sum(mix.values()):
                break
        mask = np.concatenate(masks)
        np.savez(path / f"{kind}.npz", ids=np.concatenate(ids), mask=mask, offsets=np.asarray(offsets, np.int64))
        print(f"{kind:11} {len(ids):7} conversations {offsets[-1]:9} tokens, {mask.mean():.0%} learned, "
              f"{time.time() - begin:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--tokens", type=int, default=15_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", choices=list(KINDS))
    parser.add_argument("--count", type=int, default=3)
    args = parser.parse_args()
    if args.show:
        source = conversations(args.show, args.seed)
        for _ in range(args.count):
            for text, learn in chat.segments(next(source)):
                print(f"\033[1m{text}\033[0m" if learn else text, end="")
            print("\n" + "-" * 20)
    if args.out:
        write_shards(args.out, args.tokens, args.seed)


if __name__ == "__main__":
    main()
