// SPDX-License-Identifier: Apache-2.0
//
// Source: System V Application Binary Interface (gABI 4.1), chapter 5; for versions of symbols,
// Linux Standard Base 5.0, "Symbol Versioning".
#include "host/trust/elf/elf_dynamic.hpp"

#include "host/trust/elf/elf_image.hpp"

#include <algorithm>
#include <cstdint>
#include <elf.h>

namespace tenon {
namespace {

constexpr uint64_t kMaxVersions = 1000;

// Adds the versions of symbols that the file needs from each library.
void read_versions(const ElfImage& image, ElfDynamic& dynamic) {
  const ElfExtent extent = image.extent_at(image.value_of(DT_VERNEED).value_or(0));
  const uint64_t num_files = std::min(image.value_of(DT_VERNEEDNUM).value_or(0), kMaxVersions);
  uint64_t at = 0;
  for (uint64_t i = 0; i < num_files; ++i) {
    const auto file = image.read_array<Elf64_Verneed>(extent, at, 1);
    if (!file) {
      return;
    }
    uint64_t version_at = at + file->front().vn_aux;
    for (uint64_t k = 0; k < std::min<uint64_t>(file->front().vn_cnt, kMaxVersions); ++k) {
      const auto version = image.read_array<Elf64_Vernaux>(extent, version_at, 1);
      if (!version) {
        return;
      }
      dynamic.versions.push_back(image.text_at(version->front().vna_name));
      version_at += version->front().vna_next;
    }
    at += file->front().vn_next;
  }
}

void read_all_symbols(const ElfImage& image, ElfDynamic& dynamic) {
  // The symbols of other libraries come before those that the hash table finds.
  const uint64_t end = image.exported_symbols().end;
  const uint64_t first_named = 1;
  const auto symbols =
      end > first_named ? image.read_symbols(first_named, end - first_named) : std::nullopt;
  for (const Elf64_Sym& symbol : symbols.value_or(std::vector<Elf64_Sym>{})) {
    const auto binding = ELF64_ST_BIND(symbol.st_info);
    if (binding == STB_LOCAL) {
      continue;
    }
    const std::string name = image.text_at(symbol.st_name);
    if (symbol.st_shndx == SHN_UNDEF) {
      dynamic.undefined.push_back(name);
      continue;
    }
    dynamic.exported.push_back(name);
    if (binding == STB_GNU_UNIQUE) {
      dynamic.unique.push_back(name);
    }
  }
}

}  // namespace

std::optional<ElfDynamic> read_elf_dynamic(const std::string& file) {
  const ElfFile opened(file);
  const ElfImage image(opened);
  if (!image.is_readable()) {
    return std::nullopt;
  }
  ElfDynamic dynamic;
  for (const Elf64_Dyn& entry : image.dynamic()) {
    switch (entry.d_tag) {
      case DT_NEEDED:
        dynamic.needed.push_back(image.text_at(entry.d_un.d_val));
        break;
      case DT_RPATH:
      case DT_RUNPATH:
        dynamic.library_path = image.text_at(entry.d_un.d_val);
        break;
      case DT_TEXTREL:
        dynamic.has_text_relocations = true;
        break;
      case DT_FLAGS:
        dynamic.has_text_relocations |= (entry.d_un.d_val & DF_TEXTREL) != 0;
        dynamic.has_static_tls = (entry.d_un.d_val & DF_STATIC_TLS) != 0;
        break;
      default:
        break;
    }
  }
  for (const Elf64_Phdr& segment : image.segments()) {
    dynamic.has_executable_stack |= segment.p_type == PT_GNU_STACK && (segment.p_flags & PF_X) != 0;
  }
  read_versions(image, dynamic);
  read_all_symbols(image, dynamic);
  return dynamic;
}

}  // namespace tenon
