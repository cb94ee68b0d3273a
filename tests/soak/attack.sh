#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Attacks on the whole program (tests/attack/README.md): kills, flipped bits, damaged files, full disks,
# mutated recipes, damaged data files, clocks that jump, stopped processes, another user. Some hours.
# Prints a table and fails with a finding.
#   ./dev soak attack                                         all parts
#   ./dev soak attack kills flips --seed 2 --count 50         these parts, other cases
set -euo pipefail
nice "${TENON_BUILD_DIR:?is set by ./dev soak}/tests/attack/attack" "$@"
