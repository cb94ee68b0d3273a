#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# codespell over everything that people read. Words that are right here and wrong elsewhere:
# spelling_words.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if ! command -v codespell >/dev/null; then
  echo "skipped: codespell is not installed; ./dev deps installs it"
  exit 77
fi
files() {
  if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -z -- '*.md' '*.h' '*.hpp' '*.c' '*.cpp' '*.cu' '*.py' '*.sh' '*.cmake' '*.txt' '*.json' dev
  else
    find . -path ./.deps -prune -o -path './build*' -prune -o -type f \
      \( -name '*.md' -o -name '*.[ch]' -o -name '*.[ch]pp' -o -name '*.cu' -o -name '*.py' \) -print0
  fi
}
files | grep -zvE '^(tests/(parity/.*\.json|fuzz/corpus/)|recipes/fine-tune/(tokenizer/|verses))' |
  xargs -0 codespell --quiet-level 2 --ignore-words tests/tree/spelling_words.txt
