# SPDX-License-Identifier: Apache-2.0
"""SFT and DPO of SmolLM2 by TRL, in fp32 without gradient checkpointing. A step is an epoch over all samples of a file.

usage: trl_peer.py sft-padded|sft-packed|dpo FILE MODEL ROWS MICROBATCHES WARMUP STEPS THREADS [ADAPTER]
                   (prints a line of JSON)

FILE has instructions or preference pairs. ROWS is the number of rows of a microbatch: samples, packs or pairs. With ADAPTER, a
PEFT folder, SFT trains the adapter alone.
"""
import json
import os
import pathlib
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1",
                  HF_DATASETS_DISABLE_PROGRESS_BARS="1")
import torch
import transformers
import trl
from datasets import Dataset

from clock import Clock
from trl_samples import instruction, pair

LENGTH = 1024


class Ticks(transformers.TrainerCallback):
    def __init__(self, clock):
        self.clock = clock

    def on_step_end(self, args, state, control, **_):
        self.clock.tick(state.global_step)


def with_losses(trainer_class):
    """The class of a trainer that keeps the loss of each step, unrounded: the logs have it with fewer digits."""
    class Kept(trainer_class):
        def training_step(self, *words, **named):
            loss = super().training_step(*words, **named)
            self.kept = [*getattr(self, "kept", []), loss.item()]
            return loss
    return Kept


def main():
    kind, file, model_folder = sys.argv[1:4]
    rows, microbatches, warmup, steps, threads = (int(word) for word in sys.argv[4:9])
    adapter = sys.argv[9:]
    torch.set_num_threads(threads)
    transformers.set_seed(1)
    samples = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    data = Dataset.from_list([(pair if kind == "dpo" else instruction)(sample) for sample in samples])

    def load():
        model = transformers.AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
        if not adapter:
            return model
        import peft
        return peft.PeftModel.from_pretrained(model, adapter[0], is_trainable=True)

    clock = Clock(warmup, steps)
    with tempfile.TemporaryDirectory() as folder:
        common = {"output_dir": folder, "max_steps": warmup + steps, "per_device_train_batch_size": rows,
                  "gradient_accumulation_steps": microbatches, "lr_scheduler_type": "constant", "weight_decay": 0.0,
                  "max_grad_norm": 1.0, "optim": "adamw_torch_fused", "logging_strategy": "no", "save_strategy": "no", "report_to": [],
                  "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "disable_tqdm": True,
                  "dataloader_num_workers": 0, "dataloader_pin_memory": False, "max_length": LENGTH}
        # AutoTokenizer makes a GPT2Tokenizer, which ignores the pre-tokenizer of the file.
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model_folder)
        given = {"model": load(), "train_dataset": data, "processing_class": tokenizer, "callbacks": [Ticks(clock)]}
        if kind == "dpo":
            args = trl.DPOConfig(learning_rate=5e-6, beta=0.1, **common)
            trainer = with_losses(trl.DPOTrainer)(args=args, ref_model=load(), **given)
        else:
            args = trl.SFTConfig(learning_rate=2e-4 if adapter else 2e-5, packing=kind == "sft-packed", **common)
            trainer = with_losses(trl.SFTTrainer)(args=args, **given)
        print(f"{len(trainer.train_dataset)} rows", file=sys.stderr)
        trainer.train()
    kept = trainer.kept
    losses = [sum(kept[i:i + microbatches]) for i in range(0, len(kept), microbatches)]
    print(json.dumps({**clock.values(), "losses": losses, "rows": len(trainer.train_dataset)}), flush=True)


main()
