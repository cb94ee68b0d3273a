# SPDX-License-Identifier: Apache-2.0
"""TRL's preparation of instructions for SFT: template, tokens, labels, truncation.

usage: trl_data_peer.py FILE MODEL PROCESSES     (prints a line of JSON)
"""
import json
import os
import pathlib
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")
os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1",
                  HF_DATASETS_DISABLE_PROGRESS_BARS="1")
import datasets
import transformers
import trl
from trl.trainer.sft_trainer import SFTTrainer

from trl_samples import instruction


class Timed(SFTTrainer):
    """Times the preparation of the training set."""

    def _prepare_dataset(self, *words, **named):
        begin = time.monotonic()
        found = super()._prepare_dataset(*words, **named)
        self.seconds = time.monotonic() - begin
        return found


file, folder, processes = sys.argv[1], sys.argv[2], int(sys.argv[3])
datasets.disable_caching()
# AutoTokenizer makes a GPT2Tokenizer, which ignores the pre-tokenizer of the file.
tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
tiny = transformers.LlamaForCausalLM(transformers.LlamaConfig(
    vocab_size=49152, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1))
samples = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
data = datasets.Dataset.from_list([instruction(sample) for sample in samples])
with tempfile.TemporaryDirectory() as made:
    trainer = Timed(model=tiny, processing_class=tokenizer, train_dataset=data, args=trl.SFTConfig(
        output_dir=made, use_cpu=True, bf16=False, report_to=[], max_length=1024, disable_tqdm=True,
        dataset_num_proc=processes if processes > 1 else None))
rows = trainer.train_dataset.with_format("arrow")
tokens = sum(len(row) for batch in rows.iter(1000) for row in batch["input_ids"])
labels = sum(label != -100 for row in trainer.train_dataset["labels"] for label in row)
print(json.dumps({"seconds": trainer.seconds, "samples": len(rows), "tokens": tokens, "labels": labels}), flush=True)
