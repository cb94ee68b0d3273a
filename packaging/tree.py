# SPDX-License-Identifier: Apache-2.0
"""Lays out the files of a package below a folder, as bin/, include/, lib/ and share/.

The libraries to carry are those that the packaged files need, by the names in their dynamic
sections. Libraries of other projects are carried as they are, since the licenses of oneMKL and CUDA
allow no change.
"""

import dataclasses
import os
import re
import shutil
import subprocess

import components
from archive import digest_of, files_below
from docs import add_pages
from elf import ElfFile, is_elf, newest_versions, set_build_id
from sbom import sbom_text

# Libraries that every system with glibc and libstdc++ has. The policies of manylinux allow the same
# names.
BASE_LIBRARIES = {
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libstdc++.so.6",
    "libutil.so.1",
}

# The newest symbols that a packaged file may need: those of Ubuntu 22.04, and of manylinux_2_35.
NEWEST_VERSIONS = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}

# Libraries that only the CUDA module needs. The wheel of torch brings them; other packages have no
# CUDA module.
CUDA_MODULE = "lib/tenon/tenon_cuda.so"


@dataclasses.dataclass
class Build:
    """A build, and what all packages made from it have in common."""

    folder: str
    source: str
    version: str
    torch: str  # the folder of libtorch
    torch_version: str  # 2.11.0
    cuda_major: str  # of the CUDA that libtorch was built with: "13", or ""
    commit: str
    epoch: int
    origins: components.Origins
    _compiled: list = None

    def compiled(self):
        """The components of which headers or static libraries are compiled in."""
        if self._compiled is None:
            # `inputs` names files, and plugins are built by a target without one.
            targets = ["bin/host", "tenon_plugins", "tenon_parquet", "tenon_cuda"]
            known = subprocess.run(
                ["ninja", "-C", self.folder, "-t", "targets", "all"],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            targets = [t for t in targets if f"\n{t}: " in "\n" + known]
            found = {}
            for path in components.compiled_inputs(self.folder, targets):
                if not path.startswith(self.folder + "/"):
                    component = self.origins.of_input(path)
                    if component is not None:
                        found[component.name] = component
            self._compiled = list(found.values())
        return self._compiled


class Tree:
    """The files of one package below a folder."""

    def __init__(self, build, root):
        self.build = build
        self.root = root
        self.carried = {}  # component: [path]

    def path(self, *parts):
        path = os.path.join(self.root, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def install(self, component):
        subprocess.run(
            [
                "cmake",
                "--install",
                self.build.folder,
                "--prefix",
                self.root,
                "--component",
                component,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def add_program(self):
        self.install("program")
        self.install("plugins")
        data = os.path.join(self.build.source, "data/kjv.txt")
        if not os.path.exists(data):
            raise SystemExit(
                "package: data/kjv.txt, which recipes/quickstart.json reads, does not exist; "
                "run ./dev deps"
            )
        shutil.copyfile(data, self.path("share/tenon/data/kjv.txt"))
        self.carried[self.build.origins.king_james_text()] = ["share/tenon/data/kjv.txt"]
        for component in self.build.compiled():
            self.carried.setdefault(component, [])

    def add_sdk(self):
        self.install("sdk")

    def add_docs(self):
        shutil.copyfile(
            os.path.join(self.build.source, "LICENSE"), self.path("share/doc/tenon/LICENSE")
        )
        add_pages(self.build.source, self.root)

    def remove(self, name):
        path = self.path(name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.remove(path)

    def add_torch_headers(self):
        """What a plugin of lane torch is compiled with."""
        target = "lib/tenon/libtorch"
        shutil.copytree(
            os.path.join(self.build.torch, "include"),
            self.path(target, "include"),
            ignore=shutil.ignore_patterns("__pycache__", "pybind11*"),
        )
        for name in ("version.py", "build-version", "build-hash"):
            if os.path.exists(os.path.join(self.build.torch, name)):
                shutil.copyfile(os.path.join(self.build.torch, name), self.path(target, name))
        torch = self.build.origins.of_library("libtorch_cpu.so")
        self.carried.setdefault(torch, [])

    def elf_files(self):
        return [
            name
            for name in files_below(self.root)
            if not os.path.islink(self.path(name)) and is_elf(self.path(name))
        ]

    def add_libraries(self, others=()):
        """Carries each library that a file needs, except the base system's.

        `others` are names that another package brings."""
        places = {
            "lib/tenon/libtorch/lib": [
                os.path.join(self.build.torch, "lib"),
                os.path.join(self.build.folder, "lib/cuda/lib"),
            ],
            "lib/tenon/arrow": [os.path.join(self.build.folder, "lib/arrow")],
            "lib/tenon/text": [os.path.join(self.build.folder, "lib/text")],
        }
        todo = self.elf_files()
        present = {os.path.basename(name) for name in todo}
        while todo:
            name = todo.pop()
            for needed in ElfFile(self.path(name)).needed:
                if needed in present or needed in BASE_LIBRARIES or needed in others:
                    continue
                for place, folders in places.items():
                    found = [f for f in folders if os.path.exists(os.path.join(f, needed))]
                    if found:
                        break
                else:
                    raise SystemExit(
                        f"package: {name} needs {needed}, which is neither in libtorch's folder "
                        "nor in Arrow's, nor among the libraries of tokenizers; link it statically"
                    )
                target = os.path.join(place, needed)
                shutil.copyfile(os.path.join(found[0], needed), self.path(target))
                present.add(needed)
                todo.append(target)
                origin = self.build.origins.of_library(os.path.join(found[0], needed))
                self.carried.setdefault(origin, []).append(target)
                if needed.startswith("libtorch_cpu"):
                    self.carried.setdefault(self.build.origins.onemkl(), []).append(target)

    def set_library_path(self, name, path):
        ElfFile(self.path(name)).set_library_path(path)

    def finish(self):
        """Writes licenses and the bill of materials, and checks the files.

        Call it last: hashes are taken here.
        """
        third_party = {path for files in self.carried.values() for path in files}
        for name in self.elf_files():
            if name not in third_party:
                subprocess.run(
                    ["strip", "--strip-debug", "--remove-section=.comment", self.path(name)],
                    check=True,
                )
                set_build_id(self.path(name))
        self._write_licenses()
        carried = {}
        for component, files in self.carried.items():
            known = next((c for c in carried if c.name == component.name), None)
            if known is not None and component.how == "compiled":
                continue  # its library is carried too
            if known is not None:
                del carried[known]
            carried[component] = [
                (path, digest_of(self.path(path), "sha256")) for path in sorted(files)
            ]
        text = sbom_text(self.build.version, self.build.commit, self.build.epoch, carried)
        with open(self.path("share/doc/tenon/sbom.cdx.json"), "w") as file:
            file.write(text)
        self._set_modes()
        self.check(third_party)

    def _write_licenses(self):
        for component in self.carried:
            for name, content in component.texts:
                with open(
                    self.path("share/doc/tenon/licenses", component.name, name), "wb"
                ) as file:
                    file.write(content)

    def _set_modes(self):
        """Programs and libraries as usual, whatever the umask is."""
        for base, folders, names in os.walk(self.root):
            for name in folders:
                os.chmod(os.path.join(base, name), 0o755)
            for name in names:
                path = os.path.join(base, name)
                if not os.path.islink(path):
                    os.chmod(path, 0o755 if os.path.basename(base) == "bin" else 0o644)
        os.chmod(self.root, 0o755)

    def check(self, third_party):
        """Fails if a file would not run elsewhere."""
        ours = {
            os.path.realpath(self.build.source),
            os.path.realpath(self.build.folder),
            self.build.source,
            self.build.folder,
            os.path.realpath(self.build.torch),
        }
        paths = re.compile(b"|".join(re.escape(p.encode()) for p in sorted(ours)))
        for name in files_below(self.root):
            path = self.path(name)
            if os.path.islink(path):
                raise SystemExit(f"package: {name} is a link")
            if name in third_party or name.startswith("lib/tenon/libtorch/include/"):
                continue
            with open(path, "rb") as file:
                found = paths.search(file.read())
            if found:
                raise SystemExit(
                    f"package: {name} contains the path {found.group().decode()} of this machine"
                )
        for name in self.elf_files():
            path = self.path(name)
            library_path = ElfFile(path).library_path
            if name not in third_party and library_path is not None:
                for part in library_path.split(":"):
                    if not part.startswith("$ORIGIN/"):
                        raise SystemExit(
                            f"package: {name} has the library path {library_path}, which is not "
                            "relative to its folder"
                        )
            for group, version in newest_versions(path).items():
                if group in NEWEST_VERSIONS and version > NEWEST_VERSIONS[group]:
                    found = ".".join(map(str, version))
                    raise SystemExit(
                        f"package: {name} needs {group}_{found}; build on Debian 12 or Ubuntu "
                        "22.04, which have older libraries"
                    )
