// SPDX-License-Identifier: Apache-2.0
//
// Reads the files of a tokenizer.
// Threads: any.
#pragma once

#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/stable_file.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenon {

// Far above existing files: the largest tokenizer.json have about 40 MB.
constexpr int64_t kMostTokenizerBytes = 200'000'000;

/* Returns the content of a file. Error ids start with `name`.
 *
 * Errors   NAME.file for a file of more than `most_bytes`; as StableFile */
inline std::string read_text(const std::string& path, const std::string& name, int64_t most_bytes) {
  const StableFile file(path, name);
  if (file.size() > most_bytes) {
    TENON_FAIL(TENON_INVALID,
               (name + ".file").c_str(),
               path,
               " has ",
               file.size(),
               " bytes (expected at most ",
               most_bytes,
               ")");
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, text.size(), text.data());
  return text;
}

}  // namespace tenon
