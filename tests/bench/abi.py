# SPDX-License-Identifier: Apache-2.0
"""The cost of a call from the host into a plugin and back, in CPU time: see boundary.cpp. And a layer of Llama whose
operators are called from plain C, compared with the plugin llama.

Each of five runs of the program times every call ten times and prints the median."""
import json
import statistics

import programs
from table import Group, Result, at_most, ratios

CALLS = (("call_ns", "a function of a component", 20), ("dispatch_ns", "an event to one hook", 20),
         ("call_op_ns", "`call_op`, in addition to a direct call of the operator", 200))

# The same model, of one layer, with the sizes of lm.json.
MODELS = {
    "llama": ("`llama`, in C++", {"type": "llama", "options": {
        "vocab_size": 256, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 4}}),
    "c_decoder": ("`c_decoder`, in C", {"type": "c_decoder"})}
DECODER_GOAL = 1.02


def decoder_step(model, warmup, steps):
    """CPU time of a training step, s."""
    sets = ["threads.compute=1", f"model={json.dumps(MODELS[model][1])}"]
    folder = ["--plugin-dir", programs.OURS.build / "tests/plugins"]
    return programs.host_run("lm.json", warmup, steps, sets, folder)[0]["cpu_step_s"]


def measure_decoder(quick):
    num_rounds, warmup, steps = (1, 1, 2) if quick else (9, 10, 100)
    rounds = []
    for i in range(num_rounds):
        programs.say(f"abi, a decoder in C: round {i + 1} of {num_rounds}")
        rounds.append({model: decoder_step(model, warmup, steps) for model in programs.in_turn(MODELS, i)})
    ratio = ratios(rounds, lambda seconds: seconds, "c_decoder", "llama")
    return Result(
        [Group("CPU time of a training step of one layer of Llama, ms",
               {title: [1e3 * one[model] for one in rounds] for model, (title, _) in MODELS.items()}),
         Group("CPU time of a step / CPU time with `llama`", {MODELS["c_decoder"][0]: ratio}, 3)],
        [at_most("abi", "CPU time of a step, layer in C / layer of `llama`", DECODER_GOAL, statistics.median(ratio))],
        {"rounds": rounds, "warmup": warmup, "steps": steps})


def measure(quick):
    num_rounds, calls = (1, 20_000) if quick else (5, 2_000_000)
    rounds = []
    for i in range(num_rounds):
        programs.say(f"abi: round {i + 1} of {num_rounds}")
        command = [programs.FOLDER / "boundary", programs.FOLDER / "plugins", programs.OURS.build / "plugins", calls]
        rounds.append(programs.last_line(programs.run(command)))
    samples = {key: [one[key] for one in rounds] for key, _, _ in CALLS}
    result = Result(
        [Group("CPU time of a call, ns", {what: samples[key] for key, what, _ in CALLS}, 1)],
        [at_most("abi", what, goal, statistics.median(samples[key]), " ns", 1) for key, what, goal in CALLS],
        {"rounds": rounds, "calls": calls})
    result.add("decoder", measure_decoder(quick))
    return result
