# SPDX-License-Identifier: Apache-2.0
"""Makes adapter_golden.json: the losses of 50 steps that PEFT makes of the model, the first weights and the batches of
adapter_golden_recipe.json, for each kind of adapter.

The host writes weights and batches (hook dump_run of the tests), from the root of the source tree:

    mkdir DUMP
    build/bin/host --recipe tests/parity/adapter_golden_recipe.json --plugin-dir build/plugins \
      --plugin-dir build/tests/plugins --run-dir RUN --set hooks.0.options.folder=DUMP
    python tests/parity/adapter_golden.py DUMP > tests/parity/adapter_golden.json
                                                       (torch 2.11.0, transformers 5.5.4, peft 0.21.2)

The three kinds start from the same weights: their bases, A and B have the same names, and B is zero. "parameters" is a
checksum of the first weights of the dumped kind. The learning rate is one at which all kinds train without a spike: at 1e-2,
rslora has one in step 36, which multiplies differences of rounding by 100.
"""

import json
import math
import pathlib
import sys

import numpy
import peft
import torch
import transformers

IGNORED = -100


def load(path, dtype, shape):
    return torch.from_numpy(numpy.fromfile(path, dtype=dtype).reshape(shape).copy())


def base_model(dump, options):
    config = transformers.LlamaConfig(
        **options, rms_norm_eps=1e-6, tie_word_embeddings=False, attn_implementation="eager", use_cache=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        pad_token_id=None, bos_token_id=None, eos_token_id=None)
    model = transformers.LlamaForCausalLM(config).float()
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            parameter.copy_(load(dump / f"{name}.f32", numpy.float32, parameter.shape))
    return model


def train(dump, recipe, kind):
    adapter = recipe["model"]["parametrizations"][0]["options"]
    settings = peft.LoraConfig(
        r=adapter["rank"], lora_alpha=adapter["alpha"], lora_dropout=0.0, bias="none", task_type="CAUSAL_LM",
        target_modules=["q_proj", "v_proj", "gate_proj", "down_proj"], use_rslora=kind == "rslora",
        use_dora=kind == "dora")
    model = peft.get_peft_model(base_model(dump, recipe["model"]["options"]), settings).train()
    trained = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        trained.append(parameter)
        own = name.removeprefix("base_model.model.")
        for there, here in ((".lora_A.default.weight", ".weight.lora_a"), (".lora_B.default.weight", ".weight.lora_b"),
                            (".lora_magnitude_vector.default.weight", ".weight.lora_magnitude")):
            own = own.replace(there, here)
        with torch.no_grad():
            value = load(dump / f"{own}.f32", numpy.float32, parameter.shape)
            if not own.endswith("lora_magnitude"):
                parameter.copy_(value)
            assert torch.allclose(parameter, value, rtol=1e-6), own
    adamw = recipe["optimizer"]["options"]
    optimizer = torch.optim.AdamW(trained, lr=adamw["lr"], betas=adamw["betas"], weight_decay=adamw["weight_decay"])
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
        norm = torch.nn.utils.clip_grad_norm_(trained, recipe["train"]["clip_grad_norm"])
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        grad_norms.append(norm.item())
    return {"loss": losses, "grad_norm": grad_norms}


def main(dump: pathlib.Path) -> None:
    recipe = json.loads((pathlib.Path(__file__).parent / "adapter_golden_recipe.json").read_text())
    checksum = 0.0
    for file in sorted(dump.glob("*.f32")):
        value = numpy.fromfile(file, dtype=numpy.float32).astype(numpy.float64)
        checksum += float((value * numpy.cos(numpy.arange(value.size))).sum())
    print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__,
                      "parameters": checksum,
                      **{kind: train(dump, recipe, kind) for kind in ("lora", "rslora", "dora")}}, indent=1))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(pathlib.Path(sys.argv[1]))
