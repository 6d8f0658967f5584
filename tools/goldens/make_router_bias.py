"""Writes tests/golden/router-bias.json: transformers' router in f32 where half precision chooses other experts.

    python make_router_bias.py

Biases lie around 34.5, as in the published models; for every token the last expert chosen and the first one left out
are 1e-3 apart in score + bias. In bf16 both sums are the same number.
"""

import numpy as np
import torch
import transformers
from transformers.models.glm_moe_dsa.modeling_glm_moe_dsa import GlmMoeDsaTopkRouter

from make_logits import ROOT, dump, number
from reference_model import stable_topk

TOKENS, HIDDEN, EXPERTS, CHOSEN = 12, 32, 16, 4
OFFSET, GAP, SCALE = 34.5, 1e-3, 2.5


def scores_of(hidden, weight):
    return 1 / (1 + np.exp(-(hidden.astype(np.float64) @ weight.astype(np.float64).T)))


def tokens_near_a_tie(weight, bias, rng):
    """Hidden rows moved along one direction until the 4th and 5th choice are GAP apart."""
    rows = []
    while len(rows) < TOKENS:
        start, step = rng.normal(size=HIDDEN), rng.normal(size=HIDDEN)
        steps = np.linspace(0, 1, 20001)
        choice = np.sort(scores_of(start + steps[:, None] * step, weight) + bias, axis=1)
        gaps = choice[:, -CHOSEN] - choice[:, -CHOSEN - 1]
        clear = choice[:, -CHOSEN + 1] - choice[:, -CHOSEN]
        near = np.flatnonzero((np.abs(gaps - GAP) < 2e-5) & (clear > GAP))
        if len(near):
            rows.append(start + steps[near[0]] * step)
    return np.array(rows, np.float32)


def main():
    rng = np.random.RandomState(11)
    weight = (rng.normal(size=(EXPERTS, HIDDEN)) / HIDDEN**0.5).astype(np.float32)
    bias = (OFFSET + 0.14 * rng.normal(size=EXPERTS)).astype(np.float32)
    hidden = tokens_near_a_tie(weight, bias.astype(np.float64), rng)
    config = transformers.GlmMoeDsaConfig(
        hidden_size=HIDDEN, n_routed_experts=EXPERTS, num_experts_per_tok=CHOSEN, routed_scaling_factor=SCALE
    )
    router = GlmMoeDsaTopkRouter(config)
    router.weight.data = torch.from_numpy(weight)
    router.e_score_correction_bias.copy_(torch.from_numpy(bias))
    with stable_topk():  # also puts the choice in order
        _, weights, experts = router(torch.from_numpy(hidden))
    router.e_score_correction_bias.copy_(torch.from_numpy(bias).bfloat16().float())
    other = router(torch.from_numpy(hidden))[2]
    changed = int((experts.sort(1).values != other.sort(1).values).any(1).sum())
    assert changed > TOKENS // 3, "a bf16 bias must matter here"
    ranked = np.sort(scores_of(hidden, weight) + bias, axis=1)
    gaps = ranked[:, -CHOSEN] - ranked[:, -CHOSEN - 1]
    flat = lambda x: [number(v) for v in np.asarray(x).ravel()]
    golden = {
        "about": f"score + bias of the last expert chosen and the first left out differ by {GAP}",
        "made_with": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__},
        "num_tokens": TOKENS,
        "hidden_size": HIDDEN,
        "num_experts": EXPERTS,
        "experts_per_token": CHOSEN,
        "norm_topk_prob": True,
        "routed_scaling_factor": SCALE,
        "tokens_that_a_bf16_bias_changes": changed,
        "gaps": flat(gaps),
        "bias": flat(bias),
        "weight": flat(weight),
        "hidden": flat(hidden),
        "experts": experts.reshape(-1).tolist(),
        "weights": flat(weights),
    }
    dump(golden, ROOT / "tests" / "golden" / "router-bias.json")
    print(f"gaps {gaps.min():.2g} to {gaps.max():.2g}; a bf16 bias changes {changed} of {TOKENS} tokens")


if __name__ == "__main__":
    with torch.no_grad():
        main()
