#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tables against std::unordered_map (tests/host/embedding/table_oracle_test.cpp) with ten million ids in
# each of its runs, without a sanitizer, under those of addresses and undefined behaviour, and under that
# of threads. It builds what the presets asan and tsan need for it.
#   TENON_TABLE_OPERATIONS   another number of ids
set -euo pipefail
: "${TENON_BUILD_DIR:?is set by ./dev soak}"
export TENON_TABLE_OPERATIONS=${TENON_TABLE_OPERATIONS:-10000000}
export ASAN_OPTIONS=detect_odr_violation=0:detect_container_overflow=0
export LSAN_OPTIONS=suppressions=tests/support/lsan.supp:print_suppressions=0
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:history_size=7:suppressions=tests/support/tsan.supp
status=0
for preset in release asan tsan; do
  ./dev build "$preset" embedding_test
  folder=$TENON_BUILD_DIR
  [[ $preset == release ]] || folder=build-$preset
  echo "$preset: $TENON_TABLE_OPERATIONS ids a run"
  "$(find "$folder/tests" -name embedding_test -type f)" -d yes '*with a map' || status=1
done
exit $status
