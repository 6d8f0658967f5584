"""Makes the tiny tokenizer of the tests and the encodings it is checked against.

Writes tests/data/tokenizer/{tokenizer.json,tokenizer_config.json,goldens.json}: a byte-level BPE with 512 base tokens
trained on the text below, a GPT-4 style split, ignore_merges, and the 36 added tokens of the GLM-5 family right
after the base tokens. Goldens come from the Python `tokenizers` library itself.

    python tools/goldens/make_tiny_tokenizer.py          # needs tokenizers 0.23
"""

import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "tokenizer"
NUM_BASE = 512

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# In order of id. Names that text parsers must see are not special, so that decoding keeps them.
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

CORPUS = """
A mill grinds grain between two stones. The lower stone lies still, and the upper stone turns above it. Water or wind
drives the wheel, and the wheel drives the stone. The miller listens: a stone that runs dry sings, and a stone that is
fed well hums. When the grain is wet the flour is heavy, and when the grain is dry the flour is light and white.

The river rises in the hills and runs to the sea. In the spring it is fast and cold; in the summer it is slow and warm.
There are three bridges over the river. The first bridge is made of wood, the second is made of stone, and the third is
made of iron. Every morning the children walk over the second bridge to school, and every evening they walk home again.

What is the weather in Paris today? The weather in Paris is mild, with some rain in the afternoon. How many days are
there in a week? There are seven days in a week. What comes after Monday? After Monday comes Tuesday. I don't know, but
I'll find out; you're right, we've seen it, she's here, they'd like that, and I'm sure it'll work.

To answer the question, I need to think about it step by step. First, I will look at the numbers. Then I will add them.
Finally, I will check the result. The answer is 42. Let me look that up. I should call the tool with the city and the
number of days. The tool says that it is 21 degrees. So the answer is: it is 21 degrees in the city.

def add(a, b):
    return a + b

for i in range(10):
    print(i, add(i, i))

int main() { for (int i = 0; i < 10; ++i) { printf("%d\\n", i); } return 0; }

{"name": "get_weather", "description": "Get the weather", "parameters": {"type": "object", "properties": {"city":
{"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}

# Tools
You may call one or more functions to assist with the user query. Reasoning Effort: Max. Reasoning Effort: High.

1 2 3 4 5 6 7 8 9 10 11 12 100 1000 2024 2025 3.14 0.5
今天天气很好。我们去公园吧。你好，世界！时间是三点。
Der Fluss fließt ins Meer. Où est la gare ? El niño come una manzana. Привет, мир!
"""

TEXTS = [
    "",
    " ",
    "\n",
    "\n\n  \n",
    "Hi",
    "The capital of France is",
    "the stone, THE STONE; I'm sure they'd've said it's ok",
    "tabs\tand\r\nline ends\r\n\r\nend   ",
    "1234567 3.14159 -42 0xff",
    "你好，世界！",
    "naïve café Привет 🙂🏳️‍🌈 e\u0301",
    "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>Hi<|assistant|><think>",
    "a<|user|>b <think> c</think>d<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>",
    "<|use r|> <think <|endoftext|><|endoftext|> [MASK][gMASK] /nothink",
    "nul \x00 bell \x07 del \x7f nbsp \u00a0 zwsp \u200b bom \ufeff",
    "private \ue000 last \U0010ffff replacement \ufffd",
    "def f(x):\n    return {'a': [1, 2.5, None], \"b\": x != 3}\n",
    "Ġ is a letter of the byte alphabet, and so is Ċ",
]


def build() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=NUM_BASE,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([CORPUS], trainer)
    assert tokenizer.get_vocab_size() == NUM_BASE
    tokenizer.add_tokens([
        AddedToken(text, special=text not in NOT_SPECIAL, normalized=False) for text in ADDED
    ])
    assert tokenizer.token_to_id("<|endoftext|>") == NUM_BASE
    assert tokenizer.token_to_id("<|video|>") == NUM_BASE + 35
    return tokenizer


def config() -> dict:
    return {
        "added_tokens_decoder": {
            str(NUM_BASE + i): {
                "content": text, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                "special": text not in NOT_SPECIAL,
            }
            for i, text in enumerate(ADDED)
        },
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|endoftext|>",
        "model_max_length": 4096,
        "pad_token": "<|endoftext|>",
        "padding_side": "left",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def goldens(tokenizer: Tokenizer) -> dict:
    rng = random.Random(7)
    vocab = tokenizer.get_vocab_size()
    decodings = []
    for length in (0, 1, 2, 3, 5, 8, 13, 40):
        for skip in (False, True):
            # Mostly single bytes: random ones make broken characters of every kind.
            ids = [rng.randrange(256) if rng.random() < 0.7 else rng.randrange(vocab) for _ in range(length)]
            decodings.append({"ids": ids, "skip": skip, "text": tokenizer.decode(ids, skip_special_tokens=skip)})
    return {
        "vocab_size": vocab,
        "encodings": [{"text": t, "ids": tokenizer.encode(t, add_special_tokens=False).ids} for t in TEXTS],
        "decodings": decodings,
    }


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    tokenizer = build()
    tokenizer.save(str(OUT / "tokenizer.json"))
    (OUT / "tokenizer_config.json").write_text(json.dumps(config(), indent=2, ensure_ascii=False) + "\n")
    lines = json.dumps(goldens(tokenizer), ensure_ascii=True).replace("}, {", "},\n{")
    (OUT / "goldens.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
