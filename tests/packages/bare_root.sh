#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs packages in a bare Debian without network, trains with them, removes them, and prints how
# long each took from the package to the end of the first training step. Run it by hand, as root:
#
#     tests/packages/bare_root.sh [SUITE] [KIND...]
#
# SUITE is bookworm (default) or trixie; KIND is archive, deb or wheel; default: all. It needs
# debootstrap, unshare, and the packages of `./dev package` in build/packages. The first run loads
# a bare system and Python's pip into build/bare-SUITE.tar, and the wheels that torch needs on a CPU
# must be in the cache of ./dev deps.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
suite=${1:-bookworm}
(($# > 0)) && shift
kinds=("$@")
(($# > 0)) || kinds=(archive deb wheel)
packages=$PWD/build/packages
wheels=${TENON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tenon}/wheels
base=$PWD/build/bare-$suite.tar
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
quiet='--quiet --root-user-action=ignore --break-system-packages'
[[ $(id -u) == 0 ]] || { echo "bare_root.sh: must run as root" >&2; exit 1; }

if [[ ! -f $base ]]; then
  for name in debootstrap unshare; do
    command -v $name >/dev/null || { echo "bare_root.sh: $name is not installed" >&2; exit 1; }
  done
  new=$(mktemp -d)
  # What the base system lacks: zstd, and for the wheel Python with pip.
  debootstrap --variant=minbase --include=zstd,python3-pip "$suite" "$new" "$mirror" >"$base.log"
  rm -rf "$new"/var/cache/apt/archives/*.deb
  tar -C "$new" -cf "$base.part" .
  mv "$base.part" "$base"
  rm -rf "$new"
fi

for kind in "${kinds[@]}"; do
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  tar -C "$root" -xf "$base"
  mkdir -p "$root/packages" "$root/work"
  case $kind in
    archive)
      cp "$packages"/tenon-*-linux-x86_64.tar.zst "$root/packages/"
      install='mkdir /opt/tenon &&
        tar --zstd --strip-components=1 -C /opt/tenon -xf /packages/*.zst'
      prefix=/opt/tenon program=/opt/tenon/bin/tenon
      remove='rm -rf /opt/tenon'
      ;;
    deb)
      cp "$packages"/tenon_*_amd64.deb "$root/packages/"
      install='dpkg -i /packages/tenon_*.deb >/dev/null'
      prefix=/usr program=/usr/bin/tenon
      remove='dpkg --purge tenon >/dev/null'
      ;;
    wheel)
      cp "$packages"/tenon-*.whl "$wheels"/torch-*.whl "$wheels"/nvidia_cuda_runtime-*.whl \
        "$wheels"/nvidia_cuda_cupti-*.whl "$root/packages/"
      # Without the packages that torch needs for Python and for GPUs.
      install="pip install $quiet --no-index --no-deps --no-compile /packages/*.whl"
      prefix=$(chroot "$root" python3 -c 'import sysconfig as s; print(s.get_path("platlib"))')
      prefix=$prefix/tenon
      program=tenon
      remove="pip uninstall $quiet -y tenon torch nvidia-cuda-runtime nvidia-cuda-cupti"
      ;;
    *) echo "bare_root.sh: $kind is not archive, deb or wheel" >&2; exit 1 ;;
  esac
  inside() {
    unshare --net --mount bash -ec 'mount -t proc proc "$0/proc"; exec chroot "$0" env -i \
      PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/work bash -ec "$1"' "$root" "$1"
  }
  # Without folders that pip and the wheels of others leave or remove.
  files() {
    (cd "$root" && find . -regex \
      '\./\(packages\|work\|proc\|tmp\|var/log\|var/lib/dpkg\|usr/local/bin\)' -prune -o \
      \( -name __pycache__ -o -path '*/dist-packages/nvidia' \) -prune -o -print | sort)
  }
  files >"$root/../before.$$"
  sync
  began=$(date +%s.%N)
  inside "$install"
  installed=$(date +%s.%N)
  recipes=$prefix/share/tenon/recipes
  inside "cd /work && $program --recipe $recipes/quickstart.json --set train.steps=1 \
    --set eval.at_end=false --quiet"
  ended=$(date +%s.%N)
  inside "cd /work && $program --recipe $recipes/iris.json --quiet"
  inside "$remove"
  files >"$root/../after.$$"
  left=$(diff "$root/../before.$$" "$root/../after.$$" || true)
  rm -f "$root/../before.$$" "$root/../after.$$"
  if [[ -n $left ]]; then
    printf 'bare_root.sh: files are left after the removal:\n%s\n' "$left" >&2
    exit 1
  fi
  awk -v kind="$kind" -v suite="$suite" -v a="$began" -v b="$installed" -v c="$ended" 'BEGIN {
    printf "%s %s: installed in %.1f s, first step after %.1f s; removed without a trace\n",
      suite, kind, b - a, c - a }'
  rm -rf "$root"
done
