#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the bare Debian systems in which bare_root_test.py installs packages:
#
#     tests/packages/make_root.sh [SUITE...]
#
# SUITE is bookworm or trixie, by default both, or bullseye, which is too old for the packages. It
# needs root, debootstrap, pip, and the Debian mirror of this machine's apt or of DEBIAN_MIRROR. It
# writes to the cache of ./dev deps:
#
#     roots/SUITE.tar         the base system, zstd, and Python's pip
#     roots/SUITE-tools.tar   also what builds plugins: g++, rustc, cmake, make, ninja
#     wheels/torch-*.whl      for the Python of that system, of the version in deps.lock
#
# A file that exists stays as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
suites=("$@")
(($# > 0)) || suites=(bookworm trixie)
wheels=${TENON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tenon}/wheels
cache=${wheels%/wheels}/roots
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

# The wheel of torch for Python 3.MINOR, if there is one.
get_torch() {  # MINOR
  local version
  version=$(sed -n 's/^torch==\([^ ]*\).*/\1/p' cmake/deps.lock)
  compgen -G "$wheels/torch-$version-cp3$1-*.whl" >/dev/null ||
    python3 -m pip --disable-pip-version-check download --quiet --no-deps --only-binary=:all: \
      --python-version "3.$1" --platform manylinux_2_28_x86_64 --dest "$wheels" "torch==$version" ||
    echo "make_root.sh: the wheel of torch $version for Python 3.$1 was not downloaded" >&2
}

mkdir -p "$cache" "$wheels"
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
  get_torch "$(chroot "$root" python3 -c 'import sys; print(sys.version_info[1])')"
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
