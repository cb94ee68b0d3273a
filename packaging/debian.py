# SPDX-License-Identifier: Apache-2.0
"""Makes Debian packages of a tree: `tenon` and `tenon-dev`.

They have no scripts, so that nothing is left after their removal. Their files lie in /usr, with all
libraries in /usr/lib/tenon.
"""

import gzip
import os
import shutil
import subprocess
import tempfile

from archive import digest_of, files_below
from elf import is_elf

_MAINTAINER = "Tenon developers <noreply@tenon.invalid>"

_COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: tenon

Files: *
Copyright: The Tenon authors
License: Apache-2.0
 The full text is in /usr/share/common-licenses/Apache-2.0.
Comment: The package carries and links software of other projects. The folder
 /usr/share/doc/{package}/licenses has the licenses of each. Versions and files are listed in
 /usr/share/doc/{package}/sbom.cdx.json.
"""

_DESCRIPTIONS = {
    "tenon": """Trains the model that a recipe describes
 Tenon is a native training program for PyTorch models. Models, datasets,
 losses, optimizers and hooks are plugins behind a C interface. This package
 has the program, its plugins, recipes, and the CPU libraries of libtorch.""",
    "tenon-dev": """Headers and CMake package for plugins of Tenon
 Plugins of Tenon are shared libraries. This package has all that is needed
 to build them: the C and C++ headers, declarations for Rust, the CMake
 package, templates, the documentation, and the headers of libtorch for
 plugins that use it.""",
}


def _depends(root, libraries):
    """What the package must depend on, computed from symbols by dpkg-shlibdeps."""
    os.makedirs(os.path.join(root, "DEBIAN"), exist_ok=True)  # it says where $ORIGIN is
    with tempfile.TemporaryDirectory() as scratch:
        os.makedirs(os.path.join(scratch, "debian"))
        with open(os.path.join(scratch, "debian/control"), "w") as file:
            file.write("Source: tenon\n\nPackage: tenon\nArchitecture: amd64\n")
        files = [
            os.path.join(root, name)
            for name in files_below(root)
            # Compiled models of recipes run in the program, with the package's own libraries.
            if is_elf(os.path.join(root, name)) and "usr/share/" not in name
        ]
        # Libraries of the package itself have no information; tree.py checks that it needs no other.
        result = subprocess.run(
            [
                "dpkg-shlibdeps",
                "-O",
                "--warnings=0",
                "--ignore-missing-info",
                f"-S{root}",
                *[f"-l{folder}" for folder in libraries],
                *[f"-e{file}" for file in files],
            ],
            cwd=scratch,
            capture_output=True,
            text=True,
        )
        if result.returncode != 0:
            raise SystemExit(f"package: dpkg-shlibdeps failed:\n{result.stderr}")
        return result.stdout.strip().split("shlibs:Depends=")[1]


def _compress(path, epoch):
    """Replaces a file by its gzip, without name and time."""
    with open(path, "rb") as file:
        content = file.read()
    with open(path + ".gz", "wb") as target:
        with gzip.GzipFile(
            filename="", mode="wb", fileobj=target, compresslevel=9, mtime=epoch
        ) as out:
            out.write(content)
    os.remove(path)


def write_deb(tree, package, out, level):
    """Writes a package of the files of `tree`, which has bin/, lib/ and share/."""
    build = tree.build
    with tempfile.TemporaryDirectory(dir=os.path.dirname(tree.root)) as scratch:
        root = os.path.join(scratch, package)
        os.makedirs(root)
        os.chmod(root, 0o755)
        shutil.copytree(tree.root, os.path.join(root, "usr"), copy_function=os.link)
        docs = os.path.join(root, "usr/share/doc")
        if package != "tenon":
            os.rename(os.path.join(docs, "tenon"), os.path.join(docs, package))
        docs = os.path.join(docs, package)
        os.unlink(os.path.join(docs, "LICENSE"))
        with open(os.path.join(docs, "copyright"), "w") as file:
            file.write(_COPYRIGHT.format(package=package))
        man = os.path.join(root, "usr/share/man/man1/tenon.1")
        if os.path.exists(man):
            _compress(man, build.epoch)
        usr = os.path.join(root, "usr")
        zsh = os.path.join(usr, "share/zsh")
        if os.path.exists(zsh):  # where Debian's zsh looks for completions of packages
            os.rename(os.path.join(zsh, "site-functions"), os.path.join(zsh, "vendor-completions"))
        fields = {
            "Package": package,
            "Version": build.version,
            "Architecture": "amd64",
            "Maintainer": _MAINTAINER,
            "Section": "science" if package == "tenon" else "libdevel",
            "Priority": "optional",
            "Installed-Size": str(
                sum(
                    (os.path.getsize(os.path.join(root, name)) + 1023) // 1024
                    for name in files_below(root)
                )
            ),
        }
        if package == "tenon":
            fields["Depends"] = _depends(
                root,
                [os.path.join(usr, "lib/tenon", place) for place in ("", "libtorch/lib", "arrow", "text")],
            )
        else:
            fields["Depends"] = f"tenon (= {build.version})"
            fields["Recommends"] = "cmake (>= 3.25), g++ | c++-compiler, make | ninja-build"
        fields["Description"] = _DESCRIPTIONS[package]
        os.makedirs(os.path.join(root, "DEBIAN"), exist_ok=True)
        with open(os.path.join(root, "DEBIAN/control"), "w") as file:
            file.writelines(f"{name}: {value}\n" for name, value in fields.items())
        with open(os.path.join(root, "DEBIAN/md5sums"), "w") as file:
            for name in files_below(usr):
                file.write(f"{digest_of(os.path.join(usr, name), 'md5')}  usr/{name}\n")
        for base, folders, names in os.walk(root):
            for name in folders + [n for n in names if base.startswith((docs, root + "/DEBIAN"))]:
                os.chmod(os.path.join(base, name), 0o755 if name in folders else 0o644)
            # Hard links share their times with the tree, so all are set to one value.
            for name in folders + names:
                os.utime(os.path.join(base, name), (build.epoch, build.epoch))
        os.utime(root, (build.epoch, build.epoch))
        subprocess.run(
            [
                "dpkg-deb",
                "--root-owner-group",
                "-Zzstd",
                "--no-uniform-compression",  # older systems can read what it depends on
                f"-z{level}",
                "--threads-max=1",
                "--build",
                root,
                out,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(build.epoch), "LC_ALL": "C"},
        )
