#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# kill -9 of a random process of runs at random moments (tests/faults/kills_test.cpp), 200 times: of one
# rank and of two, with tables, dense layers and a language model, on a disk that is slow. Fails where
# anything is lost; prints where each was killed and what it went on from. Some minutes.
#   TENON_KILLS         another number of kills
#   TENON_KILLS_SEED    other moments
#   TENON_KILLS_TABLE   a file for the table
set -euo pipefail
export TENON_KILLS=${TENON_KILLS:-200}
"${TENON_BUILD_DIR:?is set by ./dev soak}/tests/kills_test" -d yes "a run that is killed*"
