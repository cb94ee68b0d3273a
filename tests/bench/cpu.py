# SPDX-License-Identifier: Apache-2.0
"""The processor: its names, its instruction sets, the name of its page, and switches that limit libraries to fewer sets."""
import dataclasses
import os
import platform
import re
import subprocess

# From (vendor, family) to (first model, microarchitecture), in falling order of the first model.
MICROARCHITECTURES = {
    ("AuthenticAMD", 23): [(48, "Zen 2"), (0, "Zen")],
    ("AuthenticAMD", 25): [(160, "Zen 4"), (128, "Zen 4"), (96, "Zen 4"), (32, "Zen 3"), (16, "Zen 4"), (0, "Zen 3")],
    ("AuthenticAMD", 26): [(0, "Zen 5")],
}
INTEL = {63: "Haswell", 79: "Broadwell", 85: "Skylake", 106: "Ice Lake", 108: "Ice Lake", 143: "Sapphire Rapids",
         173: "Granite Rapids", 174: "Granite Rapids", 207: "Emerald Rapids"}
VENDORS = {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}
PRODUCTS = ("EPYC", "Ryzen", "Xeon", "Core")
SETS = {"AVX2": "avx2", "AVX-512": "avx512f", "AVX512-BF16": "avx512_bf16", "AMX": "amx_tile"}  # flags of lscpu

# What limits the host, its libraries and the peers' to the instruction sets of an older processor.
SWITCHES = {
    "avx512": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "MKL_ENABLE_INSTRUCTIONS": "AVX512", "ATEN_CPU_CAPABILITY": "avx512"},
    "avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
             "TENON_SIMD": "avx2"},
    "sse": {"ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ATEN_CPU_CAPABILITY": "default",
            "TENON_SIMD": "basic"},
}
LIMITED = {"avx512": "AVX-512", "avx2": "AVX2", "sse": "SSE"}
SWITCH_NAMES = ("ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "ATEN_CPU_CAPABILITY", "TENON_SIMD")


@dataclasses.dataclass(frozen=True)
class Cpu:
    vendor_id: str
    model_name: str
    family: int
    model: int
    flags: frozenset

    @property
    def vendor(self):
        return VENDORS.get(self.vendor_id, self.vendor_id)

    @property
    def microarchitecture(self):
        if self.vendor_id == "GenuineIntel" and self.family == 6 and self.model in INTEL:
            return INTEL[self.model]
        for first, name in MICROARCHITECTURES.get((self.vendor_id, self.family), []):
            if self.model >= first:
                return name
        return f"family {self.family} model {self.model}"

    @property
    def product(self):
        """"AMD EPYC", as far as the model's name says it."""
        return " ".join([self.vendor] + [word for word in PRODUCTS if word.lower() in self.model_name.lower()][:1])

    @property
    def sets(self):
        return [name for name, flag in SETS.items() if flag in self.flags]

    @property
    def best_set(self):
        """AVX512-BF16 without AMX counts as AVX-512."""
        return next((name for name in ("AMX", "AVX-512", "AVX2") if name in self.sets), "SSE")

    def title(self):
        return f"{self.product}, {self.microarchitecture}, {self.best_set}"

    def slug(self):
        words = [self.product, self.microarchitecture.replace("Zen ", "Zen"), self.best_set.replace("-", "")]
        return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")

    def text(self):
        return (f"{self.model_name} ({self.vendor_id}, family {self.family}, model {self.model}: "
                f"{self.microarchitecture}), {num_cores()} cores")

    def sets_text(self):
        missing = [name for name in SETS if name not in self.sets]
        return ", ".join(self.sets or ["SSE"]) + (f"; not {', '.join(missing)}" if missing else "")

    def lesser_sets(self):
        """The switches that take something from this processor, from its best set down."""
        order = ["AMX", "AVX-512", "AVX2", "SSE"]
        return [name for name in SWITCHES if order.index(LIMITED[name]) > order.index(self.best_set)]


def num_cores():
    return len(os.sched_getaffinity(0))


def parsed(text):
    """The processor that `lscpu` printed."""
    values = dict(re.findall(r"^\s*([^:\n]+):\s*(.*)$", text, flags=re.M))

    def number(name):
        return int(values[name]) if values.get(name, "").isdigit() else 0

    return Cpu(values.get("Vendor ID", platform.machine()), values.get("Model name", platform.machine()),
               number("CPU family"), number("Model"), frozenset(values.get("Flags", "").split()))


def read():
    try:
        text = subprocess.run(["lscpu"], check=True, stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"},
                              text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        text = ""
    return parsed(text)


def switches_set(environment):
    """The switches in an environment, as NAME=VALUE."""
    return [f"{name}={environment[name]}" for name in SWITCH_NAMES if environment.get(name)]
