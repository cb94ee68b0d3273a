# SPDX-License-Identifier: Apache-2.0
#
# Makes the golden data of decoders_test.cpp from transformers' models:
#
#     python tests/parity/decoders_golden.py [CASE ...]     (torch 2.11.0, transformers 5.5.4, safetensors)
#
# One safetensors file a case, in decoders/: the "logits" of the last positions, and the gradients "grad/NAME" of the sum of logits times
# fixed numbers, in fp32. Weights, tokens and these numbers follow from a formula, which decoder_fill.hpp has too, so they are not stored.
# NAME is a parameter of the plugin, in its orientation. The metadata has
#
#     model, options     the plugin and its options
#     config             the config.json that transformers writes
#     tensors            names and shapes of the tensors that it writes
import json
import pathlib
import sys
import tempfile

import numpy
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).with_name("decoders")
KEPT_LOGITS = 6
BATCH = 2

SIZES = {"vocab_size": 29, "hidden_size": 30, "intermediate_size": 23, "num_hidden_layers": 2, "num_attention_heads": 5,
         "num_key_value_heads": 5, "max_position_embeddings": 40}
ROPE = {"rope_type": "default", "rope_theta": 1000.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 10, "beta_fast": 8.0, "beta_slow": 1.0,
        "mscale": 0.7, "mscale_all_dim": 0.9}
LONG = {"rope_type": "longrope", "original_max_position_embeddings": 10, "short_factor": [1.0, 1.1, 1.3, 1.5],
        "long_factor": [1.2, 1.9, 3.1, 4.7]}


# Options of the plugin for keys of transformers' configuration, where they differ.
def rope(theta, scaling=None):
    return {"rope_theta": theta, **({"rope_scaling": scaling} if scaling else {})}


# name: (plugin, options, positions)
CASES = {
    "llama": ("llama", {**SIZES, "num_key_value_heads": 1, "head_dim": 8, **rope(1000.0)}, 13),
    "qwen2": ("qwen2", {**SIZES, "num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1,
                        **rope(1000.0)}, 13),
    "qwen3": ("qwen3", {**SIZES, "num_key_value_heads": 1, "head_dim": 8, "tie_word_embeddings": True, "attention_bias": True,
                        **rope(1000.0)}, 13),
    "mistral": ("mistral", {**SIZES, "sliding_window": 4, "head_dim": 4, **rope(1000.0)}, 17),
    "gemma2": ("gemma2", {**SIZES, "num_hidden_layers": 3, "hidden_size": 28, "num_attention_heads": 4, "num_key_value_heads": 2,
                          "head_dim": 6, "sliding_window": 5, "query_pre_attn_scalar": 7, "attn_logit_softcapping": 4.0,
                          "final_logit_softcapping": 3.0, **rope(1000.0)}, 13),
    "gemma3": ("gemma3", {**SIZES, "num_hidden_layers": 3, "hidden_size": 28, "num_attention_heads": 4, "num_key_value_heads": 2,
                          "head_dim": 6, "sliding_window": 5, "sliding_window_pattern": 3, "query_pre_attn_scalar": 5,
                          "rope_local_base_freq": 50.0, **rope(5000.0, {"rope_type": "linear", "factor": 2.0})}, 13),
    "gpt2": ("gpt2", {"vocab_size": 29, "n_embd": 30, "n_layer": 2, "n_head": 5, "n_inner": 23, "n_positions": 40, "embd_pdrop": 0.0,
                      "attn_pdrop": 0.0, "resid_pdrop": 0.0}, 13),
    "phi": ("phi", {**SIZES, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, **rope(1000.0)}, 13),
    "phi_norms": ("phi", {**SIZES, "hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
                          "qk_layernorm": True, "partial_rotary_factor": 0.4, **rope(1000.0)}, 9),
    "phi3_long": ("phi3", {**SIZES, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, **rope(1000.0, LONG)}, 13),
    "phi3_short": ("phi3", {**SIZES, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
                            "sliding_window": 4, **rope(1000.0, LONG)}, 9),
    "qwen3_moe": ("qwen3_moe", {**SIZES, "num_hidden_layers": 3, "num_key_value_heads": 1, "head_dim": 8, "moe_intermediate_size": 11,
                                "num_experts": 5, "num_experts_per_tok": 2, "norm_topk_prob": True, "mlp_only_layers": [1],
                                "router_aux_loss_coef": 0.0, **rope(1000.0)}, 13),
    "mixtral": ("mixtral", {**SIZES, "num_key_value_heads": 1, "intermediate_size": 13, "num_local_experts": 4,
                            "num_experts_per_tok": 3, "sliding_window": 7, "router_aux_loss_coef": 0.0, **rope(1000.0)}, 13),
    "deepseek_v3": ("deepseek_v3", {**SIZES, "moe_intermediate_size": 7, "n_routed_experts": 6, "n_shared_experts": 2,
                                    "num_experts_per_tok": 2, "n_group": 3, "topk_group": 2, "first_k_dense_replace": 1,
                                    "routed_scaling_factor": 1.7, "q_lora_rank": 11, "kv_lora_rank": 9, "qk_nope_head_dim": 5,
                                    "qk_rope_head_dim": 8, "v_head_dim": 7, **rope(1000.0, YARN)}, 13),
    "deepseek_v3_full": ("deepseek_v3", {**SIZES, "num_hidden_layers": 1, "moe_intermediate_size": 7, "n_routed_experts": 4,
                                         "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 0,
                                         "norm_topk_prob": False, "q_lora_rank": None, "kv_lora_rank": 9, "qk_nope_head_dim": 4,
                                         "qk_rope_head_dim": 4, "v_head_dim": 8, "rope_interleave": False, "attention_bias": True,
                                         **rope(1000.0)}, 9),
    "olmo2": ("olmo2", {**SIZES, "num_key_value_heads": 1, **rope(1000.0)}, 13),
}

CLASSES = {"gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM"), "gpt2": ("GPT2Config", "GPT2LMHeadModel"),
           "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM"), "deepseek_v3": ("DeepseekV3Config", "DeepseekV3ForCausalLM")}
OWN_OPTIONS = ("rope_theta", "rope_scaling", "rope_local_base_freq", "sliding_window_pattern", "partial_rotary_factor")


def numbers(seed, shape):
    """Numbers in [-0.5, 0.5): splitmix64 of a counter that starts at a hash of the seed (FNV-1a)."""
    state = 0xCBF29CE484222325
    for byte in seed.encode():
        state = ((state ^ byte) * 0x100000001B3) % 2**64
    with numpy.errstate(over="ignore"):
        z = numpy.uint64(state) + (numpy.arange(1, int(numpy.prod(shape)) + 1, dtype=numpy.uint64)) * numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z = z ^ (z >> numpy.uint64(31))
    return torch.from_numpy(((z >> numpy.uint64(40)).astype(numpy.float64) / 2**24 - 0.5).reshape(shape))


def weight(name, shape, is_gemma):
    is_norm = len(shape) == 1 and name.endswith(".weight")
    offset = 1.0 if is_norm and not is_gemma else 0.0
    return (offset + numbers(name, shape) * (0.9 if len(shape) > 1 else 0.4)).float()


def config_of(model, options):
    config_class, _ = CLASSES.get(model, (model.title() + "Config", ""))
    keys = {k: v for k, v in options.items() if k not in OWN_OPTIONS}
    if model != "gpt2":
        full = {"rope_type": "default", "rope_theta": options["rope_theta"], **options.get("rope_scaling", {})}
        if "partial_rotary_factor" in options or model == "phi":
            full["partial_rotary_factor"] = options.get("partial_rotary_factor", 0.5)
        keys["rope_parameters"] = full
    if model == "gemma3":
        keys["rope_parameters"] = {"full_attention": full,
                                   "sliding_attention": {"rope_type": "default", "rope_theta": options["rope_local_base_freq"]}}
        keys["sliding_window_pattern"] = options["sliding_window_pattern"]
    if model == "phi3" and "rope_scaling" in options:
        keys["original_max_position_embeddings"] = options["rope_scaling"]["original_max_position_embeddings"]
    keys["attention_dropout" if model != "gpt2" else "attn_pdrop"] = 0.0
    return getattr(transformers, config_class)(**keys, attn_implementation="eager", experts_implementation="eager", use_cache=False,
                                               bos_token_id=None, eos_token_id=None, pad_token_id=None)


def parts(model, config, name, tensor):
    """(name, view) of each parameter of the plugin in a parameter of transformers."""
    if model == "gpt2" and tensor.dim() == 2 and ".h." in name:
        return [(name, tensor.t())]
    if model == "phi3" and "qkv_proj" in name:
        queries = tensor.shape[0] * config.num_attention_heads // (config.num_attention_heads + 2 * config.num_key_value_heads)
        rows = [queries, (tensor.shape[0] - queries) // 2, (tensor.shape[0] - queries) // 2]
        return [(name.replace("qkv", part), rows_of) for part, rows_of in zip("qkv", tensor.split(rows))]
    if model == "phi3" and "gate_up_proj" in name:
        return [(name.replace("gate_up", part), half) for part, half in zip(("gate", "up"), tensor.chunk(2))]
    own = name.replace(".mlp.", ".block_sparse_moe.") if model == "mixtral" else name
    gate, up, down = ("w1", "w3", "w2") if model == "mixtral" else ("gate_proj", "up_proj", "down_proj")
    if name.endswith("experts.gate_up_proj"):
        halves = tensor.chunk(2, dim=1)
        return [(own.replace("gate_up_proj", part) + ".weight", half) for part, half in zip((gate, up), halves)]
    if name.endswith("experts.down_proj"):
        return [(own.replace("down_proj", down) + ".weight", tensor)]
    return [(own, tensor)]


def make(case):
    model_name, options, positions = CASES[case]
    config = config_of(model_name, options)
    default = model_name.title().replace("_", "") + "ForCausalLM"
    model = getattr(transformers, CLASSES.get(model_name, ("", default))[1])(config).float().train()
    is_gemma = model_name.startswith("gemma")
    with torch.no_grad():
        for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
            if name.endswith("inv_freq") or name.endswith("embed_scale"):
                continue
            for own, view in parts(model_name, config, name, tensor):
                view.copy_(weight(own, tuple(view.shape), is_gemma))
    vocab = options["vocab_size"]
    input_ids = (torch.arange(BATCH * positions) * 7 + 3).remainder(vocab).view(BATCH, positions)
    logits = model(input_ids=input_ids).logits
    (logits * numbers("logits", tuple(logits.shape)).float()).sum().backward()

    tensors = {"logits": logits.detach()[:, -KEPT_LOGITS:]}
    for name, parameter in model.named_parameters():
        for own, view in parts(model_name, config, name, parameter.grad):
            tensors["grad/" + own] = view
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with safe_open(pathlib.Path(folder) / "model.safetensors", "pt") as file:
            shapes = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}
        text = (pathlib.Path(folder) / "config.json").read_text()
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / (case + ".safetensors")
    save_file({key: tensor.contiguous().clone() for key, tensor in tensors.items()}, path,
              metadata={"model": model_name, "options": json.dumps(options), "positions": str(positions), "config": text,
                        "tensors": json.dumps(shapes)})
    print(f"{path.name}: {path.stat().st_size} bytes, logits {logits.abs().max().item():.3f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for case in sys.argv[1:] or CASES:
        make(case)
