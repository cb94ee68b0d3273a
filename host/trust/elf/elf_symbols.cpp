// SPDX-License-Identifier: Apache-2.0
#include "host/trust/elf/elf_symbols.hpp"

#include "host/trust/elf/elf_file.hpp"
#include "host/trust/elf/elf_image.hpp"

#include <algorithm>
#include <cstdint>
#include <elf.h>

namespace tenon {
namespace {

constexpr uint64_t kSymbolsPerRead = 1024;

}  // namespace

std::optional<std::string> find_unique_symbol(const std::string& file) {
  const ElfFile opened(file);
  const ElfImage image(opened);
  if (!image.is_readable()) {
    return std::nullopt;
  }
  const ElfSymbolRange range = image.exported_symbols();
  for (uint64_t i = range.begin; i < range.end; i += kSymbolsPerRead) {
    const auto symbols = image.read_symbols(i, std::min(kSymbolsPerRead, range.end - i));
    if (!symbols) {
      return std::nullopt;
    }
    for (const Elf64_Sym& symbol : *symbols) {
      if (ELF64_ST_BIND(symbol.st_info) == STB_GNU_UNIQUE && symbol.st_shndx != SHN_UNDEF) {
        return image.text_at(symbol.st_name);
      }
    }
  }
  return std::nullopt;
}

}  // namespace tenon
