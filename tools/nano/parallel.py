"""Two workers of one thread each, on one set of parameters in shared memory: on few cores this beats threads inside the
operations by far, since nothing waits until a whole step is done.

A step: every worker lays its gradients into its own shared buffer; barrier; every worker updates the parameters it owns from the
mean of all buffers; barrier.
"""

import torch
import torch.multiprocessing as mp


class Team:
    def __init__(self, named, buffers, world):
        self.world, self.rank = world, 0
        self.names = list(named)
        self.barrier = mp.get_context("fork").Barrier(world)
        self.at = torch.zeros(1, dtype=torch.float64).share_memory_()
        self.grads = [{n: torch.zeros_like(p).share_memory_() for n, p in named.items()} for _ in range(world)]
        self.present = torch.zeros(world, len(named), dtype=torch.bool).share_memory_()
        self.loads = torch.zeros(world, *buffers).share_memory_()

    def agree(self, at):
        """Worker 0 decides at which part of the time everybody is."""
        if self.rank == 0:
            self.at[0] = at
        self.barrier.wait()
        return self.at.item()

    def give(self, named):
        for i, n in enumerate(self.names):
            g = named[n].grad
            self.present[self.rank, i] = g is not None
            if g is not None:
                self.grads[self.rank][n].copy_(g)
                named[n].grad = None
        self.barrier.wait()

    def given(self, n):
        """The gradients of a parameter, of those who have one."""
        i = self.names.index(n)
        return [self.grads[w][n] for w in range(self.world) if self.present[w, i]]

    def done(self):
        self.barrier.wait()


def run(team, work):
    """work(rank) in every worker, worker 0 in this process."""
    context = mp.get_context("fork")
    others = [context.Process(target=_enter, args=(team, work, r), daemon=True) for r in range(1, team.world)]
    for p in others:
        p.start()
    work(0)
    for p in others:
        p.join()


def _enter(team, work, rank):
    team.rank = rank
    work(rank)
