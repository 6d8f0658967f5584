"""Heads that look back by a fixed distance, at the start of training.

Copying (what facts, tool arguments and JSON need) is done by two layers together: a head that brings each token's predecessor
along, and one that looks for a predecessor like its own token. The first of the two is slow to be found here: rotary keys get
their position only from what all inputs have in common, and random embeddings have nothing in common. So embeddings get a
common direction u, and some heads of layer 0 begin with queries and keys that read only u and match at distance 1, 2, 3:

    score(t, s) = G sum_i cos(theta_i (t - s - distance))        over the fastest rotary pairs

Everything stays trainable.
"""

import torch

DISTANCES = (1, 1, 2, 3)  # of heads 0, 1, ...
COMMON = 5.0  # length of the common part of an embedding; the rest has about 0.5 sqrt(hidden) = 8
PAIRS = 4
GAIN = 8.0  # G
KEY = 3.0  # amplitude of the keys


@torch.no_grad()
def install(p, c, u):
    """p: parameters of model.py by name (changed in place); u [hidden]: a unit vector."""
    embed = p["embed_tokens"].float()
    embed -= torch.outer(embed @ u, u)
    other = embed.norm(dim=1).mean()
    embed += COMMON * u
    p["embed_tokens"].copy_(embed)
    x_u = c.hidden**0.5 * COMMON / (other**2 + COMMON**2) ** 0.5  # what a normed input has along u
    gamma = p["layers.0.input_layernorm"].float()
    read = gamma * u / (gamma * u).norm() ** 2  # W row `read`: 1 per unit of x along u, nothing else on average

    scale = (c.nope + c.rope) ** -0.5
    theta = c.theta ** (-torch.arange(0, c.rope, 2, dtype=torch.float32) / c.rope)
    attn = "layers.0.self_attn."
    q_a, q_b, kv_a = (p[attn + n].float() for n in ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa"))
    # The latent's first element becomes the constant that queries read.
    q_a[0] = read
    rest = ((c.q_lora - 1) / c.q_lora) ** 0.5
    constant = x_u / (rest**2 + x_u**2 / c.q_lora) ** 0.5
    constant = constant * p[attn + "q_a_layernorm"].float()[0]
    rows = kv_a[c.kv_lora :].view(-1, 2, c.hidden)
    rows *= 0.5
    rows[:PAIRS, 0] += KEY / x_u * read
    wide = c.nope + c.rope
    for head, distance in enumerate(DISTANCES):
        mine = q_b[head * wide : (head + 1) * wide]
        mine *= 0.3
        turn = mine[c.nope :].view(-1, 2, c.q_lora)
        size = GAIN / (scale * KEY) / constant
        turn[:PAIRS, 0, 0] = size * torch.cos(theta[:PAIRS] * distance)
        turn[:PAIRS, 1, 0] = -size * torch.sin(theta[:PAIRS] * distance)
    for n, w in (("q_a_proj", q_a), ("q_b_proj", q_b), ("kv_a_proj_with_mqa", kv_a)):
        p[attn + n].copy_(w)
