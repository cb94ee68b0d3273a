# SPDX-License-Identifier: Apache-2.0
"""The decoders of the `decoders` workload: from each plugin to its options, which peers/decoders_peer.py turns into a
configuration of transformers. 4 layers of width 512, 512 tokens a step."""

TOKENS = 512
VOCABULARY = 4096  # tokens are bytes; the head has a size of its own
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4,
         "num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 1024, "rope_theta": 10000.0}
GROUPED = {**SIZES, "num_key_value_heads": 2}
GEMMA = {**GROUPED, "head_dim": 64, "sliding_window": 256, "query_pre_attn_scalar": 64}

DENSE = {
    "llama": GROUPED,
    "qwen2": GROUPED,
    "qwen3": {**GROUPED, "head_dim": 64},
    "mistral": {**GROUPED, "head_dim": 64, "sliding_window": 256},
    "gemma2": {**GEMMA, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3": {**GEMMA, "sliding_window_pattern": 2, "rope_local_base_freq": 10000.0},
    "gpt2": {"vocab_size": VOCABULARY, "n_embd": 512, "n_layer": 4, "n_head": 8, "n_inner": 2048, "n_positions": 1024,
             "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0},
    "phi": SIZES,
    "phi3": SIZES,
    "olmo2": SIZES,
}
EXPERTS = {
    "qwen3_moe": {**GROUPED, "head_dim": 64, "moe_intermediate_size": 352, "num_experts": 32, "num_experts_per_tok": 4,
                  "norm_topk_prob": True, "router_aux_loss_coef": 0.0},
    "mixtral": {**GROUPED, "intermediate_size": 704, "num_local_experts": 8, "num_experts_per_tok": 2,
                "router_aux_loss_coef": 0.0},
    # transformers does not move the bias that balances experts.
    "deepseek_v3": {**SIZES, "bias_update_speed": 0.0, "moe_intermediate_size": 352, "n_routed_experts": 32,
                    "n_shared_experts": 1, "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2, "first_k_dense_replace": 1,
                    "routed_scaling_factor": 1.5, "q_lora_rank": 256, "kv_lora_rank": 128, "qk_nope_head_dim": 32,
                    "qk_rope_head_dim": 32, "v_head_dim": 64},
}
SHAPES = {**DENSE, **EXPERTS}
