#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What the host adds to a step: the `mlp` workload against a bare loop and other trainers.
set -euo pipefail
exec python3 "$(dirname "${BASH_SOURCE[0]}")/compare_mlp.py"
