# SPDX-License-Identifier: Apache-2.0
"""Makes train_golden.json: the losses of 50 steps that PyTorch and transformers make of the model, the first weights and
the batches of train_golden_recipe.json.

The host writes weights and batches (hook dump_run of the tests), from the root of the source tree:

    mkdir DUMP
    build/bin/host --recipe tests/parity/train_golden_recipe.json --plugin-dir build/plugins --plugin-dir build/tests/plugins \
      --run-dir RUN --set hooks.0.options.folder=DUMP
    python tests/parity/train_golden.py DUMP > tests/parity/train_golden.json     (torch 2.11.0, transformers 5.5.4)

Model, loss, clipping, optimizer and schedule are theirs; the test holds the host's losses against these. "parameters" is a
checksum of the first weights, which tells a changed initialiser from a wrong step.
"""

import json
import math
import pathlib
import sys

import numpy
import torch
import transformers

IGNORED = -100


def load(path, dtype, shape):
    return torch.from_numpy(numpy.fromfile(path, dtype=dtype).reshape(shape).copy())


def main(dump: pathlib.Path) -> None:
    here = pathlib.Path(__file__).parent
    recipe = json.loads((here / "train_golden_recipe.json").read_text())
    options = recipe["model"]["options"]
    config = transformers.LlamaConfig(
        **options, rms_norm_eps=1e-6, tie_word_embeddings=False, attn_implementation="eager", use_cache=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        pad_token_id=None, bos_token_id=None, eos_token_id=None)
    model = transformers.LlamaForCausalLM(config).float().train()
    checksum = 0.0
    norms, matrices = [], []
    for name, parameter in model.named_parameters():
        value = load(dump / f"{name}.f32", numpy.float32, parameter.shape)
        with torch.no_grad():
            parameter.copy_(value)
        (norms if name.endswith("norm.weight") else matrices).append(parameter)
        places = numpy.arange(value.numel())
        checksum += float((value.double().numpy().ravel() * numpy.cos(places)).sum())

    adamw = recipe["optimizer"]["options"]
    decay = adamw["weight_decay"]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": decay}, {"params": norms, "weight_decay": 0.0}],
        lr=adamw["lr"], betas=adamw["betas"])
    warmup = recipe["lr_scheduler"]["options"]["warmup_steps"]
    floor = recipe["lr_scheduler"]["options"]["min_ratio"]
    steps = recipe["train"]["steps"]

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        progress = (step - warmup) / (steps - warmup)
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    shape = (recipe["data"]["batch_size"], recipe["data"]["train"]["options"]["sequence_length"])
    losses, grad_norms = [], []
    for step in range(1, steps + 1):
        input_ids = load(dump / f"{step}.input_ids.i64", numpy.int64, shape)
        labels = load(dump / f"{step}.labels.i64", numpy.int64, shape)
        logits = model(input_ids=input_ids).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), recipe["train"]["clip_grad_norm"])
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        grad_norms.append(norm.item())
    print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                      "parameters": checksum, "loss": losses, "grad_norm": grad_norms}, indent=1))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(pathlib.Path(sys.argv[1]))
