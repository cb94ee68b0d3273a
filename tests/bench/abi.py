# SPDX-License-Identifier: Apache-2.0
"""What it costs to go from the host into a plugin and back: see boundary.cpp."""
import programs
from table import Row

GOALS = (("call_ns", "a call across the ABI", 20), ("dispatch_ns", "dispatch of an event to a hook", 20),
         ("call_op_ns", "`call_op` over a direct call of the operator", 200))


def measure(quick):
    programs.say("abi: calls, events, operators")
    command = [programs.FOLDER / "boundary", programs.FOLDER / "plugins", programs.BUILD / "plugins",
               20_000 if quick else 10_000_000]
    figures = programs.last_line(programs.run(command))
    rows = [Row(what, f"at most {goal} ns", f"{figures[key]:.1f} ns", figures[key] <= goal)
            for key, what, goal in GOALS]
    return rows, figures
