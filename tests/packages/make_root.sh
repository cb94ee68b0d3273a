#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the bare Debian systems in which bare_root_test.py installs packages:
#
#     tests/packages/make_root.sh [SUITE...]
#
# SUITE is bookworm or trixie; default: both. It needs root, debootstrap and the Debian mirror of this
# machine's apt, or that of DEBIAN_MIRROR. It writes to the cache of ./dev deps:
#
#     roots/SUITE.tar         the base system, zstd, and Python's pip
#     roots/SUITE-tools.tar   also what builds plugins: g++, rustc, cmake, make, ninja
#
# A file that exists stays as it is.
set -euo pipefail
suites=("$@")
(($# > 0)) || suites=(bookworm trixie)
cache=${TENON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tenon}/roots
[[ $(id -u) == 0 ]] || { echo "make_root.sh: must run as root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "make_root.sh: install debootstrap" >&2; exit 1; }

# The archive from which this machine gets its own release.
mirror_of_apt() {
  # shellcheck source=/dev/null
  apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="$(. /etc/os-release && echo "$VERSION_CODENAME")" '$1 == release {print $2; exit}'
}
mirror=${DEBIAN_MIRROR:-$(mirror_of_apt)}
[[ -n $mirror ]] || { echo "make_root.sh: apt has no archive of Debian; set DEBIAN_MIRROR" >&2; exit 1; }

pack() {  # FOLDER FILE
  rm -rf "$1"/var/cache/apt/archives/*.deb "$1"/var/cache/apt/*.bin
  tar -C "$1" --one-file-system -cf "$2.part" .
  mv "$2.part" "$2"
}

mkdir -p "$cache"
for suite in "${suites[@]}"; do
  base=$cache/$suite.tar
  tools=$cache/$suite-tools.tar
  [[ ! -f $base || ! -f $tools ]] || continue
  root=$(mktemp -d "$cache/new.XXXXXX")
  trap 'rm -rf "$root"' EXIT
  if ! debootstrap --variant=minbase --include=zstd,python3-pip "$suite" "$root" "$mirror" \
    >"$cache/$suite.log" 2>&1; then
    tail -n 20 "$cache/$suite.log" >&2
    exit 1
  fi
  chmod 755 "$root"
  pack "$root" "$base"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends g++ rustc cmake make ninja-build \
    >>"$cache/$suite.log" 2>&1
  rm -f "$root/etc/resolv.conf"
  pack "$root" "$tools"
  rm -rf "$root"
  du -m "$base" "$tools"
done
