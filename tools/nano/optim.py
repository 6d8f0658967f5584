"""Muon for matrices, AdamW for the rest; f32 masters of bf16 parameters.

Muon (Jordan et al. 2024): the momentum of a matrix is replaced by the nearest (semi-)orthogonal matrix, found by Newton-Schulz
iteration. Every expert's gate, up and down is a matrix of its own; matrices of one shape are done in one batched product.
"""

import native
import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalize(g, steps=4):
    """[batch, rows, cols] -> bf16, singular values pushed to about 1."""
    a, b, c = COEFFICIENTS
    x = g.bfloat16()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.float().flatten(1).norm(dim=1).view(-1, 1, 1) + 1e-7).bfloat16()
    x = x.contiguous()
    for _ in range(steps):
        s = torch.bmm(x, x.transpose(1, 2))
        s = torch.bmm(s, s).mul_(c).add_(s, alpha=b)
        x = torch.bmm(s, x).add_(x, alpha=a)
    return x.transpose(1, 2) if tall else x


def as_matrices(name, p):
    """Views of a parameter as [batch, rows, cols]."""
    if name.endswith("gate_up"):
        e, two_i, h = p.shape
        return p.view(2 * e, two_i // 2, h)
    return p if p.dim() == 3 else p.unsqueeze(0)


class Optimizer:
    """Every worker of the team owns some of the parameters: its part of the work is to update those."""

    MUON_LR, EMBED_LR, HEAD_LR, SMALL_LR = 0.02, 6e-3, 3e-3, 3e-3

    def __init__(self, named, team, weight_decay=0.01):
        self.named, self.team, self.weight_decay = named, team, weight_decay
        self.state = {}
        for n, p in named.items():
            s = {"master": p.detach().float().clone(), "m": torch.zeros(p.shape), "steps": torch.zeros(())}
            if not self.is_muon(n, p):
                s["v"] = torch.zeros(p.shape)
            self.state[n] = {k: t.share_memory_() for k, t in s.items()}
        self.owner = self._share_out()

    def _share_out(self):
        """Evenly by cost: an orthogonalization is about 30 rows passes over the matrix."""
        load, owner = [0.0] * self.team.world, {}
        cost = {}
        for n, p in self.named.items():
            m = as_matrices(n, p) if self.is_muon(n, p) else None
            cost[n] = p.numel() * (10.0 if m is None else 20 + min(m.shape[1:]))
        for n in sorted(cost, key=cost.get, reverse=True):
            w = load.index(min(load))
            owner[n] = w
            load[w] += cost[n]
        return owner

    @staticmethod
    def is_muon(name, p):
        return p.dim() >= 2 and ".indexer." not in name and not name.endswith(("embed_tokens", "lm_head", "mlp.gate"))

    def rate(self, name):
        if name == "embed_tokens":
            return self.EMBED_LR
        return self.HEAD_LR if name == "lm_head" else self.SMALL_LR

    @torch.no_grad()
    def step(self, factor):
        """factor(name): learning-rate factor of the schedule. Parameters without a gradient are left alone."""
        self.team.give(self.named)
        muon = {}
        for n, p in self.named.items():
            if self.owner[n] != self.team.rank:
                continue
            grads = self.team.given(n)
            if not grads:
                continue
            self.state[n]["steps"] += 1
            if self.is_muon(n, p):
                muon.setdefault(tuple(as_matrices(n, p).shape[1:]), []).append((n, grads))
            else:
                self._adam(n, sum(g.float() for g in grads) / len(grads), factor(n))
                p.copy_(self.state[n]["master"])
        for shape, items in muon.items():
            self._muon(shape, items, factor)
        self.team.done()

    def _muon(self, shape, items, factor):
        """All matrices of one shape at once."""
        rows, cols = shape
        counts = [self.named[n].numel() // (rows * cols) for n, _ in items]
        updates = torch.empty(sum(counts), rows, cols, dtype=torch.bfloat16)
        fast = native.lib is not None and self.named[items[0][0]].dtype == torch.bfloat16
        at = 0
        for (n, grads), k in zip(items, counts):
            m, part = self.state[n]["m"], updates[at : at + k]
            if fast:
                native.momentum(grads, m, part)
            else:
                g = sum(g.float() for g in grads)
                m.lerp_(g, 0.05)  # momentum 0.95, Nesterov
                part.copy_(torch.lerp(g, m, 0.95).view(part.shape))
            at += k
        directions = orthogonalize(updates).contiguous()
        at = 0
        for (n, _), k in zip(items, counts):
            rate = self.MUON_LR * factor(n) * max(1.0, rows / cols) ** 0.5
            master, part = self.state[n]["master"], directions[at : at + k]
            if fast:
                native.apply(master, part, self.named[n].data, 1 - rate * self.weight_decay, rate)
            else:
                master.mul_(1 - rate * self.weight_decay).sub_(part.float().view(master.shape), alpha=rate)
                self.named[n].copy_(master)
            at += k

    def _adam(self, n, g, factor, b1=0.9, b2=0.98):
        s = self.state[n]
        t = s["steps"].item()
        s["m"].lerp_(g, 1 - b1)
        s["v"].lerp_(g.square(), 1 - b2)
        hat = (s["v"] / (1 - b2**t)).sqrt_().add_(1e-10)
        s["master"].addcdiv_(s["m"] / (1 - b1**t), hat, value=-factor * self.rate(n))

    def load_state_dict(self, saved):
        for n, s in saved.items():
            for k, v in s.items():
                self.state[n][k].copy_(v)
        for n, p in self.named.items():
            p.data.copy_(self.state[n]["master"])
