// SPDX-License-Identifier: Apache-2.0
#include "host/trust/elf/elf_image.hpp"

#include <algorithm>

namespace tenon {
namespace {

constexpr uint64_t kMaxDynamicEntries = 1000;
constexpr uint64_t kMaxSegments = 1000;
constexpr std::size_t kMaxNameBytes = 200;

}  // namespace

ElfImage::ElfImage(const ElfFile& file) : file_(file) {
  is_readable_ = file.problem().empty() && read_segments() && read_dynamic();
}

bool ElfImage::read_segments() {
  const auto header = file_.read_struct<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      !has_native_structs(*header) || header->e_phentsize != sizeof(Elf64_Phdr) ||
      header->e_phnum > kMaxSegments) {
    return false;
  }
  for (uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = file_.read_element<Elf64_Phdr>(header->e_phoff, i);
    if (!segment || !file_.holds(segment->p_offset, segment->p_filesz)) {
      return false;
    }
    segments_.push_back(*segment);
    if (segment->p_type == PT_DYNAMIC) {
      dynamic_extent_ = {.offset = segment->p_offset, .size = segment->p_filesz};
    }
  }
  return true;
}

bool ElfImage::read_dynamic() {
  const uint64_t count = std::min(dynamic_extent_.size / sizeof(Elf64_Dyn), kMaxDynamicEntries);
  const auto entries = read_array<Elf64_Dyn>(dynamic_extent_, 0, count);
  if (!entries) {
    return false;
  }
  for (const Elf64_Dyn& entry : *entries) {
    if (entry.d_tag == DT_NULL) {
      break;
    }
    dynamic_.push_back(entry);
  }
  return true;
}

std::optional<uint64_t> ElfImage::value_of(int64_t tag) const noexcept {
  const auto found = std::ranges::find(dynamic_, tag, &Elf64_Dyn::d_tag);
  return found != dynamic_.end() ? std::optional(found->d_un.d_val) : std::nullopt;
}

ElfExtent ElfImage::extent_at(uint64_t address) const noexcept {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type == PT_LOAD && segment.p_vaddr <= address &&
        address - segment.p_vaddr < segment.p_filesz) {
      const uint64_t skipped = address - segment.p_vaddr;
      return {.offset = segment.p_offset + skipped, .size = segment.p_filesz - skipped};
    }
  }
  return {};
}

std::string ElfImage::text_at(uint64_t offset) const {
  ElfExtent texts = extent_at(value_of(DT_STRTAB).value_or(0));
  texts.size = std::min(texts.size, value_of(DT_STRSZ).value_or(0));
  if (offset >= texts.size) {
    return "?";
  }
  const uint64_t size = std::min<uint64_t>(texts.size - offset, kMaxNameBytes);
  std::string text = file_.read(texts.offset + offset, size).value_or("?");
  const std::size_t end = text.find('\0');
  text = end != std::string::npos ? text.substr(0, end) : text + "...";
  std::ranges::replace_if(
      text, [](char c) { return c < '!' || c > '~'; }, '?');
  return text;
}

std::optional<std::vector<Elf64_Sym>> ElfImage::read_symbols(uint64_t begin, uint64_t count) const {
  const ElfExtent table = extent_at(value_of(DT_SYMTAB).value_or(0));
  return read_array<Elf64_Sym>(table, begin * sizeof(Elf64_Sym), count);
}

ElfSymbolRange ElfImage::exported_symbols() const {
  const std::optional<uint64_t> gnu_hash = value_of(DT_GNU_HASH);
  const ElfSymbolRange range = gnu_hash.value_or(0) != 0
                                   ? symbols_of_gnu_hash(*gnu_hash)
                                   : symbols_of_hash(value_of(DT_HASH).value_or(0));
  return range.end <= kMaxSymbols ? range : ElfSymbolRange{};
}

ElfSymbolRange ElfImage::symbols_of_hash(uint64_t address) const {
  const auto header = read_array<uint32_t>(extent_at(address), 0, 2);
  // The number of buckets, then that of chain entries: one for each symbol.
  return header ? ElfSymbolRange{.begin = 0, .end = header->at(1)} : ElfSymbolRange{};
}

// The table orders the symbols by bucket. A bucket has the index of its first symbol, and an odd
// chain entry marks the last symbol of a bucket.
ElfSymbolRange ElfImage::symbols_of_gnu_hash(uint64_t address) const {
  const ElfExtent hash = extent_at(address);
  const auto header = read_array<uint32_t>(hash, 0, 4);
  if (!header) {
    return {};
  }
  const uint64_t num_buckets = header->at(0);
  const uint64_t first = header->at(1);
  const uint64_t num_filter_words = header->at(2);
  const uint64_t buckets_at = 4 * sizeof(uint32_t) + num_filter_words * sizeof(uint64_t);
  const uint64_t chains_at = buckets_at + num_buckets * sizeof(uint32_t);
  if (num_buckets > kMaxSymbols) {
    return {};
  }
  const auto buckets = read_array<uint32_t>(hash, buckets_at, num_buckets);
  if (!buckets || buckets->empty()) {
    return {};
  }
  for (uint64_t i = std::ranges::max(*buckets); first <= i && i < kMaxSymbols; ++i) {
    const auto chain = read_array<uint32_t>(hash, chains_at + (i - first) * sizeof(uint32_t), 1);
    if (!chain) {
      return {};
    }
    if ((chain->front() & 1) != 0) {
      return {.begin = first, .end = i + 1};
    }
  }
  return {};
}

}  // namespace tenon
