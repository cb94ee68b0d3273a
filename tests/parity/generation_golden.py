# SPDX-License-Identifier: Apache-2.0
#
# Makes the golden data of generation_test.cpp: greedy texts of 256 tokens by transformers' `generate`, with the weights
# that llama_golden.py made and longer sequences.
#
#     python tests/parity/generation_golden.py          (torch 2.11.0, transformers 5.5.4, safetensors)
#
# Writes generation_golden.json: by case, the options of the model plugin, the ids of the prompt, those that follow, and the
# smallest difference between the two largest logits of a step. A text is a test only if no step is close to a tie.
import json
import pathlib

import torch
import transformers
from safetensors import safe_open

NEW_TOKENS = 256
CASES = {"llama_gqa": {"max_position_embeddings": 512}, "llama_rope_llama3": {}, "llama_mha_tied": {"max_position_embeddings": 300}}
PROMPT = [3, 17, 29, 5, 11, 38, 0]


def generated(name, changes):
    with safe_open(pathlib.Path(__file__).with_name(name + ".safetensors"), "pt") as file:
        options = json.loads(file.metadata()["options"]) | changes
        weights = {key.removeprefix("weight/"): file.get_tensor(key) for key in file.keys() if key.startswith("weight/")}
    rope = {"rope_type": "default", "rope_theta": options["rope_theta"], **options.get("rope_scaling", {})}
    config = transformers.LlamaConfig(
        **{k: v for k, v in options.items() if k not in ("rope_theta", "rope_scaling")}, rope_parameters=rope,
        attn_implementation="eager", pad_token_id=None, bos_token_id=None, eos_token_id=None)
    model = transformers.LlamaForCausalLM(config).float().eval()
    model.load_state_dict(weights, strict=False)
    prompt = torch.tensor([PROMPT])
    with torch.no_grad():
        result = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=NEW_TOKENS,
                                do_sample=False, use_cache=True, return_dict_in_generate=True, output_logits=True)
    ids = result.sequences[0, len(PROMPT):].tolist()
    assert len(ids) == NEW_TOKENS, len(ids)
    gaps = []
    for logits in result.logits:
        best = logits[0].topk(2).values
        gaps.append((best[0] - best[1]).item())
    print(f"{name}: {len(set(ids))} different ids, smallest gap {min(gaps):.2e}")
    return {"options": options, "prompt": PROMPT, "ids": ids, "smallest_gap": min(gaps)}


pathlib.Path(__file__).with_name("generation_golden.json").write_text(
    json.dumps({name: generated(name, changes) for name, changes in CASES.items()}) + "\n")
