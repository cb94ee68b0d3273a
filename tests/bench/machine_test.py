# SPDX-License-Identifier: Apache-2.0
"""Tests of how `./dev bench` names machines, and of the pages that it writes for them."""
import pathlib
import re
import tempfile
import unittest
import unittest.mock

import cpu
import machine
import page


def lscpu(vendor, name, family, model, flags):
    return cpu.parsed(f"Architecture:   x86_64\nVendor ID:   {vendor}\n  Model name:  {name}\n    CPU family:  {family}\n"
                      f"    Model:   {model}\nFlags:  fpu sse sse4_2 {flags}\n")


ZEN_3 = lscpu("AuthenticAMD", "AMD EPYC", 25, 1, "avx2")
ZEN_4 = lscpu("AuthenticAMD", "AMD EPYC 9R14", 25, 17, "avx2 avx512f avx512_bf16")
EMERALD = lscpu("GenuineIntel", "Intel(R) Xeon(R) Processor", 6, 207, "avx2 avx512f avx512_bf16 amx_tile amx_bf16")


class CpuTest(unittest.TestCase):
    def test_pages_are_named_by_vendor_microarchitecture_and_best_set(self):
        self.assertEqual([one.slug() for one in (ZEN_3, ZEN_4, EMERALD)],
                         ["amd-epyc-zen3-avx2", "amd-epyc-zen4-avx512", "intel-xeon-emerald-rapids-amx"])
        self.assertEqual(ZEN_4.title(), "AMD EPYC, Zen 4, AVX-512")

    def test_an_unknown_processor_is_named_by_its_numbers(self):
        self.assertEqual(lscpu("GenuineIntel", "Intel(R) Core(TM) i9", 6, 151, "avx2").slug(),
                         "intel-core-family-6-model-151-avx2")
        self.assertEqual(cpu.parsed("").family, 0)

    def test_the_header_names_missing_instruction_sets(self):
        self.assertEqual(ZEN_3.sets_text(), "AVX2; not AVX-512, AVX512-BF16, AMX")
        self.assertEqual(EMERALD.sets_text(), "AVX2, AVX-512, AVX512-BF16, AMX")
        self.assertTrue(ZEN_3.text().startswith("AMD EPYC (AuthenticAMD, family 25, model 1: Zen 3), "))

    def test_switches_take_away_what_the_processor_has(self):
        self.assertEqual([one.lesser_sets() for one in (ZEN_3, ZEN_4, EMERALD)],
                         [["sse"], ["avx2", "sse"], ["avx512", "avx2", "sse"]])

    def test_switches_of_the_environment_are_named(self):
        self.assertEqual(cpu.switches_set({"TENON_SIMD": "basic", "MKL_ENABLE_INSTRUCTIONS": "", "HOME": "/"}),
                         ["TENON_SIMD=basic"])


class MachineTest(unittest.TestCase):
    def test_libraries_are_named_in_short(self):
        self.assertEqual(machine.short_blas("Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605"),
                         "MKL 2024.2")
        self.assertEqual(machine.short_onednn("Intel(R) MKL-DNN v3.10.2 (Git Hash f1d)"), "oneDNN 3.10.2")
        self.assertEqual(machine.short_blas("open"), "open")

    def test_a_watch_counts_only_others(self):
        with unittest.mock.patch.multiple(machine, busy_cpu_s=unittest.mock.Mock(side_effect=[100, 106]),
                                          own_cpu_s=unittest.mock.Mock(side_effect=[10, 12])), \
                unittest.mock.patch("time.monotonic", side_effect=[0, 8]), \
                unittest.mock.patch("os.cpu_count", return_value=2):
            self.assertEqual(machine.Watch().others(), 4 / 16)


class PageTest(unittest.TestCase):
    TEXT = "a\n<!-- bench lm -->\n\nold\n\n<!-- end -->\nb\n<!-- bench mlp -->\n<!-- end -->\n"

    def test_a_table_replaces_the_old_table_of_its_name(self):
        text = page.replaced(self.TEXT, "lm", "| new |\n")
        self.assertEqual(text, self.TEXT.replace("old\n", "| new |\n"))
        self.assertEqual(page.replaced(text, "lm", "| new |\n"), text)

    def test_rows_of_other_workloads_stay(self):
        text = page.replaced(self.TEXT, "lm", "| a | b |\n|---|---|\n| lm | 1 |\n| lm | 2 |\n| abi | 3 |\n")
        self.assertEqual(page.joined(text, "lm", "| a | b |\n|---|---|\n| lm | 4 |\n| gpu | 5 |\n"),
                         "| a | b |\n|---|---|\n| lm | 4 |\n| abi | 3 |\n| gpu | 5 |\n")

    def test_a_page_without_the_place_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "no place for the table gpu"):
            page.replaced(self.TEXT, "gpu", "| new |\n")

    def test_sections_are_added_in_order(self):
        text = page.NEW_PAGE.format(title="X")
        for name in ("abi", "mlp", "goals", "lm", "mlp"):
            text = page.with_section(text, name)
        self.assertEqual(re.findall("<!-- bench (.*) -->", text), ["machine", "mlp", "lm", "abi", "goals"])

    def test_a_machine_never_overwrites_the_page_of_another(self):
        with tempfile.TemporaryDirectory() as folder:
            performance, machines = pathlib.Path(folder, "performance.md"), pathlib.Path(folder, "performance")
            performance.write_text("<!-- bench machines -->\n<!-- end -->\nText.\n")
            header = "| | |\n|---|---|\n| commit | {} |\n| date | 2026-01-02 |\n"
            with unittest.mock.patch.multiple(page, PERFORMANCE=performance, MACHINES=machines), \
                    unittest.mock.patch("programs.ROOT", pathlib.Path(folder)), unittest.mock.patch("programs.say"):
                page.publish("one", "One", header.format("abc"), {"lm": "| lm of one |\n"}, "a\nb\n| `lm` | 1 |\n")
                first = (machines / "one.md").read_text()
                page.publish("two", "Two", header.format("def"), {"lm": "| lm of two |\n"}, "")
                page.publish("two", "Two", header.format("def"), {"abi": "| abi of two |\n"}, "")
            second = (machines / "two.md").read_text()
            self.assertEqual((machines / "one.md").read_text(), first)
            self.assertIn("| lm of one |", first)
            self.assertIn("| lm of two |", second)
            self.assertIn("| abi of two |", second)
            self.assertEqual(re.findall(r"^\| \[.*", performance.read_text(), flags=re.M),
                             ["| [One](performance/one.md) | abc | 2026-01-02 |",
                              "| [Two](performance/two.md) | def | 2026-01-02 |"])

    def test_the_pages_have_all_places(self):
        page.replaced(page.PERFORMANCE.read_text(encoding="utf-8"), "machines", "| new |\n")
        for path in page.MACHINES.glob("*.md"):
            page.replaced(path.read_text(encoding="utf-8"), "machine", "| new |\n")


unittest.main()
