# SPDX-License-Identifier: Apache-2.0
"""Makes the PEFT folders of adapter_export_test.cpp:

    python tests/parity/peft_golden.py          (torch 2.11.0, transformers 5.5.4, peft 0.21.2, safetensors)

One folder a kind of adapter, as save_pretrained leaves it, on the base in hf_sharded; and golden.safetensors in it: "input_ids",
the "logits" of the adapted model in fp32, and "merged/NAME", the adapted matrices after merge_and_unload.
"""

import json
import pathlib
import shutil

import peft
import torch
import transformers
from safetensors.torch import save_file

CASES = {
    "peft_lora": {"rank_pattern": {"layers.0.mlp.down_proj": 2}, "alpha_pattern": {"layers.0.mlp.down_proj": 6}},
    "peft_rslora": {"use_rslora": True},
    "peft_dora": {"use_dora": True},
}


def make(name, own):
    torch.manual_seed(22)
    here = pathlib.Path(__file__).parent
    base = transformers.AutoModelForCausalLM.from_pretrained(
        here / "hf_sharded", dtype=torch.float32, attn_implementation="eager").eval()
    config = peft.LoraConfig(r=3, lora_alpha=5, lora_dropout=0.0, bias="none", task_type="CAUSAL_LM",
                             target_modules=["q_proj", "v_proj", "down_proj"], **own)
    model = peft.get_peft_model(base, config).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "lora_" in key:
                parameter.add_(torch.randn_like(parameter) * 0.1)
        input_ids = torch.randint(base.config.vocab_size, (2, 12))
        logits = model(input_ids=input_ids, use_cache=False).logits
    folder = here / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    settings = json.loads((folder / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = None  # a path of the machine
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    (folder / "README.md").unlink(missing_ok=True)
    merged = model.merge_and_unload()
    tensors = {"input_ids": input_ids, "logits": logits.contiguous()}
    for key, parameter in merged.named_parameters():
        if any(key.endswith(f"{one}.weight") for one in ("q_proj", "v_proj", "down_proj")):
            tensors["merged/" + key] = parameter.detach().contiguous().clone()
    save_file(tensors, folder / "golden.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for case, own in CASES.items():
        make(case, own)
