# SPDX-License-Identifier: Apache-2.0
#
# Makes the golden data of llama_test.cpp from transformers' LlamaForCausalLM:
#
#     python tests/parity/llama_golden.py          (torch 2.11.0, transformers 5.5.4, safetensors)
#
# One safetensors file a configuration, in this folder: the weights ("weight/NAME"), a batch ("input_ids", "labels", where
# -100 is ignored), and what follows from them in fp32: "logits", the summed cross-entropy "loss_sum", and its gradients
# ("grad/NAME"). The metadata has the options of the model plugin, which are the configuration's own.
import json
import pathlib

import torch
import transformers
from safetensors.torch import save_file

BATCH, POSITIONS, IGNORED = 2, 12, -100
KEPT_LOGITS = 12  # of the last positions

# Matrices are drawn wider than in training, so that attention is far from uniform.
CASES = {
    "llama_gqa": {"num_attention_heads": 8, "num_key_value_heads": 2, "tie_word_embeddings": False,
                  "rms_norm_eps": 1e-5, "rope_theta": 500000.0},
    "llama_mha_tied": {"num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": True,
                       "rms_norm_eps": 1e-6, "rope_theta": 10000.0},
    # Llama 3's scaling, with waves on both sides of it and between, at more positions than the original 64: logits are
    # kept for the last of them.
    "llama_rope_llama3": {"num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True,
                          "rms_norm_eps": 1e-5, "rope_theta": 500.0, "hidden_size": 64,
                          "intermediate_size": 32, "num_hidden_layers": 1, "initializer_range": 0.1,
                          "max_position_embeddings": 512,
                          "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                           "high_freq_factor": 4.0, "original_max_position_embeddings": 64}},
    "llama_rope_linear": {"num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": True,
                          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "num_hidden_layers": 1,
                          "max_position_embeddings": 512, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    # Past the length up to which the fused attention keeps whole matrices of scores.
    "llama_long": {"num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True,
                   "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "num_hidden_layers": 1, "hidden_size": 16,
                   "intermediate_size": 16, "max_position_embeddings": 2048},
}
POSITIONS_OF = {"llama_rope_llama3": 200, "llama_rope_linear": 200, "llama_long": 2048}
COMMON = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 2,
          "max_position_embeddings": 16, "initializer_range": 0.25}


def make(name, options):
    torch.manual_seed(20)
    positions = POSITIONS_OF.get(name, POSITIONS)
    rope = {"rope_type": "default", "rope_theta": options["rope_theta"], **options.get("rope_scaling", {})}
    config = transformers.LlamaConfig(
        **{k: v for k, v in options.items() if k not in ("rope_theta", "rope_scaling")}, rope_parameters=rope,
        attn_implementation="eager", use_cache=False, pad_token_id=None, bos_token_id=None,
        eos_token_id=None)
    model = transformers.LlamaForCausalLM(config).float().train()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith("norm.weight"):
                parameter.add_(torch.randn_like(parameter) * 0.2)

    input_ids = torch.randint(options["vocab_size"], (BATCH, positions))
    labels = torch.randint(options["vocab_size"], (BATCH, positions))
    labels[0, :3] = IGNORED
    labels[1, -1] = IGNORED
    logits = model(input_ids=input_ids).logits
    # The model's own loss shifts the labels; here they are aligned already.
    loss_sum = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
    loss_sum.backward()

    tensors = {"input_ids": input_ids, "labels": labels, "logits": logits.detach()[:, -KEPT_LOGITS:],
               "loss_sum": loss_sum.detach()}
    for key, parameter in model.named_parameters():
        tensors["weight/" + key] = parameter.detach()
        tensors["grad/" + key] = parameter.grad
    tensors = {key: tensor.contiguous().clone() for key, tensor in tensors.items()}
    path = pathlib.Path(__file__).with_name(name + ".safetensors")
    save_file(tensors, path, metadata={"options": json.dumps(options)})
    print(f"{path.name}: {path.stat().st_size} bytes, loss_sum {loss_sum.item():.6f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for case, own in CASES.items():
        make(case, {**COMMON, **own})
