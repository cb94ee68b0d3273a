#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Loss of power at any moment of a run (tests/faults/power_loss_test.cpp): resumes from each state of
# the disk that has other files than the rest, some thousands. Prints the number of states of each
# scenario; fails if one of them does not resume. Hours.
#   TENON_POWER_STATES   at most so many states of each scenario
#   TENON_POWER_SEED     which of them
set -euo pipefail
export TENON_POWER_STATES=${TENON_POWER_STATES:-all}
"${TENON_BUILD_DIR:?is set by ./dev soak}/tests/power_loss_test" "[faults]" -d yes
