"""Trains quern-nano within a given time.

    python train.py --seconds 5400 --seed 1 --out DIR

The schedule follows the clock: whatever the machine manages, training ends on time with the learning rate at zero.

| part of the time | what learns |
|---|---|
| 0 .. DENSE | the trunk, dense attention |
| DENSE .. WARM | the indexers only, towards the dense attention (the trunk stands still) |
| WARM .. 1 | the trunk under sparse attention, the indexers on the chosen keys, the MTP layer (3 unrolled steps) |

DIR receives train.pt (everything needed to resume: run the same command again) and model.pt (the weights). DIR/mix.json,
if there, gives the proportions of the kinds of text and is read again every 50 steps.
"""

import argparse
import os
import pathlib
import random
import time

import data
import positional
import torch
import twins
from batches import DEFAULT_MIX, Mixer, Shard, fill_up, make_step
from config import NanoConfig
from indexer import kl_loss
from kernels import HeadLoss
from model import Nano, Trace, rotation
from optim import Optimizer
from parallel import Team, run

DENSE, WARM = 0.58, 0.61
DECAY_FROM = 0.25
STOP = 9.0
MTP_TEMPERATURE = 0.5  # of the trunk's distribution that the MTP layer imitates: drafts are compared with its argmax


def rate(at):
    """Learning-rate factor at a part of the time: 1, then linear to zero (arXiv 2502.15938)."""
    return min(1.0, (1.0 - at) / (1.0 - DECAY_FROM))


def max_len(at):
    """Longest document: short ones first, so that retrieval is learned where it is easy."""
    for until, length in ((0.15, 512), (0.25, 1100), (0.32, 2200)):
        if at < until:
            return length
    return 4400


class Trainer:
    def __init__(self, args, vocab_size):
        torch.manual_seed(args.seed)
        random.seed(args.seed)
        self.args = args
        self.c = NanoConfig(vocab_size=vocab_size)
        self.model = Nano(self.c)
        parameters = dict(self.model.named_parameters())
        common = torch.nn.functional.normalize(torch.randn(self.c.hidden), dim=0)
        twins.tie(parameters["embed_tokens"], twins.pairs(data.load_tokenizer()), twins.EMBED)
        positional.install(parameters, self.c, common)
        self.model.share_memory()
        named = dict(self.model.named_parameters())
        self.team = Team(named, (self.c.layers + 1, self.c.experts), args.workers)
        self.optimizer = Optimizer(named, self.team)
        self.out = pathlib.Path(args.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.before, self.steps, self.tokens = 0.0, 0, 0
        if (self.out / "train.pt").exists():
            self.resume()
        self.begun = time.time()

    def begin(self, rank):
        seed = (self.args.seed * 1009 + self.steps) * self.team.world + rank
        random.seed(seed)
        torch.manual_seed(seed)
        self.generator = torch.Generator().manual_seed(seed)
        shards = {k: self.shard(k, rank) for k in DEFAULT_MIX}
        self.mixer = Mixer(shards, self.out / "mix.json", self.c)
        self.stats = {}

    def shard(self, kind, rank):
        s = Shard(self.args.data, kind, rank, self.team.world)
        s.at = random.randrange(len(s.order)) if self.steps else 0  # resumed: not the same again
        return s

    # -- state ---------------------------------------------------------------------------------------------------------
    def elapsed(self):
        return self.before + time.time() - self.begun

    def save(self):
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state,
            "config": self.c,
            "elapsed": self.elapsed(),
            "steps": self.steps,
            "tokens": self.tokens,
        }
        for name, value in (("train.pt", state), ("model.pt", {"model": state["model"], "config": self.c})):
            torch.save(value, self.out / (name + ".tmp"))
            os.replace(self.out / (name + ".tmp"), self.out / name)

    def resume(self):
        saved = torch.load(self.out / "train.pt", weights_only=False)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.before, self.steps, self.tokens = saved["elapsed"], saved["steps"], saved["tokens"]
        print(f"resumed at {self.before:.0f} s, step {self.steps}", flush=True)

    # -- one step ------------------------------------------------------------------------------------------------------
    def step(self, at):
        warming, sparse = DENSE <= at < WARM, at >= WARM
        s = self.mixer.step(self.args.tokens, max_len(at))
        self.model.train()
        trace = Trace(sparse=sparse, keep=warming or sparse)
        if warming:
            with torch.no_grad():
                self.model(s.batch, trace)
        else:
            h = self.model(s.batch, trace, None if sparse else s.rows)
            hw = h.index_select(0, s.rows) if sparse else h
            weight = s.weight[s.rows]
            weight[s.count :] = 0.0
            loss, best, each = HeadLoss.apply(hw, self.model.lm_head, s.labels[s.rows], weight)
            loss.backward()
            self.record(s, s.rows[: s.count], best[: s.count], each[: s.count])
            self.count_loads(trace)
        if sparse:
            self.mtp_step(s, h.detach(), at)
        if warming or sparse:
            losses = [kl_loss(o, trace, s.batch, s.wanted, self.generator, self.c) for o in trace.indexed]
            losses = [x for x in losses if x is not None]
            if losses:
                sum(losses).backward()
                self.note("kl", sum(x.item() for x in losses) / len(losses), 1)
        trunk, late = min(1.0, (self.steps + 1) / 40) * rate(at), min(1.0, (1.0 - at) / (1.0 - WARM))
        # What starts late starts with its full rate.
        self.optimizer.step(lambda n: late if n.startswith("mtp.") or ".indexer." in n else trunk)
        self.balance(at)
        self.steps += 1
        self.tokens += len(s.batch.ids) * self.team.world

    def mtp_step(self, s, h, at):
        """The MTP layer learns from part of the documents; nothing of it reaches the trunk."""
        short = [d for d, n in enumerate(s.batch.lens) if n <= 1100]
        random.shuffle(short)
        chosen, count = [], 0
        for d in short:
            chosen.append(d)
            count += s.batch.lens[d]
            if count >= self.args.tokens * self.args.mtp_part:
                break
        if not chosen:
            return
        keep = torch.cat([(s.document == d).nonzero().squeeze(1) for d in chosen])
        from model import Batch

        pos = s.batch.pos[keep]
        batch = Batch(s.batch.ids[keep], pos, [s.batch.lens[d] for d in chosen], rotation(pos, self.c))
        h, wanted, head = h[keep], s.wanted[keep], self.model.lm_head.detach()
        trace = Trace(sparse=True, keep=True)
        losses = []
        for j, (r, rows, count) in enumerate(
            self.model.mtp.steps(h, self.model.embed_tokens.detach(), batch, trace, wanted, rotation, fill_up)
        ):
            target = h[rows + j]
            weight = torch.full((len(rows),), 1.0 / count)
            weight[count:] = 0.0
            loss, best, _ = HeadLoss.apply(r, head, (target, head, MTP_TEMPERATURE), weight)
            losses.append(loss)
            with torch.no_grad():
                agree = (torch.mm(target, head.t()).argmax(-1) == best)[:count].float().mean().item()
            self.note(f"draft{j + 1}", agree, 1)
        if losses:
            sum(losses).backward()
            self.count_loads(trace)
            kl = kl_loss(self.c.layers, trace, batch, wanted, self.generator, self.c)
            if kl is not None:
                kl.backward()

    def count_loads(self, trace):
        for i, load in trace.loads.items():
            self.team.loads[self.team.rank, i] = load

    def balance(self, at):
        """Moves each expert's bias against its surplus of tokens, by a fixed step (arXiv 2408.15664)."""
        if self.team.rank == 0:
            speed = 2e-3 * min(1.0, 2 * rate(at))
            loads = self.team.loads.sum(0)
            self.team.loads.zero_()
            for i, load in enumerate(loads):
                if load.sum() > 0:
                    layer = self.model.mtp.layer if i == self.c.layers else self.model.layers[i]
                    layer.mlp.e_score_correction_bias += speed * torch.sign(load.mean() - load)
                    self.note("imbalance", (load.max() / load.mean()).item(), 1)
        self.team.done()

    # -- reports -------------------------------------------------------------------------------------------------------
    def note(self, key, value, count):
        a, b = self.stats.get(key, (0.0, 0))
        self.stats[key] = a + value, b + count

    def record(self, s, rows, best, each):
        right = best == s.labels[rows]
        documents = s.document[rows]
        wrong = torch.bincount(documents[~right], minlength=len(s.kinds))
        loss = torch.bincount(documents, weights=each.double(), minlength=len(s.kinds))
        count = torch.bincount(documents, minlength=len(s.kinds))
        for d, kind in enumerate(s.kinds):
            self.note(kind, loss[d].item(), count[d].item())
            self.note(kind + " whole", float(wrong[d] == 0), 1)

    def report(self):
        parts = []
        for k in sorted(self.stats):
            if not k.endswith(" whole"):
                a, b = self.stats[k]
                whole = self.stats.get(k + " whole")
                parts.append(f"{k} {a / max(b, 1):.3f}" + (f" ({whole[0] / whole[1]:.2f})" if whole else ""))
        self.stats = {}
        t = self.elapsed()
        print(f"{t:6.0f} s step {self.steps} tokens {self.tokens / 1e6:.2f}M | " + " | ".join(parts), flush=True)

    @torch.no_grad()
    def evaluate(self, at, per_kind=24):
        """Held-out loss and the share of documents whose every wanted token is the argmax (teacher-forced)."""
        self.model.eval()
        sparse = at >= WARM
        line = []
        for kind in list(self.mixer.mix)[self.team.rank :: self.team.world]:
            shard = self.mixer.shards[kind]
            examples = [shard.get(i) for i in shard.held_out[:per_kind]]
            total, count, whole, lengths = 0.0, 0, 0, {}
            for e in examples:
                s = make_step([e], self.mixer.mix, self.c)
                h = self.model(s.batch, Trace(sparse=sparse), s.rows)
                _, best, each = HeadLoss.apply(h, self.model.lm_head, s.labels[s.rows], s.weight[s.rows])
                good = bool((best == s.labels[s.rows]).all())
                total, count, whole = total + each[: s.count].sum().item(), count + s.count, whole + good
                size = 256 if len(e.ids) <= 320 else 1024 if len(e.ids) <= 1400 else 4096
                lengths.setdefault(size, []).append(good)
            text = f"{kind} {total / count:.3f} ({whole / len(examples):.2f})"
            if kind == "facts":
                text += " " + " ".join(f"{k}:{sum(v) / len(v):.2f}" for k, v in sorted(lengths.items()))
            line.append(text)
        print(f"{self.elapsed():6.0f} s HELD OUT {'sparse' if sparse else 'dense'} | " + " | ".join(line), flush=True)

    def now(self):
        """Part of the time that has passed. A file DIR/stop ends the run after this step, to be resumed."""
        if self.team.rank == 0 and (self.out / "stop").exists():
            (self.out / "stop").unlink()
            return STOP
        return self.elapsed() / self.args.seconds

    def run(self, rank):
        self.begin(rank)
        next_report = self.elapsed() + 30
        next_save, next_eval = self.elapsed() + 300, self.elapsed() + self.args.eval_every
        while (at := self.team.agree(self.now())) < 1.0:
            self.step(at)
            if rank == 0 and self.elapsed() > next_report:
                self.report()
                next_report = self.elapsed() + 30
            if self.steps % 50 == 0:
                self.mixer.reload()
            if at * self.args.seconds > next_save:
                if rank == 0:
                    self.save()
                next_save = at * self.args.seconds + 300
            if at * self.args.seconds > next_eval:
                self.evaluate(at)
                next_eval = at * self.args.seconds + self.args.eval_every
        if rank == 0:
            self.save()
        if at < STOP:
            self.evaluate(1.0, per_kind=100)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=float, default=5400)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--data", required=True, help="folder written by data.py")
    p.add_argument("--out", required=True)
    p.add_argument("--tokens", type=int, default=2000, help="per step and worker")
    p.add_argument("--mtp-part", type=float, default=0.5, help="of a step's tokens that the MTP layer learns from")
    p.add_argument("--eval-every", type=float, default=300)
    p.add_argument("--workers", type=int, default=2, help="processes of one thread each")
    args = p.parse_args()
    torch.set_num_threads(1)
    trainer = Trainer(args, 4096)
    run(trainer.team, trainer.run)


if __name__ == "__main__":
    main()
