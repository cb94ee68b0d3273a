# SPDX-License-Identifier: Apache-2.0
"""What the host adds to a step: a model so small that a step is mostly what a trainer adds to it."""
import statistics

import programs
from table import Row, at_most

PEERS = (("fused", "bare PyTorch with fused AdamW", 0.55), ("lightning", "Lightning", 0.2),
         ("hf", "Hugging Face Trainer", 0.15))


def measure(quick):
    pairs, warmup, steps = (1, 50, 200) if quick else (5, 200, 5000)
    timing = [f"hooks.{hook}.options.{what}" for hook in (1, 2)
              for what in (f"warmup={warmup}", f"steps={steps}")]

    def host(*sets):
        return programs.host("mlp.json", warmup, steps, [*timing, *sets])["step_s"] * 1e6

    def bare():
        # The math library in the mode that the host's default, "deterministic": true, asks for.
        text = programs.run([programs.FOLDER / "bare_mlp", warmup, steps], {"MKL_CBWR": "AUTO,STRICT"})
        return programs.last_line(text)["step_s"] * 1e6

    def peer(name):
        return programs.peer("mlp_peer.py", name, warmup, steps)["step_s"] * 1e6

    programs.say("mlp: host and bare loop")
    raw = {"bare libtorch": [(host(), bare()) for _ in range(pairs)]}
    cost = statistics.median(ours - theirs for ours, theirs in raw["bare libtorch"])
    rows = [Row("**mlp**: host's cost over a bare libtorch loop, a step", "at most 5 µs",
                f"{cost:.1f} µs", cost <= 5)]
    for name, title, goal in PEERS:
        what = f"**mlp**: time a step against {title}"
        if not programs.has_peers():
            rows.append(Row(what, f"at most {goal}", programs.NO_PEERS, None))
            continue
        programs.say(f"mlp: host and {title}")
        raw[name] = [(host("train.clip_grad_norm=null"), peer(name)) for _ in range(pairs)]
        rows.append(at_most(what, goal, statistics.median(ours / theirs for ours, theirs in raw[name]),
                            f" ({statistics.median(ours for ours, _ in raw[name]):.0f} µs)"))
    return rows, {"pairs": pairs, "steps": steps, "microseconds": raw}
