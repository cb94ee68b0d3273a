# SPDX-License-Identifier: Apache-2.0
"""Writes a PEFT folder with an adapter of rank 16 on all matrices of the layers; neither A nor B is zero.

usage: peft_adapter.py MODEL FOLDER        (prints a line of JSON with the number of parameters)
"""
import json
import os
import sys

os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
import peft
import torch
import transformers


def main():
    model_folder, folder = sys.argv[1:3]
    torch.manual_seed(1)
    base = transformers.AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    config = peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, bias="none", task_type="CAUSAL_LM",
                             target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
    model = peft.get_peft_model(base, config)
    count = 0
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=1e-3)
            count += parameter.numel() if parameter.requires_grad else 0
    model.save_pretrained(folder)
    print(json.dumps({"parameters": count}), flush=True)


main()
