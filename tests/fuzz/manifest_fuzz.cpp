// SPDX-License-Identifier: Apache-2.0
//
// Plugin files whose manifest or ELF structure is nearly right are accepted or refused with an
// error of the catalogue. A case is a whole file: the manifest of a built plugin, changed and put
// into the smallest ELF file that carries one, or a whole small plugin with changed headers,
// tables, notes and symbols.
#include <tenon/manifest.h>

#include "host/error/catalogue.hpp"
#include "host/plugin/plugin_scan.hpp"
#include "host/plugin/service_ids.hpp"
#include "host/trust/elf/elf_notes.hpp"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "tests/fuzz/fuzz_run.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Larger files have the same parts and take longer to write.
constexpr std::uintmax_t kLargestPlugin = 200'000;

template <class T>
T load(const std::string& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <class T>
void store(std::string& bytes, std::size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// The smallest file with one note segment that the reader takes for a plugin of this machine.
// `model` gives the machine.
std::string elf_with_note(const std::string& model, const std::string& content) {
  const Elf64_Nhdr note{.n_namesz = sizeof(TENON_MANIFEST_OWNER),
                        .n_descsz = static_cast<Elf64_Word>(content.size()),
                        .n_type = TENON_MANIFEST_TYPE};
  const std::size_t at = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);
  std::string bytes(at + sizeof(note) + 8, '\0');
  auto header = load<Elf64_Ehdr>(model, 0);
  header.e_phoff = sizeof(header);
  header.e_phnum = 1;
  header.e_shoff = 0;
  header.e_shnum = 0;
  store(bytes, 0, header);
  Elf64_Phdr segment{};
  segment.p_type = PT_NOTE;
  segment.p_offset = at;
  segment.p_align = 4;
  segment.p_filesz = sizeof(note) + 8 + content.size();
  store(bytes, sizeof(header), segment);
  store(bytes, at, note);
  std::memcpy(bytes.data() + at + sizeof(note), TENON_MANIFEST_OWNER, sizeof(TENON_MANIFEST_OWNER));
  return bytes + content;
}

struct Corpus {
  std::vector<std::string> manifests;  // of all plugins
  std::vector<std::string> files;      // the small ones, whole
  std::vector<std::string> words;
};

Corpus read_corpus() {
  Corpus corpus;
  std::vector<fs::path> paths;
  for (const fs::path& folder : {plugin_dir(), test_plugin_dir(), build_dir() / "tests" / "zoo"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".so") {
        paths.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(paths);
  for (const fs::path& path : paths) {
    for (const ElfNote& note : read_elf_notes(path.string()).notes) {
      if (note.owner == TENON_MANIFEST_OWNER) {
        corpus.manifests.push_back(note.content.substr(0, note.content.find('\0')));
      }
    }
    if (fs::file_size(path) <= kLargestPlugin) {
      corpus.files.push_back(read_corpus_file(path.string()));
    }
  }
  if (corpus.manifests.empty() || corpus.files.empty()) {
    throw std::runtime_error("no plugin was found in " + build_dir().string());
  }
  corpus.words = {"id=",
                  "version=",
                  "abi=",
                  "lane=",
                  "torch=",
                  "component=",
                  "stable",
                  "torch",
                  "future",
                  "0.1.0",
                  "0.1",
                  "99.0",
                  "1.2.3.4",
                  "loss:",
                  "model:",
                  "hook:",
                  "dataset:csv",
                  "nokind:x",
                  "\n",
                  "=",
                  ":",
                  ".",
                  "com.example.a",
                  "id=com.example.b\n",
                  "\n\n",
                  "key=value\n",
                  "abi=0.4\n",
                  "abi=0.4..0.5\n",
                  "..",
                  "0.4..",
                  "!",
                  "!key=value\n",
                  "requires=",
                  "requires=tenon.op/1\n",
                  "requires=tenon.none/1\n",
                  "tenon.tensor/2",
                  "component=loss:mse\n",
                  "component=metric_sink:",
                  "torch=version=2.10.0;git=;cxx11abi=1;cuda=none\n",
                  "1234567890123"};
  return corpus;
}

const Corpus& corpus() {
  static const Corpus all = read_corpus();
  return all;
}

std::uint64_t odd_size(Mutator& mutator, std::uint64_t file_size, std::uint64_t old) {
  static const std::vector<std::uint64_t> kBorders = {0,
                                                      1,
                                                      3,
                                                      4,
                                                      8,
                                                      0xff,
                                                      0xffff,
                                                      0x7fffffff,
                                                      0x80000000,
                                                      0xfffffffc,
                                                      0xffffffff,
                                                      1U << 20,
                                                      (1U << 20) + 1,
                                                      0x7fffffffffffffff,
                                                      0x8000000000000000,
                                                      0xfffffffffffffff0,
                                                      0xffffffffffffffff};
  switch (mutator.below(5)) {
    case 0:
      return old + mutator.below(17) - 8;
    case 1:
      return file_size + mutator.below(17) - 8;
    case 2:
      return mutator.below(file_size + 1);
    case 3:
      return mutator.number();
    default:
      return mutator.pick(kBorders);
  }
}

// Changes a number of `T`'s width.
template <class T>
void change_number(std::string& bytes, std::size_t at, Mutator& mutator) {
  if (at <= bytes.size() && sizeof(T) <= bytes.size() - at) {
    store(bytes, at, static_cast<T>(odd_size(mutator, bytes.size(), load<T>(bytes, at))));
  }
}

// The place of the dynamic segment's content, or of one of the tables that it refers to: names,
// symbols, hashes. Linkers map the part of a file that has these at the same addresses.
std::size_t dynamic_offset(const std::string& bytes, const Elf64_Ehdr& header, Mutator& mutator) {
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const std::size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    if (header.e_phoff > bytes.size() || at + sizeof(Elf64_Phdr) > bytes.size()) {
      break;
    }
    const auto segment = load<Elf64_Phdr>(bytes, at);
    if (segment.p_type != PT_DYNAMIC || segment.p_offset > bytes.size()) {
      continue;
    }
    const std::size_t size = std::min<std::size_t>(segment.p_filesz, 100 * sizeof(Elf64_Dyn));
    for (std::size_t entry = segment.p_offset;
         entry + sizeof(Elf64_Dyn) <= std::min(bytes.size(), segment.p_offset + size);
         entry += sizeof(Elf64_Dyn)) {
      const auto dynamic = load<Elf64_Dyn>(bytes, entry);
      if (dynamic.d_tag == DT_SYMTAB || dynamic.d_tag == DT_STRTAB || dynamic.d_tag == DT_STRSZ ||
          dynamic.d_tag == DT_HASH || dynamic.d_tag == DT_GNU_HASH) {
        offsets.push_back(entry + 8);
        offsets.push_back(static_cast<std::size_t>(dynamic.d_un.d_val) + 4 * mutator.below(16));
      }
    }
  }
  return offsets.empty() ? bytes.size() : mutator.pick(offsets);
}

// Changes one number of the header, a table or a note.
void change_structure(std::string& bytes, Mutator& mutator) {
  if (bytes.size() < sizeof(Elf64_Ehdr)) {
    return;
  }
  const auto header = load<Elf64_Ehdr>(bytes, 0);
  const auto in_table = [&](std::uint64_t table, std::size_t count, std::size_t size) {
    return static_cast<std::size_t>(table) + mutator.below(count + 1) * size;
  };
  switch (mutator.below(6)) {
    case 0: {
      static const std::vector<std::size_t> kHalves = {offsetof(Elf64_Ehdr, e_type),
                                                       offsetof(Elf64_Ehdr, e_machine),
                                                       offsetof(Elf64_Ehdr, e_ehsize),
                                                       offsetof(Elf64_Ehdr, e_phentsize),
                                                       offsetof(Elf64_Ehdr, e_phnum),
                                                       offsetof(Elf64_Ehdr, e_shentsize),
                                                       offsetof(Elf64_Ehdr, e_shnum),
                                                       offsetof(Elf64_Ehdr, e_shstrndx)};
      change_number<Elf64_Half>(bytes, mutator.pick(kHalves), mutator);
      break;
    }
    case 1:
      change_number<Elf64_Off>(
          bytes,
          mutator.one_in(2) ? offsetof(Elf64_Ehdr, e_phoff) : offsetof(Elf64_Ehdr, e_shoff),
          mutator);
      break;
    case 2: {
      const std::size_t at = in_table(header.e_phoff, header.e_phnum, sizeof(Elf64_Phdr));
      if (mutator.one_in(3)) {
        change_number<Elf64_Word>(bytes, at, mutator);  // p_type
      } else {
        change_number<Elf64_Xword>(bytes, at + 8 + 8 * mutator.below(6), mutator);
      }
      break;
    }
    case 3: {
      const std::size_t at = in_table(header.e_shoff, header.e_shnum, sizeof(Elf64_Shdr));
      if (mutator.one_in(3)) {
        change_number<Elf64_Word>(bytes, at + 4, mutator);  // sh_type
      } else {
        change_number<Elf64_Xword>(bytes, at + 8 + 8 * mutator.below(7), mutator);
      }
      break;
    }
    case 4:
      if (mutator.one_in(2)) {
        change_number<Elf64_Word>(bytes, dynamic_offset(bytes, header, mutator), mutator);
      } else {
        change_number<Elf64_Xword>(bytes, dynamic_offset(bytes, header, mutator), mutator);
      }
      break;
    default: {
      // The numbers before the owner's name are those of a note.
      const std::size_t owner = bytes.find(std::string(TENON_MANIFEST_OWNER) + '\0', 16);
      if (owner != std::string::npos && owner >= sizeof(Elf64_Nhdr)) {
        change_number<Elf64_Word>(
            bytes, owner - sizeof(Elf64_Nhdr) + 4 * mutator.below(3), mutator);
      }
      break;
    }
  }
}

std::string make_plugin(Mutator& mutator) {
  const Corpus& from = corpus();
  if (mutator.one_in(2)) {
    std::string manifest = mutator.pick(from.manifests);
    if (!mutator.one_in(10)) {
      manifest = mutator.mutated(std::move(manifest), from.words, from.manifests);
    }
    std::string bytes = elf_with_note(from.files.front(), manifest);
    if (mutator.one_in(4)) {
      change_structure(bytes, mutator);
    }
    return bytes;
  }
  std::string bytes = mutator.pick(from.files);
  for (std::size_t count = mutator.below(4); count > 0; --count) {
    change_structure(bytes, mutator);
  }
  if (mutator.one_in(6)) {
    bytes = mutator.mutated(std::move(bytes), from.words, from.files);
  }
  if (mutator.one_in(10)) {
    bytes.resize(mutator.below(bytes.size() + 1));
  }
  return bytes;
}

std::string judge_plugin(const std::string& bytes) {
  static const MemoryFile file("plugin.so");
  file.write(bytes);
  const PluginInfo plugin = inspect_plugin(file.path());
  if (plugin.refusal) {
    const Error& error = *plugin.refusal;
    if (find_error(error.id()) == nullptr) {
      throw FuzzFinding("the catalogue has no error " + error.id());
    }
    check_fuzz_message(error.id(), error.message());
    if (error.message().find_first_of("\n\x1b") != std::string::npos) {
      throw FuzzFinding("a refusal is more than one plain line: " + error.message());
    }
    return error.id();
  }
  const Manifest& manifest = plugin.manifest;
  const bool is_whole = !manifest.id.empty() && !manifest.version.empty() &&
                        manifest.abi.intersects(kHostAbi) && manifest.unknown_key.empty() &&
                        std::ranges::all_of(manifest.services, has_service) &&
                        !manifest.components.empty() &&
                        std::ranges::all_of(manifest.components, [](const ComponentName& name) {
                          return is_type_name(name.kind) && is_type_name(name.type);
                        });
  if (!is_whole) {
    throw FuzzFinding("a manifest is accepted that is not whole");
  }
  return kFuzzAccepted;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(
      argc,
      argv,
      {.name = "manifest_fuzz", .make = tenon::make_plugin, .judge = tenon::judge_plugin});
}
