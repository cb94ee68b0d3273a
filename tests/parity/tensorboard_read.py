# SPDX-License-Identifier: Apache-2.0
"""Reads a run folder with TensorBoard's own reader and holds it against metrics.jsonl.

Run by hand when the sink changes, with a Python that has tensorboard (tried with 2.21.0):

    host --recipe recipes/quickstart.json --run-dir RUN --set 'sinks=[{"type":"jsonl"},{"type":"tensorboard"}]'
    python tests/parity/tensorboard_read.py RUN

Every figure of every record must be there as a scalar, with its step, its wall time and its value in fp32, and no other.
"""

import json
import math
import pathlib
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def as_fp32(value: float | None) -> float:
    return math.nan if value is None else struct.unpack("<f", struct.pack("<f", value))[0]


def main() -> None:
    run = pathlib.Path(sys.argv[1])
    read = EventAccumulator(str(run), size_guidance={"scalars": 0})
    read.Reload()
    found = {}
    for tag in read.Tags()["scalars"]:
        for scalar in read.Scalars(tag):
            found.setdefault(tag, []).append((scalar.step, scalar.wall_time, scalar.value))
    wanted = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        step, time = record.pop("step"), record.pop("time")
        for tag, value in record.items():
            wanted.setdefault(tag, []).append((step, time, as_fp32(value)))
    if found.keys() != wanted.keys():
        sys.exit(f"scalars {sorted(found)}, and figures {sorted(wanted)}")
    count = 0
    for tag, points in wanted.items():
        if len(points) != len(found[tag]):
            sys.exit(f"{tag}: {len(found[tag])} scalars for {len(points)} figures")
        for want, got in zip(points, found[tag]):
            # JSON has null for what is not finite.
            same_value = got[2] == want[2] or (math.isnan(want[2]) and not math.isfinite(got[2]))
            # The two sinks are handed one record, and so one time.
            if got[:2] != want[:2] or not same_value:
                sys.exit(f"{tag}: {got} was read, {want} was written")
            count += 1
    print(f"{count} scalars of {len(wanted)} figures read back as written")


if __name__ == "__main__":
    main()
