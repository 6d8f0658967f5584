"""Trains the tokenizer of quern-nano on samples of its training data.

A byte-level BPE as GLM's, with its added tokens in its order; but each digit is a token of its own, so that sums are
learned by place and not by heart.

    python tools/nano/make_tokenizer.py
"""

import itertools
import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import chat
import data

NUM_TOKENS = 4096
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Names that text parsers must see are not special, so that decoding keeps them.
NOT_SPECIAL = [
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
    "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
]
ADDED = (
    ["<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>"]
    + ["<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
    + [f"<|{edge}_of_{kind}|>" for kind in ("image", "video", "audio", "transcription") for edge in ("begin", "end")]
    + ["<|code_prefix|>", "<|code_middle|>", "<|code_suffix|>"]
    + NOT_SPECIAL
    + ["/nothink", "<|begin_of_box|>", "<|end_of_box|>", "<|image|>", "<|video|>"]
)
SAMPLES = {"arithmetic": 4000, "facts": 800, "tools": 4000, "json": 3000, "quern": 5000, "smalltalk": 1000, "story": 4000}


def corpus():
    for kind, count in SAMPLES.items():
        for conversation in itertools.islice(data.conversations(kind, "tokenizer"), count):
            text = "".join(text for text, _ in chat.segments(conversation))
            for token in ADDED:
                text = text.replace(token, "\n")  # added tokens are cut out before the merges see the text
            yield text
    # The generators' own words leave room for some tokens of general use.
    for page in [chat.ROOT / "README.md", *sorted((chat.ROOT / "docs").rglob("*.md"))]:
        yield page.read_text()


def build():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=NUM_TOKENS - len(ADDED), initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    print(tokenizer.get_vocab_size(), "base tokens")
    tokenizer.add_tokens([AddedToken(text, special=text not in NOT_SPECIAL, normalized=False) for text in ADDED])
    return tokenizer


def config(tokenizer):
    return {
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(text)): {
                "content": text, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                "special": text not in NOT_SPECIAL,
            }
            for text in ADDED
        },
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|endoftext|>",
        "model_max_length": 32768,
        "pad_token": "<|endoftext|>",
        "padding_side": "left",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def main():
    out = chat.ROOT / "models" / "quern-nano"
    tokenizer = build()
    tokenizer.save(str(out / "tokenizer.json"))
    (out / "tokenizer_config.json").write_text(json.dumps(config(tokenizer), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
