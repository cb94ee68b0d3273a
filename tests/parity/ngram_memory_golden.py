# SPDX-License-Identifier: Apache-2.0
"""Makes ngram_memory_golden.json: a llama with a memory of n-grams in plain PyTorch, and the gradients.

    python tests/parity/ngram_memory_golden.py > tests/parity/ngram_memory_golden.json     (torch 2.11.0)

The llama is written from its paper, and the memory from Cheng et al. (2026), section 2, without its convolution. Parameters and rows are
a formula of their number and place, `made`, which ngram_memory_test.cpp has too. A gradient is stored as one number: the sum of its
elements times the cosine of their places. All is fp64, except that the table of rotary positions is fp32.
"""

import json
import math

import torch

IDS = [[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]]
VOCAB, WIDTH, INNER, HEADS, KV_HEADS, DIM = 11, 16, 20, 4, 2, 3
EPS = 1e-6
THETA = 10000.0


def made(number, shape, around=0.0):
    places = torch.arange(math.prod(shape), dtype=torch.float64)
    return (around + 0.5 * torch.sin(0.37 * places + number)).reshape(shape).requires_grad_()


def norm(x, weight):
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + EPS) * weight


def rotated(x):
    """x [B, T, H, E]: pairs that are half of a head apart."""
    half = x.shape[-1] // 2
    rates = 1.0 / THETA ** (torch.arange(0, 2 * half, 2).float() / (2 * half))
    angles = torch.outer(torch.arange(x.shape[1]).float(), rates)
    cos, sin = (f(angles).double()[None, :, None, :] for f in (torch.cos, torch.sin))
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attention(x, p):
    B, T, _ = x.shape
    q, k, v = ((x @ p(f"self_attn.{name}_proj.weight").T).reshape(B, T, -1, WIDTH // HEADS) for name in "qkv")
    q, k = rotated(q), rotated(k)
    k, v = (y.repeat_interleave(HEADS // KV_HEADS, 2) for y in (k, v))
    scores = torch.einsum("bthe,bshe->bhts", q, k) / math.sqrt(WIDTH // HEADS)
    scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -math.inf)
    y = torch.einsum("bhts,bshe->bthe", torch.softmax(scores, -1), v).reshape(B, T, WIDTH)
    return y @ p("self_attn.o_proj.weight").T


def feed_forward(x, p):
    gate = x @ p("mlp.gate_proj.weight").T
    return (gate * torch.sigmoid(gate) * (x @ p("mlp.up_proj.weight").T)) @ p("mlp.down_proj.weight").T


def memory(x, rows, p):
    e = torch.cat(rows, -1)
    key = norm(e @ p("memory.key_proj.weight").T, p("memory.key_norm.weight"))
    query = norm(x, p("memory.query_norm.weight"))
    gate = torch.sigmoid((query * key).sum(-1, keepdim=True) / math.sqrt(WIDTH))
    return x + gate * (e @ p("memory.value_proj.weight").T)


def llama(parameters, rows, num_layers, layers):
    x = parameters["model.embed_tokens.weight"][torch.tensor(IDS)]
    for i in range(num_layers):
        p = lambda name: parameters[f"model.layers.{i}.{name}"]
        if i in layers:
            x = memory(x, rows, p)
        x = x + attention(norm(x, p("input_layernorm.weight")), p)
        x = x + feed_forward(norm(x, p("post_attention_layernorm.weight")), p)
    return norm(x, parameters["model.norm.weight"]) @ parameters["lm_head.weight"].T


def shapes(num_layers, layers, columns):
    kv = KV_HEADS * WIDTH // HEADS
    found = {"model.embed_tokens.weight": [VOCAB, WIDTH]}
    for i in range(num_layers):
        of_layer = {}
        if i in layers:
            of_layer |= {"memory.key_proj.weight": [WIDTH, columns * DIM], "memory.value_proj.weight": [WIDTH, columns * DIM],
                         "memory.query_norm.weight": [WIDTH], "memory.key_norm.weight": [WIDTH]}
        of_layer |= {"input_layernorm.weight": [WIDTH], "self_attn.q_proj.weight": [WIDTH, WIDTH],
                     "self_attn.k_proj.weight": [kv, WIDTH], "self_attn.v_proj.weight": [kv, WIDTH],
                     "self_attn.o_proj.weight": [WIDTH, WIDTH], "post_attention_layernorm.weight": [WIDTH],
                     "mlp.gate_proj.weight": [INNER, WIDTH], "mlp.up_proj.weight": [INNER, WIDTH],
                     "mlp.down_proj.weight": [WIDTH, INNER]}
        found |= {f"model.layers.{i}.{name}": shape for name, shape in of_layer.items()}
    return found | {"model.norm.weight": [WIDTH], "lm_head.weight": [VOCAB, WIDTH]}


CASES = [("one layer", 2, [1], ["a"]), ("two layers share three columns", 3, [0, 2], ["a", "b", "c"])]


def checksum(grad):
    return float((grad.flatten() * torch.cos(torch.arange(grad.numel(), dtype=torch.float64))).sum())


def main():
    out = []
    for name, num_layers, layers, columns in CASES:
        p = {key: made(i, shape, 1.0 if "norm" in key else 0.0)
             for i, (key, shape) in enumerate(shapes(num_layers, layers, len(columns)).items())}
        rows = [made(100 + i, [len(IDS), len(IDS[0]), DIM]) for i in range(len(columns))]
        logits = llama(p, rows, num_layers, layers)
        total = (logits * made(200, logits.shape).detach()).sum()
        sums = [checksum(grad) for grad in torch.autograd.grad(total, [*p.values(), *rows])]
        out.append({
            "name": name, "ids": IDS, "columns": columns,
            "options": {"vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": num_layers,
                        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "rope_theta": THETA,
                        "memory": {"columns": columns, "dim": DIM, "layers": layers}},
            "logits": logits.flatten().tolist(),
            "parameters": [{"name": key, "shape": list(value.shape), "grad": sums[i]} for i, (key, value) in enumerate(p.items())],
            "rows": sums[len(p):]})
    print("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
