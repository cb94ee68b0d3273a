#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A million cases of each fuzz program (tests/fuzz/README.md), one after the other; about an hour.
#   TENON_FUZZ_CASES, TENON_FUZZ_SEED   other numbers
set -euo pipefail
build=${TENON_BUILD_DIR:?is set by ./dev soak}
"$build/tests/fuzz/fuzz_component_list" "$build/plugins" "$build/tests/fuzz/components.json"
status=0
for program in csv_fuzz manifest_fuzz recipe_fuzz set_fuzz; do
  "$build/tests/fuzz/$program" --cases "${TENON_FUZZ_CASES:-1000000}" \
    --seed "${TENON_FUZZ_SEED:-1}" || status=1
done
exit $status
