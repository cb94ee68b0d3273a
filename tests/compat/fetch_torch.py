#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches a release of libtorch for `./dev compat`, and prints its folder.

usage: fetch_torch.py --into FOLDER --wheels FOLDER [--torch VERSION]

Without a version it fetches the newest release of the package `torch` that pip finds for this Python. The headers and
the CPU libraries of the wheel go to INTO/torch-VERSION/torch. The small CUDA libraries that libtorch_cpu.so links lie
beside it, where its library path expects them. A second call for the same version downloads nothing.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

# Of the wheel of torch. libtorch_cuda, which is larger than all of this, is not needed.
PARTS = re.compile(r"torch/(include/.*|share/cmake/.*|version\.py|lib/lib(c10|torch_cpu|gomp|gfortran)[.-][^/]*)$")


class FetchError(Exception):
    """A failure that the user can act on."""


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FetchError(f"pip {arguments[0]} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def version_key(version):
    """Sorts versions such as 2.9.1 and 2.11.0 by number."""
    return [int(part) for part in re.findall(r"\d+", version)]


def newest_of(listing):
    """The version in the output of `pip index versions torch`."""
    found = re.match(r"torch \(([0-9][^)]*)\)", listing)
    if found is None:
        raise FetchError(f"pip lists no release of torch: {listing.strip()[:200]}")
    return found.group(1)


def fetched_versions(into):
    """The versions in a folder that are complete, oldest first."""
    return sorted((path.parent.name[len("torch-"):] for path in into.glob("torch-*/complete")), key=version_key)


def newest_version(into):
    """The newest release; without a network, the newest that was fetched before."""
    try:
        return newest_of(pip("index", "versions", "torch"))
    except FetchError as error:
        fetched = fetched_versions(into)
        if not fetched:
            raise
        print(f"compat: {error}; using torch {fetched[-1]}, which was fetched earlier", file=sys.stderr)
        return fetched[-1]


def cuda_requirements(metadata):
    """What pip must download for libcudart and libcupti, from the metadata of the wheel of torch."""
    needed = []
    for line in metadata.splitlines():
        toolkit = re.match(r"Requires-Dist: cuda-toolkit\[([a-z,]+)\]\s*==\s*([0-9.]+)", line)
        library = re.match(r"Requires-Dist: (nvidia-cuda-(?:runtime|cupti)(?:-cu\d+)?)\s*==\s*([0-9.]+)", line)
        if toolkit and {"cudart", "cupti"} <= set(toolkit.group(1).split(",")):
            needed.append(f"cuda-toolkit[cudart,cupti]=={toolkit.group(2)}")
        elif library:
            needed.append(f"{library.group(1)}=={library.group(2)}")
    return needed


def download(requirements, wheels, *options):
    """Downloads wheels that are not in the folder yet, and returns their paths."""
    with tempfile.TemporaryDirectory(dir=wheels, prefix="part.") as part:
        pip("download", "--quiet", "--only-binary=:all:", "--find-links", str(wheels), "--dest", part, *options,
            *requirements)
        found = sorted(pathlib.Path(part).glob("*.whl"))
        for path in found:
            os.replace(path, wheels / path.name)
    return [wheels / path.name for path in found]


def cached_torch(wheels, version):
    """The wheel of a version for this Python that was downloaded earlier, or None."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    found = sorted(wheels.glob(f"torch-{version}-{tag}-*.whl"))
    return found[0] if found else None


def unpack(wheel, folder, wanted):
    """Unpacks the members of a wheel whose names match."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if wanted(name) and not name.endswith("/"):
                archive.extract(name, folder)


def metadata_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if re.fullmatch(r"torch-[^/]*\.dist-info/METADATA", name))
        return archive.read(name).decode()


def fetch(version, into, wheels):
    """Downloads and unpacks a version. INTO/torch-VERSION then has all of it, or does not exist."""
    wheels.mkdir(parents=True, exist_ok=True)
    wheel = cached_torch(wheels, version)
    if wheel is None:
        print(f"  downloading torch {version} (about 550 MB)", file=sys.stderr)
        wheel = download([f"torch=={version}"], wheels, "--no-deps")[0]
    libraries = []
    requirements = cuda_requirements(metadata_of(wheel))
    if requirements:
        libraries = download(requirements, wheels)
    print(f"  unpacking torch {version}", file=sys.stderr)
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into, prefix="part.") as part:
        unpack(wheel, part, PARTS.match)
        for library in libraries:
            unpack(library, part, lambda name: name.startswith("nvidia/"))
        pathlib.Path(part, "complete").touch()
        target = into / f"torch-{version}"
        shutil.rmtree(target, ignore_errors=True)
        os.chmod(part, 0o755)
        os.replace(part, target)
        os.mkdir(part)  # for TemporaryDirectory to remove


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--into", type=pathlib.Path, required=True)
    parser.add_argument("--wheels", type=pathlib.Path, required=True)
    parser.add_argument("--torch")
    given = parser.parse_args()
    try:
        version = given.torch or newest_version(given.into)
        if not (given.into / f"torch-{version}" / "complete").exists():
            fetch(version, given.into, given.wheels)
    except FetchError as error:
        sys.exit(f"compat: {error}")
    print((given.into / f"torch-{version}" / "torch").absolute())


if __name__ == "__main__":
    main()
