"""Turns streams of examples into steps of about equally many tokens, in proportions that may change while training runs."""

import json
import pathlib
from dataclasses import dataclass

import numpy as np
import torch
from model import Batch

# kind -> [share of the tokens, weight of its loss per predicted token]
DEFAULT_MIX = {
    "quern": [0.08, 1.0],
    "smalltalk": [0.02, 1.0],
    "arithmetic": [0.24, 1.0],
    "facts": [0.20, 3.0],
    "tools": [0.14, 1.0],
    "json": [0.08, 1.0],
    "story": [0.02, 0.5],
    "recall": [0.22, 1.5],
}


@dataclass
class Step:
    batch: Batch
    kinds: list  # of the documents
    labels: torch.Tensor  # [tokens]: the next token of the document (0 after its last)
    wanted: torch.Tensor  # [tokens] bool: rows whose prediction counts
    rows: torch.Tensor  # those rows, then some others up to a multiple of GRAIN
    count: int  # how many of `rows` are wanted
    weight: torch.Tensor  # [tokens] f32: their share of the loss, summing to 1
    document: torch.Tensor  # [tokens]: which document


# Numbers of rows are multiples of this: oneDNN generates code for every new shape of a product.
GRAIN = 128


def fill_up(rows):
    """rows, then its first again and again; how many are real."""
    return torch.cat((rows, rows[:1].expand(-len(rows) % GRAIN))), len(rows)


def make_step(examples, mix, c):
    filler = -sum(len(e.ids) for e in examples) % GRAIN
    if filler:
        examples = [*examples, Example([0] * filler, [False] * filler, "filler")]
    documents = [np.asarray(e.ids, np.int64) for e in examples]
    lens = [len(d) for d in documents]
    ids, mask = np.concatenate(documents), np.concatenate([np.asarray(e.loss_mask, bool) for e in examples])
    # Row t predicts token t + 1; the last row of a document predicts nothing.
    last = np.cumsum(lens) - 1
    labels, wanted = np.roll(ids, -1), np.roll(mask, -1)
    labels[last], wanted[last] = 0, False
    weight = np.repeat(np.array([mix[e.kind][1] if e.kind in mix else 0.0 for e in examples], np.float32), lens)
    weight = torch.from_numpy(weight * wanted)
    wanted = torch.from_numpy(wanted)
    rows, count = fill_up(wanted.nonzero().squeeze(1))
    document = torch.from_numpy(np.repeat(np.arange(len(lens)), lens))
    batch = Batch.flat(torch.from_numpy(ids), lens, c)
    kinds = [e.kind for e in examples]
    return Step(batch, kinds, torch.from_numpy(labels), wanted, rows, count, weight / weight.sum(), document)


HELD_OUT = 100  # conversations of a shard that are only for looking at progress


class Shard:
    """Pre-tokenized conversations of one kind (data.write_shards), in an order of its own; again from the start at the end."""

    def __init__(self, path, kind, part, parts):
        files = np.load(pathlib.Path(path) / f"{kind}.npz")
        self.kind, self.ids, self.mask, self.offsets = kind, files["ids"], files["mask"], files["offsets"]
        order = np.random.default_rng(7).permutation(len(self.offsets) - 1)
        self.held_out, self.order = order[:HELD_OUT], order[HELD_OUT:][part::parts]
        self.at, self.epochs = 0, 0

    def next(self):
        if self.at == len(self.order):
            self.at, self.epochs = 0, self.epochs + 1
        self.at += 1
        return self.get(self.order[self.at - 1])

    def get(self, i):
        part = slice(self.offsets[i], self.offsets[i + 1])
        return Example(self.ids[part], self.mask[part], self.kind)


@dataclass
class Example:
    ids: np.ndarray
    loss_mask: np.ndarray
    kind: str


class Mixer:
    """Draws from one shard per kind, always from the kind that is furthest behind its share."""

    def __init__(self, shards, mix_path, c):
        """shards: kind -> Shard."""
        self.shards, self.c = shards, c
        self.path = pathlib.Path(mix_path)
        self.mix, self.given = dict(DEFAULT_MIX), {}
        self.reload()

    def reload(self):
        if self.path.exists():
            mix = json.loads(self.path.read_text())
            if mix != self.mix:
                print("mix:", json.dumps(mix), flush=True)
                self.mix, self.given = mix, {}

    def draw(self, kind, max_len):
        """The next example of a kind not longer than max_len."""
        while True:
            e = self.shards[kind].next()
            if len(e.ids) <= max_len:
                return e

    def step(self, tokens, max_len):
        examples, count = [], 0
        while count < tokens:
            kind = min(
                (k for k in self.mix if self.mix[k][0] > 0), key=lambda k: self.given.get(k, 0) / self.mix[k][0]
            )
            e = self.draw(kind, max_len)
            examples.append(e)
            count += len(e.ids)
            self.given[kind] = self.given.get(kind, 0) + len(e.ids)
        return make_step(examples, self.mix, self.c)
