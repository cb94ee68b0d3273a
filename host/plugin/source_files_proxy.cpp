// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/source_files_proxy.hpp"

#include <tenon/draft/source_files.h>

#include "host/error/status.hpp"
#include "host/io/checksum.hpp"
#include "host/plugin/interface_table.hpp"
#include "host/plugin/tokenizer_proxy.hpp"
#include "host/tensor/sized_struct.hpp"

namespace tenon {
namespace {

tenon_status* take_source_file(void* context, const tenon_source_file* theirs) noexcept {
  return guard(nullptr, [&] {
    if (theirs == nullptr) {
      throw StatusError(TENON_INVALID, "plugin.bad_result", "a source file is null");
    }
    const tenon_source_file file = read_sized(*theirs);
    if (file.name == nullptr || *file.name == '\0') {
      throw StatusError(TENON_INVALID, "plugin.bad_result", "a source file has no name");
    }
    const auto text = [](const char* given) { return std::string(given != nullptr ? given : ""); };
    static_cast<std::vector<SourceFile>*>(context)->push_back(
        {.name = file.name,
         .path = text(file.path),
         .version = text(file.version),
         .size = file.size,
         .name_counts = (file.flags & TENON_SOURCE_NAME_COUNTS) != 0});
  });
}

std::optional<std::vector<SourceFile>> files_of_tokenizer(const ComponentInstance& instance) {
  std::vector<SourceFile> files;
  for (const auto& [name, bytes] : TokenizerProxy(instance).files()) {
    files.push_back(
        {.name = name, .version = xxh128_text(bytes), .size = static_cast<int64_t>(bytes.size())});
  }
  return files.empty() ? std::nullopt : std::make_optional(std::move(files));
}

}  // namespace

std::optional<std::vector<SourceFile>> source_files_of(const ComponentInstance& instance,
                                                       const tenon_window* window) {
  const auto* const table =
      static_cast<const tenon_source_files*>(instance.extension(TENON_SOURCE_FILES_ID));
  if (table == nullptr) {
    return instance.kind() == "tokenizer" ? files_of_tokenizer(instance) : std::nullopt;
  }
  TENON_REQUIRE(
      tenon_source_files, table, list_sources, TENON_SOURCE_FILES_ID, instance.identity());
  std::vector<SourceFile> files;
  const tenon_source_files_args args{
      .struct_size = sizeof(args), .window = window, .sink = &take_source_file, .context = &files};
  instance.call("list_sources", [&] { return table->list_sources(instance.self(), &args); });
  return files;
}

}  // namespace tenon
