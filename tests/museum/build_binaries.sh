#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the binaries of the museum: tests/museum/MAJOR.MINOR/*.so.
#
#   build_binaries.sh           the plugins in plugins/, with the headers of this tree. Run it once
#                               when TENON_ABI_MINOR is raised, and commit the new folder
#   build_binaries.sh COMMIT    loss.so only: the C template of an earlier commit, with its headers
#
# A folder is never built again: its files are what users have, and hosts must keep running them.
# 0.1, 0.2 and 0.3 are from the commits c207ad6, 1c0112b and 43efb9c.
set -euo pipefail
commit=${1:-}
museum=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
root=$(realpath "$museum/../..")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [[ $(uname -m) != x86_64 ]]; then
  echo "the museum has binaries for x86-64 only; run this there" >&2
  exit 1
fi

include=$root/sdk/include
sources=$museum/plugins
if [[ -n $commit ]]; then
  git -C "$root" archive "$commit" sdk/include/tenon sdk/template/softmax_loss.c |
    tar -x -C "$scratch"
  include=$scratch/sdk/include
  sources=$scratch/sources
  mkdir "$sources"
  cat "$scratch/sdk/template/softmax_loss.c" - >"$sources/loss.c" <<'MANIFEST'
TENON_MANIFEST("id=org.tenon.museum.softmax_loss\nversion=1.0.0\nabi=" TENON_ABI_STRING
               "\nlane=stable\ncomponent=loss:softmax_loss\n");
MANIFEST
fi
abi=$(sed -n 's/^#define TENON_ABI_STRING "\(.*\)"$/\1/p' "$include/tenon/abi.h")
if compgen -G "$museum/$abi/*.so" >/dev/null; then
  echo "$museum/$abi has binaries already; they are never built again" >&2
  exit 1
fi

# Relative names and no build id: the files have no path of this machine, and are the same each
# time.
mkdir -p "$museum/$abi"
cd "$sources"
for source in *.c; do
  gcc -O2 -std=c11 -shared -fPIC -fno-ident -I "$include" \
    -ffile-prefix-map="$root=." -ffile-prefix-map="$scratch=." \
    "$source" -o "$museum/$abi/${source%.c}.so" \
    -Wl,--version-script="$root/sdk/abi/tenon_plugin.map" -Wl,-z,defs -Wl,--as-needed -lm \
    -s -Wl,--build-id=none
done
for file in "$museum/$abi"/*.so; do
  if strings -a "$file" | grep -F -e "$root" -e "$scratch" -e "${HOME:-$root}/"; then
    echo "$file contains a path of this machine" >&2
    exit 1
  fi
done
ls -l "$museum/$abi"
