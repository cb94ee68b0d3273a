# SPDX-License-Identifier: Apache-2.0
"""Greedy text by transformers' `generate`, with its default cache.

usage: generate_peer.py FOLDER PROMPT TOKENS THREADS     (prints a line of JSON)
"""
import json
import os
import sys
import time
import warnings

warnings.filterwarnings("ignore")
os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
import torch
import transformers


class Times(transformers.StoppingCriteria):
    """The time of each new token."""

    def __init__(self):
        self.at = []

    def __call__(self, input_ids, scores, **_):
        self.at.append(time.monotonic())
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)


folder, prompt = sys.argv[1:3]
num_tokens, threads = (int(word) for word in sys.argv[3:5])
torch.set_num_threads(threads)
# AutoTokenizer makes a GPT2Tokenizer, which ignores the pre-tokenizer of the file.
tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
given = tokenizer(prompt, return_tensors="pt")
times = Times()
with torch.inference_mode():
    ids = model.generate(**given, max_new_tokens=num_tokens, do_sample=False, use_cache=True,
                         stopping_criteria=transformers.StoppingCriteriaList([times]))[0, given.input_ids.shape[1]:]
if ids[-1].item() == model.generation_config.eos_token_id:
    ids, times.at = ids[:-1], times.at[:-1]
print(json.dumps({"prompt": given.input_ids.shape[1], "tokens": len(ids), "text": tokenizer.decode(ids),
                  "rate": (len(ids) - 1) / (times.at[-1] - times.at[0])}), flush=True)
