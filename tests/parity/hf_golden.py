# SPDX-License-Identifier: Apache-2.0
#
# Makes the golden data of export_test.cpp from transformers' LlamaForCausalLM:
#
#     python tests/parity/hf_golden.py          (torch 2.11.0, transformers 5.5.4, safetensors)
#
# One folder a configuration, as save_pretrained leaves it, and logits.safetensors in it: "input_ids" and the "logits" that follow from them in
# fp32. The first is sharded, the second is tied and in one file.
import pathlib
import shutil

import torch
import transformers
from safetensors.torch import save_file

COMMON = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,
          "initializer_range": 0.25, "rms_norm_eps": 1e-5}
CASES = {
    "hf_sharded": {"tie_word_embeddings": False,
                   "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    "hf_tied": {"tie_word_embeddings": True, "num_hidden_layers": 1,
                "rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0,
                                    "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                    "original_max_position_embeddings": 8}},
}


def make(name, own):
    torch.manual_seed(21)
    config = transformers.LlamaConfig(**{**COMMON, **own}, attn_implementation="eager", use_cache=False,
                                      pad_token_id=None, bos_token_id=None, eos_token_id=None)
    model = transformers.LlamaForCausalLM(config).float().eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith("norm.weight"):
                parameter.add_(torch.randn_like(parameter) * 0.2)
        input_ids = torch.randint(COMMON["vocab_size"], (2, 12))
        logits = model(input_ids=input_ids).logits
    folder = pathlib.Path(__file__).with_name(name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size="10KB")
    save_file({"input_ids": input_ids, "logits": logits.contiguous()}, folder / "logits.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for case, own in CASES.items():
        make(case, own)
