# SPDX-License-Identifier: Apache-2.0
"""Writes a folder as .tar.zst: the same bits from any folder, day and user."""

import hashlib
import os
import subprocess
import tarfile


def files_below(folder):
    """Paths of all files and links below a folder, relative to it and sorted by bytes."""
    found = []
    for base, folders, names in os.walk(folder):
        links = [n for n in folders if os.path.islink(os.path.join(base, n))]
        found += [os.path.relpath(os.path.join(base, name), folder) for name in names + links]
    return sorted(found, key=os.fsencode)


def digest_of(path, algorithm):
    digest = hashlib.new(algorithm)
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def is_program(path):
    return os.access(path, os.X_OK)


def write_archive(folder, top, out, epoch, level):
    """Writes the files of `folder` to `out`, below the folder `top` of the archive."""
    with open(out, "wb") as target:
        zstd = subprocess.Popen(
            ["zstd", "-q", "-T1", f"-{level}", "--long=27", "-c"],
            stdin=subprocess.PIPE,
            stdout=target,
        )
        with tarfile.open(fileobj=zstd.stdin, mode="w|", format=tarfile.GNU_FORMAT) as tar:
            folders = set()
            for name in files_below(folder):
                parent = os.path.dirname(name)
                above = []
                while parent not in folders:
                    folders.add(parent)
                    above.append(parent)
                    parent = os.path.dirname(parent) if parent else parent
                for part in reversed(above):
                    _add(
                        tar,
                        tarfile.TarInfo(os.path.join(top, part).rstrip("/")),
                        epoch,
                        kind=tarfile.DIRTYPE,
                        mode=0o755,
                    )
                path = os.path.join(folder, name)
                info = tarfile.TarInfo(os.path.join(top, name))
                if os.path.islink(path):
                    info.linkname = os.readlink(path)
                    _add(tar, info, epoch, kind=tarfile.SYMTYPE, mode=0o777)
                else:
                    info.size = os.path.getsize(path)
                    with open(path, "rb") as file:
                        _add(
                            tar,
                            info,
                            epoch,
                            kind=tarfile.REGTYPE,
                            mode=0o755 if is_program(path) else 0o644,
                            content=file,
                        )
        zstd.stdin.close()
        if zstd.wait() != 0:
            raise SystemExit(f"package: zstd failed to write {out}")


def _add(tar, info, epoch, kind, mode, content=None):
    info.type = kind
    info.mode = mode
    info.mtime = epoch
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    tar.addfile(info, content)
