# SPDX-License-Identifier: Apache-2.0
"""Tests of what `./dev compat` reads and compares. They need neither a network nor a second libtorch."""
import contextlib
import io
import os
import pathlib
import tempfile
import unittest
import zipfile

import compare_hosts
import fetch_torch

TOOLKIT = """Name: torch
Requires-Dist: filelock
Requires-Dist: cuda-toolkit[cublas,cudart,cufft,cupti,nvtx]==13.2.2; platform_system == "Linux"
Requires-Dist: nvidia-cudnn-cu13==9.26.0.51; platform_system == "Linux"
"""
LIBRARIES = """Name: torch
Requires-Dist: nvidia-cuda-nvrtc-cu12==12.8.93; platform_system == "Linux"
Requires-Dist: nvidia-cuda-runtime-cu12==12.8.90; platform_system == "Linux"
Requires-Dist: nvidia-cuda-cupti-cu12==12.8.90; platform_system == "Linux"
"""


class FetchTest(unittest.TestCase):
    def test_only_small_cuda_libraries_are_fetched(self):
        self.assertEqual(fetch_torch.cuda_requirements(TOOLKIT), ["cuda-toolkit[cudart,cupti]==13.2.2"])
        self.assertEqual(fetch_torch.cuda_requirements(LIBRARIES),
                         ["nvidia-cuda-runtime-cu12==12.8.90", "nvidia-cuda-cupti-cu12==12.8.90"])
        self.assertEqual(fetch_torch.cuda_requirements("Name: torch\nRequires-Dist: filelock\n"), [])

    def test_the_newest_release_is_read_from_pip(self):
        self.assertEqual(fetch_torch.newest_of("torch (2.15.0)\nAvailable versions: 2.15.0, 2.14.1\n"), "2.15.0")
        with self.assertRaisesRegex(fetch_torch.FetchError, "lists no release"):
            fetch_torch.newest_of("ERROR: nothing")

    def test_without_a_network_the_newest_complete_one_serves(self):
        with tempfile.TemporaryDirectory() as desk:
            into = pathlib.Path(desk)
            for version in ("2.9.1", "2.12.0", "2.11.0"):
                (into / f"torch-{version}").mkdir()
                (into / f"torch-{version}/complete").touch()
            (into / "torch-2.20.0").mkdir()  # incomplete
            original = fetch_torch.pip
            fetch_torch.pip = self.offline
            try:
                with contextlib.redirect_stderr(io.StringIO()) as warned:
                    self.assertEqual(fetch_torch.newest_version(into), "2.12.0")
                self.assertIn("fetched earlier", warned.getvalue())
                with self.assertRaises(fetch_torch.FetchError):
                    fetch_torch.newest_version(into / "torch-2.20.0")
            finally:
                fetch_torch.pip = original

    def offline(self, *_):
        raise fetch_torch.FetchError("no network")

    def test_a_wheel_is_unpacked_whole_and_without_cuda(self):
        with tempfile.TemporaryDirectory() as desk:
            wheels = pathlib.Path(desk, "wheels")
            wheels.mkdir()
            wheel = wheels / "torch-9.1.0-cp000.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                for name in ("torch/include/ATen/ATen.h", "torch/version.py", "torch/lib/libc10.so",
                             "torch/lib/libtorch_cpu.so", "torch/lib/libgomp-24e2ab19.so.1", "torch/nn/layer.py",
                             "torch/lib/libtorch_cuda.so", "torch/lib/libc10_cuda.so", "torch/lib/libtorch_python.so"):
                    archive.writestr(name, name)
                archive.writestr("torch-9.1.0.dist-info/METADATA", "Name: torch\n")
            original = fetch_torch.cached_torch
            fetch_torch.cached_torch = lambda *_: wheel
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    fetch_torch.fetch("9.1.0", pathlib.Path(desk, "into"), wheels)
            finally:
                fetch_torch.cached_torch = original
            folder = pathlib.Path(desk, "into/torch-9.1.0")
            files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
            self.assertEqual(files, ["complete", "torch/include/ATen/ATen.h", "torch/lib/libc10.so",
                                     "torch/lib/libgomp-24e2ab19.so.1", "torch/lib/libtorch_cpu.so",
                                     "torch/version.py"])
            self.assertEqual(os.listdir(folder.parent), ["torch-9.1.0"])
            self.assertEqual(fetch_torch.fetched_versions(folder.parent), ["9.1.0"])


class CompareTest(unittest.TestCase):
    def test_losses_may_differ_by_rounding_only(self):
        self.assertAlmostEqual(compare_hosts.largest_difference([4.0, 2.0], [4.0, 2.00001]), 5e-6, places=9)
        for other in ([4.0, 2.01], [4.0], [4.0, float("nan")]):
            with self.assertRaises(compare_hosts.Mismatch):
                compare_hosts.largest_difference([4.0, 2.0], other)
        with self.assertRaises(compare_hosts.Mismatch):
            compare_hosts.largest_difference([], [])

    def test_functions_of_libtorch_are_read_from_nm(self):
        listing = ("                 U aoti_torch_get_dim\n                 U torch_call_dispatcher\n"
                   "                 U _ZN2at4_ops3addE\n                 U memcpy@GLIBC_2.14\n"
                   "0000000000a1b2c3 T aoti_torch_delete_tensor_object\n")
        self.assertEqual(compare_hosts.functions_in(listing),
                         {"aoti_torch_get_dim", "torch_call_dispatcher", "aoti_torch_delete_tensor_object"})

    def test_versions_and_files_are_read_from_the_host(self):
        text = "tenon 0.1.0 (ABI 0.4, libtorch 2.15.0+cu132, g++ 12.2.0, x86_64)"
        self.assertEqual(compare_hosts.libtorch_version(text), "2.15.0+cu132")
        listing = "\tlinux-vdso.so.1 (0x7f)\n\tlibtorch_cpu.so => /opt/t/lib/libtorch_cpu.so (0x7f)\n"
        self.assertEqual(compare_hosts.library_path(listing, "libtorch_cpu.so"),
                         pathlib.Path("/opt/t/lib/libtorch_cpu.so"))
        with self.assertRaisesRegex(compare_hosts.Mismatch, "was not found"):
            compare_hosts.library_path("\tlibtorch_cpu.so => not found\n", "libtorch_cpu.so")

    def test_columns_are_aligned(self):
        self.assertEqual(compare_hosts.table([["libtorch", "x"], ["2.9", "12"]]), ["libtorch  x", "2.9       12"])


if __name__ == "__main__":
    unittest.main()
