# SPDX-License-Identifier: Apache-2.0
#
# What transformers and torch make of an export, for export_test.cpp:
#
#     python tests/parity/hf_peer.py FOLDER STATE_DICT IDS OUT
#
# Writes OUT: "logits" of the folder's model for "input_ids" of IDS (modulo the vocabulary, and written too), and the tensors of the state dict as "state/NAME".
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

folder, state_dict, ids, out = sys.argv[1:]
torch.set_num_threads(1)
model, report = transformers.AutoModelForCausalLM.from_pretrained(
    folder, attn_implementation="eager", experts_implementation="eager", output_loading_info=True)
wrong = {key: names for key, names in report.items() if names}
if wrong:
    sys.exit(f"not all of it was loaded: {wrong}")
input_ids = load_file(ids)["input_ids"].remainder(model.config.vocab_size)
with torch.no_grad():
    logits = model.eval()(input_ids=input_ids).logits
state = torch.load(state_dict, weights_only=True)
tensors = {"state/" + key: tensor.contiguous().clone() for key, tensor in state.items()}
save_file({"logits": logits.contiguous(), "input_ids": input_ids, **tensors}, out)
