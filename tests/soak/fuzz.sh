#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A million cases of each fuzz program (tests/fuzz/README.md), one after the other; about two hours.
# Each program has the address and undefined-behavior sanitizers in it, in every preset.
#   TENON_FUZZ_CASES, TENON_FUZZ_SEED   other numbers
#   TENON_FUZZ_PROGRAMS                 only these: "index_fuzz store_fuzz"
set -euo pipefail
build=${TENON_BUILD_DIR:?is set by ./dev soak}
"$build/tests/fuzz/fuzz_component_list" "$build/plugins" "$build/tests/fuzz/components.json"
status=0
# shellcheck disable=SC2086
set -- ${TENON_FUZZ_PROGRAMS:-$(cd "$build/tests/fuzz" && ls -d ./*_fuzz)}
for program in "$@"; do
  program=${program#./}
  [[ $program == planted_fuzz ]] && continue  # it has mistakes on purpose
  "$build/tests/fuzz/$program" --cases "${TENON_FUZZ_CASES:-1000000}" \
    --seed "${TENON_FUZZ_SEED:-1}" || status=1
done
exit $status
