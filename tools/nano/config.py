"""The sizes of quern-nano, and its config.json."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NanoConfig:
    vocab_size: int
    hidden: int = 256
    layers: int = 6
    dense_layers: int = 1
    dense_inter: int = 512
    heads: int = 8
    q_lora: int = 128
    kv_lora: int = 64
    nope: int = 32
    rope: int = 16
    v: int = 32
    experts: int = 32
    experts_per_token: int = 4
    moe_inter: int = 96
    routed_scale: float = 2.5
    index_heads: int = 4
    index_dim: int = 32
    index_topk: int = 128
    # Layers 0, 1, 3, 5 own an indexer; 2 and 4 use the selection of the layer before them.
    index_freq: int = 2
    index_offset: int = 2
    theta: float = 1e5
    eps: float = 1e-5
    # transformers builds the two norms of the latents with its default, not with rms_norm_eps.
    latent_eps: float = 1e-6
    index_eps: float = 1e-6
    max_positions: int = 32768

    def has_indexer(self, layer):
        """The MTP layer (index `layers`) always has one."""
        return layer == self.layers or max(layer - self.index_offset + 1, 0) % self.index_freq == 0

    def index_owner(self, layer):
        while not self.has_indexer(layer):
            layer -= 1
        return layer

    def is_moe(self, layer):
        return layer >= self.dense_layers


def hf_config(c, eos_ids, pad_id):
    """config.json, field for field as GLM-5.2's."""
    return {
        "architectures": ["GlmMoeDsaForCausalLM"],
        "model_type": "glm_moe_dsa",
        "dtype": "bfloat16",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "eos_token_id": eos_ids,
        "pad_token_id": pad_id,
        "ep_size": 1,
        "first_k_dense_replace": c.dense_layers,
        "head_dim": c.nope,
        "hidden_act": "silu",
        "hidden_size": c.hidden,
        "index_head_dim": c.index_dim,
        "index_n_heads": c.index_heads,
        "index_share_for_mtp_iteration": True,
        "index_skip_topk_offset": c.index_offset,
        "index_topk": c.index_topk,
        "index_topk_freq": c.index_freq,
        "index_topk_pattern": None,
        "indexer_rope_interleave": True,
        "indexer_types": ["full" if c.has_indexer(i) else "shared" for i in range(c.layers)],
        "initializer_range": 0.02,
        "intermediate_size": c.dense_inter,
        "kv_lora_rank": c.kv_lora,
        "max_position_embeddings": c.max_positions,
        "mlp_layer_types": ["sparse" if c.is_moe(i) else "dense" for i in range(c.layers)],
        "moe_intermediate_size": c.moe_inter,
        "moe_layer_freq": 1,
        "moe_router_dtype": "float32",
        "n_group": 1,
        "n_routed_experts": c.experts,
        "n_shared_experts": 1,
        "norm_topk_prob": True,
        "num_attention_heads": c.heads,
        "num_experts_per_tok": c.experts_per_token,
        "num_hidden_layers": c.layers,
        "num_key_value_heads": c.heads,
        "num_nextn_predict_layers": 1,
        "pretraining_tp": 1,
        "q_lora_rank": c.q_lora,
        # quern's own: what transformers does with the norms of the latents, whatever rms_norm_eps says.
        "quern_latent_norm_eps": c.latent_eps,
        "qk_head_dim": c.nope + c.rope,
        "qk_nope_head_dim": c.nope,
        "qk_rope_head_dim": c.rope,
        "rms_norm_eps": c.eps,
        "rope_interleave": True,
        "rope_parameters": {"rope_theta": c.theta, "rope_type": "default"},
        "routed_scaling_factor": c.routed_scale,
        "scoring_func": "sigmoid",
        "tie_word_embeddings": False,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "transformers_version": "5.24.0",
        "use_cache": True,
        "v_head_dim": c.v,
        "vocab_size": c.vocab_size,
    }
