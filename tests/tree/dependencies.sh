#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# dependencies.sh BUILD: checks that every header and tool that the build in BUILD used lies in this
# tree (with .deps/), or in a Debian package that `./dev deps` installs, or that such a package
# depends on. So nothing that somebody installed by hand is needed on a fresh machine.
# A CUDA toolkit is optional: only kernels and the NCCL backend, which are built if there is one, may
# use its headers. Which Python runs scripts and which rustc builds plugins is not checked.
set -euo pipefail
build=$(realpath "$1")
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
for tool in dpkg-query ninja; do
  if ! command -v $tool >/dev/null; then
    echo "skipped: there is no $tool, so packages cannot be looked up"
    exit 77
  fi
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Packages that may be used: those of ./dev deps, what they depend on, and what Debian always has.
dpkg-query -W -f '${db:Status-Status}\t${Package}\t${Essential}\t${Priority}\t${Pre-Depends}, ${Depends}\t${Provides}\n' |
  awk -F '\t' -v wanted="$("$root/dev" deps --list | tr '\n' ' ')" '
    $1 == "installed" {
      needs[$2] = $5
      if ($3 == "yes" || $4 == "required") todo[++n] = $2
      split($6, provided, /, */)
      for (i in provided) { sub(/[ (:].*/, "", provided[i]); if (provided[i] != "") by[provided[i]] = by[provided[i]] " " $2 }
    }
    END {
      m = split(wanted, first, " ")
      for (i = 1; i <= m; i++) todo[++n] = first[i]
      while (n > 0) {
        name = todo[n--]
        k = split(by[name], others, " ")
        for (i = 1; i <= k; i++) if (!(others[i] in done)) todo[++n] = others[i]
        if (name in done || !(name in needs)) continue
        done[name] = 1
        k = split(needs[name], some, /[,|] */)
        for (i = 1; i <= k; i++) { sub(/^ */, "", some[i]); sub(/[ (:].*/, "", some[i]); if (some[i] != "") todo[++n] = some[i] }
      }
      for (name in done) print name
    }' | sort -u >"$scratch/allowed"

# What was used: depfiles, and files that CMake found.
{
  ninja -C "$build" -t deps 2>/dev/null | awk '
    /^[^ ]/ { needs_toolkit = $1 ~ /(\.cu|\/nccl_backend\.cpp)\.o:$/ }
    /^    / { sub(/^ */, ""); if (!needs_toolkit || $0 !~ /^\/usr\/local\/cuda/) print }'
  sed -n 's/^[A-Za-z0-9_]*:\(FILEPATH\|PATH\|INTERNAL\|STRING\)=\(\/.*\)$/\2/p' \
    <(grep -v '^TENON_\(PYTHON3\|RUSTC\):' "$build/CMakeCache.txt") | tr ';' '\n' | grep -v '^/usr/local/cuda'
} | sort -u | while IFS= read -r path; do
  [[ $path == /* ]] || path=$build/$path
  [[ -f $path ]] && realpath "$path"
done | sort -u | grep -vE "^($root/|/proc/)" >"$scratch/used" || true
echo "$(wc -l <"$scratch/used") files from outside the tree, $(wc -l <"$scratch/allowed") packages allowed"
if [[ $(ninja -C "$build" -t deps 2>/dev/null | wc -l) -lt 1000 ]]; then
  echo "skipped: $build was not built, so it has no list of headers"
  exit 77
fi

# Who owns them. dpkg knows files of /usr/lib by the names they had before /lib was merged into it.
{ cat "$scratch/used"; sed -n 's|^/usr\(/lib.*\)|\1|p' "$scratch/used"; sed -n 's|^/usr\(/s\?bin/.*\)|\1|p' "$scratch/used"; } |
  { xargs -r dpkg-query -S 2>/dev/null || true; } | sed -n 's/^\([^ ]*\): \(.*\)$/\1\t\2/p' |
  awk -F '\t' '{ gsub(/:[a-z0-9]+/, "", $1); sub(/^\/(lib|bin|sbin)/, "/usr&", $2); print $2 "\t" $1 }' |
  sort -u >"$scratch/owners"

awk -F '\t' '
  FILENAME ~ /allowed$/ { allowed[$1] = 1; next }
  FILENAME ~ /owners$/ { owner[$1] = owner[$1] ", " $2; next }
  {
    k = split(owner[$1], names, /, */)
    ok = 0
    for (i = 1; i <= k; i++) if (names[i] in allowed) ok = 1
    if (!ok) { bad = 1; print $1 ": " (owner[$1] == "" ? "in no package" : "in" substr(owner[$1], 2) ", which ./dev deps does not install") }
  }
  END { exit bad }' "$scratch/allowed" "$scratch/owners" "$scratch/used"
