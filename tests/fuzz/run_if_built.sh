#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a fuzzer, or skips it if it is not built: run_if_built.sh PROGRAM [OPTION...]
set -euo pipefail
if [[ ! -x $1 ]]; then
  echo "skipped: $1 is not built; ./dev test --release builds it"
  exit 77  # what CTest takes for a skip
fi
exec "$@"
