# SPDX-License-Identifier: Apache-2.0
#
# Makes flops_golden.json, for flops_test.cpp, from transformers' models of decoders_golden.py:
#
#     python tests/parity/flops_golden.py     (torch 2.11.0, transformers 5.5.4)
#
# Products with weights are counted by torch's FlopCounterMode, forward and backward. It counts attention as if each position saw all
# others, so the count of a pair of positions is multiplied by the pairs whose attention weight is not 0. Each sequence runs alone. The
# formulas are computed from the sizes in transformers' configuration, by hand.
import json
import pathlib

import torch
import transformers
from decoders_golden import CASES, CLASSES, config_of
from torch.utils.flop_counter import FlopCounterMode

LENGTHS = [9, 1, 13, 4]


def is_attention(module):
    return module.split(".")[-1] in ("self_attn", "attn")


def counted(model, config, length):
    """(products with weights forward, the same backward, attention forward) of one sequence."""
    ids = (torch.arange(length) * 7 + 3).remainder(config.vocab_size).view(1, length)
    with FlopCounterMode(display=False) as forward:
        out = model(input_ids=ids, output_attentions=True)
    with FlopCounterMode(display=False) as backward:
        out.logits.sum().backward()
    mm = [torch.ops.aten.mm, torch.ops.aten.addmm]
    products = sum(forward.get_flop_counts()["Global"].get(op, 0) for op in mm)
    products_backward = sum(backward.get_flop_counts()["Global"].get(op, 0) for op in mm)
    modules = {name: counts for name, counts in forward.get_flop_counts().items() if is_attention(name)}
    attention = 0
    for (name, counts), weights in zip(sorted(modules.items(), key=lambda m: int(m[0].split(".")[-2])), out.attentions, strict=True):
        pairs = int((weights[0, 0] != 0).sum())
        attention += counts[torch.ops.aten.bmm] // length**2 * pairs
    return products, products_backward, attention


def sizes(model, config, options):
    """What the formulas need, from transformers' parameters and configuration."""
    layers = config.num_hidden_layers
    heads = config.num_attention_heads
    unused = 0
    if "num_experts_per_tok" in options:
        experts = options.get("num_experts") or options.get("num_local_experts") or options.get("n_routed_experts")
        inner = options.get("moe_intermediate_size") or options["intermediate_size"]
        sparse = layers - options.get("first_k_dense_replace", len(options.get("mlp_only_layers", [])))
        unused = sparse * (experts - options["num_experts_per_tok"]) * 3 * config.hidden_size * inner
    if "kv_lora_rank" in options:
        width = heads * (options["qk_nope_head_dim"] + options["qk_rope_head_dim"] + options["v_head_dim"]) / 2
    else:
        width = heads * (getattr(config, "head_dim", None) or config.hidden_size // heads)
    return {"parameters": sum(p.numel() for p in model.parameters()) - unused,
            "embedding": sum(p.numel() for m in model.modules() if isinstance(m, torch.nn.Embedding) for p in m.parameters()),
            "heads": layers * width, "hidden": layers * config.hidden_size}


def make(case):
    model_name, options, _ = CASES[case]
    config = config_of(model_name, options)
    default = model_name.title().replace("_", "") + "ForCausalLM"
    model = getattr(transformers, CLASSES.get(model_name, ("", default))[1])(config).float().train()
    # Sums of all experts' inputs, whatever the router chooses: products are counted for each.
    total = [0, 0, 0]
    for length in LENGTHS:
        total = [a + b for a, b in zip(total, counted(model, config, length))]
    products, products_backward, attention = total
    s = sizes(model, config, options)
    tokens, squares = sum(LENGTHS), sum(n * n for n in LENGTHS)
    return {"model": model_name, "options": options, "forward": products + attention,
            "backward": products_backward + 2 * attention,
            "palm": 6 * s["parameters"] * tokens + 12 * s["heads"] * squares,
            "titan": 6 * (s["parameters"] - s["embedding"]) * tokens + 12 * s["heads"] * squares,
            "modalities": 6 * s["parameters"] * tokens + 12 * s["hidden"] * squares}


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(1)
    golden = {"lengths": LENGTHS, "cases": {case: make(case) for case in CASES}}
    pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(golden, indent=1) + "\n")
    for case, one in golden["cases"].items():
        print(case, {key: one[key] for key in one if key not in ("model", "options")})
