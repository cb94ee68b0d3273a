# SPDX-License-Identifier: Apache-2.0
"""Modules exported from PyTorch, trained by the host, beside the same modules in PyTorch and under torch.compile.

Needs the peers' Python, which exports the modules: TorchScript and ahead-of-time compiled. One thread.
"""
import pathlib
import tempfile

import llamas
import programs
from table import Group, Result, ratios

PROGRAMS = {
    "net": {"aot": "Tenon, `aot`", "torchscript": "Tenon, `torchscript`", "eager": "PyTorch",
            "compile": "torch.compile"},
    "hf": {"aot": "Tenon, `aot`", "llama": "Tenon, `llama`", "eager": "PyTorch", "compile": "torch.compile"}}
TITLES = {"net": "gated layers", "hf": "Llama of transformers"}
RECIPES = {"net": "exported.json", "hf": "lm.json"}
COUNTS = {"net": (20, 200), "hf": (5, 30)}  # warmup, steps


def best_isa():
    flags = next(line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    return "avx512" if "avx512vl" in flags else "avx2"


def run_program(case, name, folder, warmup, steps):
    if name in ("eager", "compile"):
        return programs.peer("exported_peer.py", case, name, warmup, steps,
                             environment={**llamas.caches(1), **programs.tuned_process()})
    sets = ["threads.compute=1", "train.clip_grad_norm=null"]
    if name != "llama":
        path = folder / case / ("net.pt" if name == "torchscript" else "aot")
        sets += [f"model.type={name}", f'model.options={{"path": "{path}"}}']
    return programs.host(RECIPES[case], warmup, steps, sets)


def measure(quick, rounds=5):
    if not programs.has_peers():
        return Result(notes=[programs.NO_PEERS])
    num_rounds = 1 if quick else rounds
    result = Result(notes=["Batch 256 of gated layers, 16 windows of 128 bytes of Llama; 1 thread; compiled for "
                           f"{best_isa()}."])
    with tempfile.TemporaryDirectory(prefix="bench-exported-") as made:
        folder = pathlib.Path(made)
        for case, names in PROGRAMS.items():
            (folder / case).mkdir()
            warmup, steps = (2, 4) if quick else COUNTS[case]
            programs.say(f"exported: exporting {TITLES[case]}")
            programs.peer("exported_peer.py", case, "export", folder / case, best_isa(), environment=llamas.caches(1))
            rounds = []
            for i in range(num_rounds):
                programs.say(f"exported: {TITLES[case]}, round {i + 1} of {num_rounds}")
                rounds.append({name: run_program(case, name, folder, warmup, steps)
                               for name in programs.in_turn(names, i)})
            result.raw[case] = rounds
            for quantity, key in (("time", "step_s"), ("CPU time", "cpu_step_s")):
                result.groups.append(Group(f"{TITLES[case]}: {quantity} of a step, ms",
                                           {text: [1e3 * one[name][key] for one in rounds]
                                            for name, text in names.items()}))
            for below in ("compile", "eager"):
                result.groups.append(Group(
                    f"{TITLES[case]}: time of a step, program / {names[below]}",
                    {text: ratios(rounds, lambda run: run["step_s"], name, below)
                     for name, text in names.items() if name != below}))
    return result
