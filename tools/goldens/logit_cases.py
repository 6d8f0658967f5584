"""The cases of make_logits.py: which random checkpoints are run, how, and over which contexts."""

from dataclasses import dataclass, field

# The tokenizer of tests/data/tokenizer has 548 tokens: see the presets of make-test-checkpoint.
TINY_DSA = {
    "architectures": ["GlmMoeDsaForCausalLM"],
    "model_type": "glm_moe_dsa",
    "vocab_size": 576,
    "hidden_size": 128,
    "num_hidden_layers": 6,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 64,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "qk_head_dim": 48,
    "v_head_dim": 32,
    "intermediate_size": 256,
    "moe_intermediate_size": 64,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "routed_scaling_factor": 2.5,
    "norm_topk_prob": True,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "moe_router_dtype": "float32",
    "n_group": 1,
    "topk_group": 1,
    "index_n_heads": 4,
    "index_head_dim": 32,
    "index_topk": 16,
    "indexer_types": ["full", "full", "full", "shared", "shared", "full"],
    "index_share_for_mtp_iteration": True,
    "rope_interleave": True,
    "indexer_rope_interleave": True,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "attention_bias": False,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "eos_token_id": [512, 519, 521],
    "pad_token_id": 512,
}


def dsa(drop=(), **changes):
    return {k: v for k, v in (TINY_DSA | changes).items() if k not in drop}


def lite(**changes):
    config = {k: v for k, v in TINY_DSA.items() if not k.startswith(("index", "scoring", "moe_router"))}
    config |= {"architectures": ["Glm4MoeLiteForCausalLM"], "model_type": "glm4_moe_lite"}
    return config | {"num_hidden_layers": 4, "routed_scaling_factor": 1.8} | changes


# Ends inside a 128-block in every direction: q_a has 160 rows, kv_a 64 + 16, kv_b 4 x (48 + 40).
EDGE = dsa(
    vocab_size=160,
    hidden_size=192,
    num_hidden_layers=4,
    indexer_types=["full", "full", "shared", "full"],
    q_lora_rank=160,
    kv_lora_rank=64,
    qk_nope_head_dim=48,
    qk_head_dim=64,
    v_head_dim=40,
    intermediate_size=224,
    moe_intermediate_size=96,
    n_routed_experts=4,
    eos_token_id=[159],
    pad_token_id=159,
)

# Every layer full, as in GLM-5 and 5.1: no word about index sharing; theta at the top level.
GLM5_STYLE = dsa(
    drop=("indexer_types", "index_share_for_mtp_iteration", "moe_router_dtype", "rope_parameters"),
    rope_theta=1000000.0,
    vocab_size=192,
    num_hidden_layers=4,
    head_dim=64,
    index_topk=8,
    eos_token_id=[191],
    pad_token_id=191,
)

# Layers 0, 1, 2 and 6 full by the schedule of 5.2; nothing is a multiple of 32, three heads, top-3 of 7
# experts whose weights are neither normalised nor scaled.
ODD_SIZES = dsa(
    drop=("indexer_types",),
    index_topk_freq=4,
    index_skip_topk_offset=3,
    vocab_size=131,
    hidden_size=100,
    num_hidden_layers=7,
    num_attention_heads=3,
    num_key_value_heads=3,
    head_dim=192,
    q_lora_rank=44,
    kv_lora_rank=36,
    qk_nope_head_dim=26,
    qk_rope_head_dim=10,
    qk_head_dim=36,
    v_head_dim=22,
    intermediate_size=75,
    moe_intermediate_size=41,
    n_routed_experts=7,
    num_experts_per_tok=3,
    norm_topk_prob=False,
    routed_scaling_factor=1.0,
    index_n_heads=3,
    index_head_dim=19,
    index_topk=13,
    first_k_dense_replace=2,
    rms_norm_eps=1e-6,
    rope_parameters={"rope_theta": 8000000.0, "rope_type": "default"},
    eos_token_id=[130],
    pad_token_id=130,
)

# 32 experts top-4 and a shared MLP two experts wide; sharing by pattern; MLP kinds by list.
MANY_EXPERTS = dsa(
    drop=("indexer_types", "first_k_dense_replace", "n_routed_experts"),
    index_topk_pattern="FSFS",
    mlp_layer_types=["dense", "sparse", "dense", "sparse"],
    num_experts=32,
    vocab_size=160,
    num_hidden_layers=4,
    moe_intermediate_size=32,
    num_experts_per_tok=4,
    n_shared_experts=2,
    eos_token_id=[159],
    pad_token_id=159,
)

# For bf16 at long contexts: two MoE layers and a wide spread of the router's biases, so that rounding
# seldom changes which experts a token takes (README.md, "What bf16 can be held to").
CALM = dsa(
    vocab_size=256,
    num_hidden_layers=3,
    indexer_types=["full", "shared", "full"],
    index_topk=64,
    eos_token_id=[255],
    pad_token_id=255,
)


@dataclass
class Case:
    name: str
    about: str
    config: dict
    layout: str
    compute: str = "f32"  # "f32" or "bf16": activations, and weights that are not quantized
    seed: int = 1
    router_bias_offset: float = 6.9
    router_bias_spread: float = 0.05
    # f32: positions of one prompt whose logits are kept. bf16: one prompt for each, its last position.
    positions: list = field(default_factory=lambda: [4, 15, 16, 63, 199])
    greedy_from: list = field(default_factory=lambda: [5, 200])  # lengths of the prompts continued
    candidates: int = 24


def layout_case(layout):
    about = f"weights stored as {layout}, judged on what they decode to"
    return Case(f"layout-{layout}", about, EDGE, layout, positions=[16, 63], greedy_from=[12])


LAYOUTS = """f16 fp8-block quark-mxfp4 quark-mxfp4-fp8 quark-fp8-block quark-fp8-channel quark-fp8-tensor
ct-mxfp4 ct-fp8-channel ct-fp8-block ct-nvfp4 modelopt-nvfp4 gpt-oss fused-bf16""".split()

BF16 = {"compute": "bf16", "candidates": 96, "greedy_from": [12], "router_bias_spread": 2.0}

CASES = [
    Case("tiny-dsa-f32", "full and shared indexers, topk 16: below, at and above it", TINY_DSA, "f32"),
    Case("tiny-dsa-bf16-weights", "bf16 weights, f32 arithmetic", TINY_DSA, "bf16", seed=2),
    Case(
        "tiny-dsa-bf16",
        "bf16 throughout, six layers, contexts up to topk",
        TINY_DSA,
        "bf16",
        **BF16 | {"router_bias_spread": 0.05},
        positions=[4, 15, 16],
    ),
    Case(
        "calm-dsa-bf16",
        "bf16 throughout, contexts below, at and above topk",
        CALM,
        "bf16",
        **BF16,
        positions=[16, 63, 64, 199],
    ),
    Case("tiny-lite-f32", "no indexer: attention over everything", lite(), "f32"),
    Case(
        "calm-lite-bf16",
        "no indexer, bf16",
        lite(vocab_size=256, num_hidden_layers=3, eos_token_id=[255], pad_token_id=255),
        "bf16",
        **BF16,
        positions=[4, 63, 199],
    ),
    Case("glm5-style-f32", "every layer has its own indexer", GLM5_STYLE, "f32", greedy_from=[5]),
    Case("odd-sizes-f32", "freq and offset; no size divides 32", ODD_SIZES, "f32", greedy_from=[11]),
    Case("many-experts-f32", "32 experts, two shared; pattern", MANY_EXPERTS, "f32", greedy_from=[20]),
    *[layout_case(layout) for layout in LAYOUTS],
    *[
        Case(
            f"calm-{layout}-bf16",
            f"weights stored as {layout}, bf16 arithmetic; judged on what they decode to",
            CALM,
            layout,
            **BF16,
            positions=[16, 63],
        )
        for layout in ("fp8-block", "quark-mxfp4")
    ],
]
