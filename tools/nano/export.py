"""Writes a trained model as a Hugging Face checkpoint, and checks it against transformers.

    python export.py --model DIR/model.pt --out models/quern-nano [--check]
"""

import argparse
import json
import pathlib

import torch
from config import hf_config
from layout import to_hf
from model import Batch, Nano, Trace
from safetensors.torch import save_file

EOS = ("<|endoftext|>", "<|user|>", "<|observation|>")


def write(checkpoint, out):
    c = checkpoint["config"]
    tokenizer = json.loads((out / "tokenizer.json").read_text())
    ids = {t["content"]: t["id"] for t in tokenizer["added_tokens"]}
    eos = [ids[t] for t in EOS]
    tensors = {n: v.contiguous().clone() for n, v in to_hf(checkpoint["model"], c).items()}
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(hf_config(c, eos, eos[0]), indent=2) + "\n")
    generation = {
        "do_sample": False,  # it is too small to be drawn from
        "eos_token_id": eos,
        "pad_token_id": eos[0],
        "transformers_version": "5.24.0",
    }
    (out / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    return tensors


@torch.no_grad()
def check(checkpoint, out):
    """Largest difference of f32 logits between transformers on the written files and model.py, over contexts around topk."""
    from transformers import AutoModelForCausalLM

    c = checkpoint["config"]
    theirs = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
    ours = Nano(c, torch.float32)
    rounded = {n: v.bfloat16().float() if "correction_bias" not in n else v for n, v in checkpoint["model"].items()}
    ours.load_state_dict(rounded)
    ours.eval()
    generator = torch.Generator().manual_seed(1)
    for length in (16, 100, 128, 129, 300):
        ids = torch.randint(0, c.vocab_size, (length,), generator=generator)
        batch = Batch.of([ids.tolist()], c)
        mine = torch.mm(ours(batch, Trace(sparse=True)), ours.lm_head.t())
        other = theirs(input_ids=ids.unsqueeze(0), use_cache=False).logits[0]
        worst = (mine - other).abs().max().item() / other.abs().max().item()
        print(f"{length} tokens: largest difference of logits {worst:.1e} of the largest logit", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    checkpoint = torch.load(args.model, weights_only=False)
    out = pathlib.Path(args.out)
    tensors = write(checkpoint, out)
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    print(f"{len(tensors)} tensors, {sum(t.numel() for t in tensors.values())} parameters, {size / 1e6:.1f} MB")
    if args.check:
        check(checkpoint, out)


if __name__ == "__main__":
    main()
