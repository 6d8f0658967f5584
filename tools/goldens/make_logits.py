"""Writes tests/golden/*.json: logits and greedy continuations of Hugging Face transformers.

    python make_logits.py --tool build/.../make-test-checkpoint [--only NAME ...] [--out DIR]

Each random checkpoint is written by quern's generator (the same flags give the same bytes), decoded by
stored_weights.py, and run by transformers. README.md here says how prompts are chosen.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
import torch
import transformers

import reference_model as reference
import stored_weights
from logit_cases import CASES

ROOT = Path(__file__).resolve().parents[2]
NUM_GREEDY = 64
BOUNDS = {"f32": 1e-4, "bf16": 2e-2}  # max |difference| / max |logit| that quern promises
LATENT_NORM_EPS = 1e-6  # transformers' class default, whatever rms_norm_eps says; checked in run_case


def number(x):
    return float(f"{float(x):.9g}")


def weights_hashes(folder):
    data = b"".join(p.read_bytes() for p in sorted(folder.glob("*.safetensors")))
    return {"weights_sha256": hashlib.sha256(data).hexdigest(), "weights_crc32": zlib.crc32(data)}


def write_checkpoint(tool, case, folder):
    config = folder / "wanted.json"
    config.write_text(json.dumps(case.config))
    flags = ["--config", config, "--layout", case.layout, "--seed", case.seed]
    flags += ["--router-bias-offset", case.router_bias_offset, "--router-bias-spread", case.router_bias_spread]
    subprocess.run([str(x) for x in [tool, folder, *flags]], check=True)
    config.unlink()


class Models:
    """The run that is recorded, and others whose rounding differs: where they part, so may quern."""

    def __init__(self, config, weights, compute):
        self.main = reference.build(config, weights, compute)
        self.loops = reference.build(config, weights, compute, fast=False)
        self.f32 = self.main if compute == "f32" else reference.build(config, weights, "f32")

    def rest(self):
        return [self.loops] if self.f32 is self.main else [self.loops, self.f32]


def deviation(a, b):
    """max |a - b| / max |b| per batch row, over all that follows."""
    axes = tuple(range(1, a.ndim))
    return np.abs(a - b).max(axes) / np.abs(b).max(axes)


def leading(flags):
    """How many leading entries of each row are true."""
    return np.where(flags.all(1), flags.shape[1], flags.argmin(1))


def spread_of(models, prompts, positions):
    """Largest disagreement of any two of the models per prompt, and the recorded model's logits."""
    runs = [reference.logits_of(m, prompts)[:, positions] for m in [models.main, *models.rest()]]
    pairs = [deviation(a, b) for i, a in enumerate(runs) for b in runs[i + 1 :]]
    return np.max(pairs, axis=0), runs[0]


def prompts_for(case, length, salt):
    rng = np.random.RandomState([case.seed, length, salt])
    return rng.randint(0, case.config["vocab_size"], (case.candidates, length))


def logits_run(case, models, length, positions, salt):
    """The candidate prompt on which the models agree best, with its logits."""
    prompts = prompts_for(case, length, salt)
    spread, _ = spread_of(models, prompts, positions)
    best = int(np.argmin(spread))
    logits = reference.logits_of(models.main, prompts[best : best + 1])[0]
    exact = reference.logits_of(models.f32, prompts[best : best + 1])[0]
    rows = []
    for position in positions:
        row, top = logits[position], np.sort(logits[position])
        entry = {"position": position, "argmax": int(row.argmax()), "margin": number(top[-1] - top[-2])}
        if models.f32 is not models.main:
            entry["deviation_from_f32"] = number(deviation(row[None], exact[position][None])[0])
        rows.append(entry | {"logits": [number(x) for x in row]})
    agreement = {"candidates": case.candidates, "spread": number(spread[best]), "median_spread": number(np.median(spread))}
    return {"prompt": prompts[best].tolist(), "agreement": agreement, "rows": rows}


def greedy_run(case, models, length):
    """The candidate that stays farthest from ties, of those on which the models agree."""
    prompts = prompts_for(case, length, salt=7)
    tokens, margins, largest = reference.greedy(models.main, prompts, NUM_GREEDY)
    agreed = np.full(len(prompts), NUM_GREEDY)
    for model in models.rest():
        agreed = np.minimum(agreed, leading(reference.greedy(model, prompts, NUM_GREEDY)[0] == tokens))
    clear = leading(margins > 2 * BOUNDS[case.compute] * largest.max(1, keepdims=True))
    smallest = np.array([m[:n].min() if n else 0 for m, n in zip(margins, agreed)])
    best = max(range(len(prompts)), key=lambda i: (min(agreed[i], clear[i]), agreed[i], smallest[i]))
    tokens, margins, largest = (x[0] for x in reference.greedy(models.main, prompts[best : best + 1], NUM_GREEDY))
    return {
        "prompt": prompts[best].tolist(),
        "candidates": len(prompts),
        "agreed_tokens": int(agreed[best]),
        "fully_agreed_candidates": int((agreed == NUM_GREEDY).sum()),
        "max_abs_logit": number(largest.max()),
        "tokens": tokens.tolist(),
        "margins": [number(m) for m in margins],
    }


def run_case(case, folder, stored):
    config = json.loads((folder / "config.json").read_text())
    weights = stored_weights.decode_all(folder)
    models = Models(config, weights, case.compute)
    attention = models.main.model.layers[0].self_attn
    assert attention.q_a_layernorm.variance_epsilon == LATENT_NORM_EPS
    assert attention.kv_a_layernorm.variance_epsilon == LATENT_NORM_EPS
    if case.layout in ("f32", "bf16", "f16"):
        assert reference.loads_alike(folder, models.f32), "from_pretrained sees other weights"
    if case.compute == "f32":
        runs = [logits_run(case, models, max(case.positions) + 1, case.positions, salt=0)]
    else:
        runs = [logits_run(case, models, p + 1, [p], salt=0) for p in case.positions]
    return {
        "name": case.name,
        "about": case.about,
        "made_with": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__},
        "checkpoint": stored,
        "compute": case.compute,
        "latent_norm_eps": LATENT_NORM_EPS,
        "runs": runs,
        "greedy": [greedy_run(case, models, length) for length in case.greedy_from],
    }


def dump(golden, path):
    """One line per field; long lists of numbers stay on one line."""

    def text(value, indent):
        pad = " " * indent
        if isinstance(value, dict):
            body = ",\n".join(f'{pad} "{k}": {text(v, indent + 1)}' for k, v in value.items())
            return "{\n" + body + f"\n{pad}}}"
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(pad + " " + text(v, indent + 1) for v in value) + f"\n{pad}]"
        return json.dumps(value, separators=(",", ":"))

    path.write_text(text(golden, 0) + "\n")


def summary(golden):
    spreads = [f'{r["agreement"]["spread"]:.2g}/{r["agreement"]["median_spread"]:.2g}' for r in golden["runs"]]
    greedy = [
        f'{g["agreed_tokens"]} agreed, least margin {min(g["margins"]) / g["max_abs_logit"]:.2g}' for g in golden["greedy"]
    ]
    return f'{golden["name"]}: spread {" ".join(spreads)}, greedy {"; ".join(greedy)}'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True, help="the built make-test-checkpoint")
    parser.add_argument("--only", nargs="*", help="names of cases; default all")
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "golden")
    args = parser.parse_args()
    known = {case.name for case in CASES}
    if unknown := set(args.only or []) - known:
        sys.exit(f"unknown case {sorted(unknown)}, want some of {sorted(known)}")
    for case in CASES:
        if args.only and case.name not in args.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            write_checkpoint(args.tool, case, folder)
            stored = {
                "config": case.config,
                "layout": case.layout,
                "seed": case.seed,
                "router_bias_offset": case.router_bias_offset,
                "router_bias_spread": case.router_bias_spread,
            } | weights_hashes(folder)
            golden = run_case(case, folder, stored)
        dump(golden, args.out / f"{case.name}.json")
        print(summary(golden), flush=True)


if __name__ == "__main__":
    main()
