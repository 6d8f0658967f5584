"""Writes tests/golden/quern-nano.json: transformers' logits of the bundled model on real prompts.

    python make_nano.py

Short, about 1k and about 4k tokens: questions of the held-out sets, of which the one is taken on which transformers' own
ways of computing (sdpa and grouped experts, plain loops) agree best, since sparse selection may turn on a last digit.
"""

import json

import numpy as np
import torch
import transformers
from jinja2 import Environment
from tokenizers import Tokenizer

import make_logits
from make_logits import LATENT_NORM_EPS, ROOT, Models, number

MODEL = ROOT / "models" / "quern-nano"
EVALS = ROOT / "models" / "evals"
CANDIDATES = 4


def prompts_of(name, count, thinking):
    env = Environment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = lambda x, ensure_ascii=False, **_: json.dumps(x, ensure_ascii=ensure_ascii)
    template = env.from_string((MODEL / "chat_template.jinja").read_text())
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    for line in (EVALS / f"{name}.jsonl").read_text().splitlines()[:count]:
        item = json.loads(line)
        text = template.render(
            messages=item["messages"], tools=item.get("tools"), add_generation_prompt=True, enable_thinking=thinking
        )
        yield tokenizer.encode(text, add_special_tokens=False).ids


def run_of(models, name):
    best = None
    for prompt in prompts_of(name, CANDIDATES, thinking=True):
        positions = sorted({len(prompt) // 2, len(prompt) - 1})
        spread, logits = make_logits.spread_of(models, [prompt], positions)
        if best is None or spread[0] < best[0]:
            best = spread[0], prompt, positions, logits[0]
    spread, prompt, positions, logits = best
    rows = []
    for position, row in zip(positions, logits):
        top = np.sort(row)
        rows.append(
            {
                "position": position,
                "argmax": int(row.argmax()),
                "margin": number(top[-1] - top[-2]),
                "logits": [float(f"{x:.7g}") for x in row],
            }
        )
    return {"prompt": prompt, "agreement": {"candidates": CANDIDATES, "spread": number(spread), "median_spread": number(spread)}, "rows": rows}


def greedy_of(models):
    """The answer to a question, as far as no rounding can change it."""
    best = None
    for prompt in prompts_of("quern", 8, thinking=False):
        tokens, margins, largest = (x[0] for x in make_logits.reference.greedy(models.main, [prompt], make_logits.NUM_GREEDY))
        if best is None or margins.min() > best[2].min():
            best = prompt, tokens, margins, largest
    prompt, tokens, margins, largest = best
    return {
        "prompt": prompt,
        "candidates": 8,
        "agreed_tokens": len(tokens),
        "fully_agreed_candidates": 1,
        "max_abs_logit": number(largest.max()),
        "tokens": tokens.tolist(),
        "margins": [number(m) for m in margins],
    }


def main():
    config = json.loads((MODEL / "config.json").read_text())
    models = Models(config, make_logits.stored_weights.decode_all(MODEL), "f32")
    golden = {
        "name": "quern-nano",
        "about": "the bundled model on prompts of about 100, 1k and 4k tokens",
        "made_with": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__},
        "checkpoint": {"folder": "../../models/quern-nano"} | make_logits.weights_hashes(MODEL),
        "compute": "f32",
        "latent_norm_eps": LATENT_NORM_EPS,
        "runs": [run_of(models, name) for name in ("arithmetic", "facts_1k", "facts_4k")],
        "greedy": [greedy_of(models)],
    }
    make_logits.dump(golden, ROOT / "tests" / "golden" / "quern-nano.json")
    print(make_logits.summary(golden), flush=True)


if __name__ == "__main__":
    main()
