#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# All tests, those of the release tier included (docs/dev/release-tests.md). About 20 minutes.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/../../dev" test --release
