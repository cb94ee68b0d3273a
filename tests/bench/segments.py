# SPDX-License-Identifier: Apache-2.0
"""Attention on a row of 16 packed segments, beside 16 rows of one segment: see kernel_speed.cpp."""
import language
import programs
from table import Result, ratios

LENGTHS = (128, 512)  # tokens of a segment
GOAL = 1.1
TOLERANCE = 1e-5


def measure(quick):
    result = Result(notes=["Forward and backward, 9 query heads and 3 key and value heads of width 64, "
                           f"{language.THREADS} threads."])
    for length in (32,) if quick else LENGTHS:
        found = programs.last_line(programs.run([
            programs.FOLDER / "kernel_speed", "segments", length, 1 if quick else 9, language.THREADS]))
        if max(found["output_gap"], found["gradient_gap"]) > TOLERANCE:
            raise programs.Failed(f"segments: the results of packed and separate rows differ: {found}")
        rounds = [dict(zip(("packed", "apart"), pair)) for pair in zip(found["packed_s"], found["apart_s"])]
        names = {"packed": f"a row of 16 segments of {length} tokens", "apart": f"16 rows of {length} tokens"}
        result.groups.append(language.group(f"ms, segments of {length} tokens", rounds, names, lambda s: 1000 * s))
        over = ratios(rounds, lambda seconds: seconds, "packed", "apart")
        result.groups.append(language.ratios_group(f"time, packed / separate rows, {length} tokens", {"ratio": over}))
        result.goals.append(language.time_goal(
            "segments", f"attention on a row of 16 segments of {length} / 16 rows", GOAL, over))
        result.raw[str(length)] = found
    return result
