# SPDX-License-Identifier: Apache-2.0
"""Makes preference_golden.json: 20 steps of DPO, IPO, ORPO and SimPO by TRL's own loss code, with the weights of hf_sharded
(the policy) and hf_tied (the reference), and the pairs of the test dataset pair_rows.

    python tests/parity/preference_golden.py > tests/parity/preference_golden.json
        (trl 1.16.0, transformers 5.5.4, torch 2.11.0, accelerate 1.15.0)

TRL computes losses, log-probabilities and rewards: DPOTrainer._compute_loss, ORPOTrainer and CPOTrainer
.get_batch_loss_metrics. The trainers are made without their constructors, which would want a tokenizer and a dataset.
The ORPO trainer averages the likelihood over the tokens of a batch, and over prompts too. So its batches have one pair each,
and prompts have one token, which is nobody's label.
"""

import json
import pathlib
import types
from collections import defaultdict

import accelerate
import torch
import transformers
import trl
from trl.experimental.cpo.cpo_trainer import CPOTrainer
from trl.experimental.orpo.orpo_trainer import ORPOTrainer
from trl.trainer.dpo_trainer import DataCollatorForPreference, DPOTrainer
from trl.trainer.utils import add_fused_lm_head

HERE = pathlib.Path(__file__).parent
STEPS, BATCH, VOCAB = 20, 4, 64
MASK = (1 << 64) - 1
CASES = {
    "dpo": {"beta": 0.5},
    "ipo": {"beta": 0.3},
    "orpo": {"beta": 0.2},
    "simpo": {"beta": 2.0, "gamma": 0.7},
    "simpo_smooth": {"beta": 2.0, "gamma": 0.7, "label_smoothing": 0.1},
}


def mixed(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def part(sample: int, which: int, short: bool) -> list[int]:
    key = sample * 3 + which
    length = 2 + mixed(key) % (4 if which == 0 else 5)
    if which == 0 and short:
        length = 1
    return [mixed(key * 64 + t + 1000003) % VOCAB for t in range(length)]


def example(sample: int, short: bool) -> dict:
    return {"prompt_ids": part(sample, 0, short), "chosen_ids": part(sample, 1, short),
            "rejected_ids": part(sample, 2, short)}


def load(folder: str):
    return transformers.AutoModelForCausalLM.from_pretrained(
        HERE / folder, dtype=torch.float32, attn_implementation="eager").train()


def bare(kind, model, **values):
    trainer = kind.__new__(kind)
    trainer.model = model
    trainer.accelerator = accelerate.Accelerator(cpu=True)
    trainer.aux_loss_enabled = False
    trainer._metrics = {"train": defaultdict(list), "eval": defaultdict(list)}
    for name, value in values.items():
        setattr(trainer, name, value)
    return trainer


def dpo(model, case, options):
    reference = load("hf_tied").eval()
    add_fused_lm_head(model, outputs=("log_probs", "entropy", "mean_logits", "is_top1"))
    add_fused_lm_head(reference)
    trainer = bare(
        DPOTrainer, model, ref_model=reference, ld_alpha=None, precompute_ref_logps=False,
        f_divergence_type="reverse_kl", loss_types=["ipo" if case == "ipo" else "sigmoid"], loss_weights=[1.0],
        beta=options["beta"], label_smoothing=0.0, use_weighting=False, _total_train_tokens=0, _tp_size=1,
        args=types.SimpleNamespace(gradient_checkpointing=False, gradient_checkpointing_kwargs=None))
    collate = DataCollatorForPreference(pad_token_id=0)

    def loss_of(samples):
        trainer._metrics["train"].clear()
        loss = trainer._compute_loss(model, collate([example(i, False) for i in samples]), False)
        return loss, {name: values[0] for name, values in trainer._metrics["train"].items()}

    return loss_of


def padded(rows: list[list[int]], value: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def pairs_of(examples: list[dict]) -> dict:
    batch = {}
    for side in ("chosen", "rejected"):
        rows = [e["prompt_ids"] + e[f"{side}_ids"] for e in examples]
        labels = [[-100] * len(e["prompt_ids"]) + e[f"{side}_ids"] for e in examples]
        batch[f"{side}_input_ids"] = padded(rows, 0)
        batch[f"{side}_attention_mask"] = padded([[1] * len(row) for row in rows], 0)
        batch[f"{side}_labels"] = padded(labels, -100)
    return batch


def without_reference(model, case, options):
    kind = ORPOTrainer if case == "orpo" else CPOTrainer
    trainer = bare(kind, model, is_encoder_decoder=False, padding_value=0, pad_token_id=0, beta=options["beta"],
                   label_smoothing=options.get("label_smoothing", 0.0), loss_type="simpo", alpha=0.0, cpo_alpha=0.0,
                   simpo_gamma=options.get("gamma"))

    def loss_of(samples):
        loss, metrics = 0.0, defaultdict(float)
        for i in samples:
            one, of_one = trainer.get_batch_loss_metrics(model, pairs_of([example(i, case == "orpo")]), "train")
            loss = loss + one / len(samples)
            for name, value in of_one.items():
                metrics[name] += float(value) / len(samples)
        return loss, dict(metrics)

    return loss_of


def main() -> None:
    golden = {"trl": trl.__version__, "torch": torch.__version__, "transformers": transformers.__version__, "cases": {}}
    for case, options in CASES.items():
        model = load("hf_sharded")
        loss_of = (dpo if case in ("dpo", "ipo") else without_reference)(model, case, options)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0)
        steps = defaultdict(list)
        for step in range(STEPS):
            loss, metrics = loss_of(range(step * BATCH, (step + 1) * BATCH))
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
            optimizer.step()
            steps["loss"].append(loss.item())
            steps["grad_norm"].append(norm.item())
            for name in ("rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies",
                         "logps/chosen", "logps/rejected"):
                steps[name].append(float(metrics[name]))
        golden["cases"][case] = {"options": options, "steps": steps}
    print(json.dumps(golden, indent=1))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
