// SPDX-License-Identifier: Apache-2.0
//
// What the dynamic linker does with a library: the libraries and symbols that it needs, the symbols
// that it exports, and how its memory is set up. Nothing is mapped or run.
// Threads: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct ElfDynamic {
  std::vector<std::string> needed;     // "libc10.so"
  std::string library_path;            // RPATH or RUNPATH; "" if it has none
  std::vector<std::string> exported;   // symbols, as the linker has them
  std::vector<std::string> unique;     // those of `exported` that the process has only once
  std::vector<std::string> undefined;  // symbols of other libraries
  std::vector<std::string> versions;   // of those: "GLIBC_2.34"
  bool has_text_relocations = false;   // its code is changed while it is loaded
  bool has_executable_stack = false;
  bool has_static_tls = false;  // its thread-local variables need space set aside
};

// Returns null if the file is not a 64-bit library, or is corrupt.
std::optional<ElfDynamic> read_elf_dynamic(const std::string& file);

}  // namespace tenon
