# SPDX-License-Identifier: Apache-2.0
"""Compares what adapter_export_test.cpp exported with PEFT: BASE ADAPTER MERGED.

PEFT loads the adapter on its base, and transformers the merged folder: their logits and the merged weights must be equal.
"""

import sys

import peft
import torch
import transformers


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()


def main(base, adapter, merged):
    ids = torch.arange(24).reshape(2, 12) * 5 % 64
    model = peft.PeftModel.from_pretrained(load(base), adapter).eval()
    with torch.no_grad():
        adapted = model(input_ids=ids, use_cache=False).logits
        own = load(merged)
        difference = (own(input_ids=ids, use_cache=False).logits - adapted).abs().max().item()
        unmerged = (load(base)(input_ids=ids, use_cache=False).logits - adapted).abs().max().item()
    theirs = dict(model.merge_and_unload().named_parameters())
    of_weights = max((theirs[name] - value).abs().max().item() for name, value in own.named_parameters())
    print(f"logits differ by {difference:.2e}, weights by {of_weights:.2e}; the base's logits by {unmerged:.2e}")
    return 0 if difference < 1e-5 and of_weights < 1e-6 and unmerged > 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
