// SPDX-License-Identifier: Apache-2.0
//
// Refuses files of datasets of plain text that are something else.
#ifndef TENON_DATASETS_PLAIN_TEXT_HPP
#define TENON_DATASETS_PLAIN_TEXT_HPP

#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

namespace tenon {

// What the first bytes of a file say that it is, such as "compressed by gzip"; "" for text.
inline std::string foreign_format(std::string_view start) {
  struct Mark {
    std::string_view bytes;
    const char* words;
  };
  using namespace std::string_view_literals;
  static constexpr std::array<Mark, 9> kMarks = {
      Mark{"\x1f\x8b"sv, "compressed by gzip; decompress it"},
      Mark{"\x28\xb5\x2f\xfd"sv, "compressed by zstd; decompress it"},
      Mark{"\xfd\x37zXZ\0"sv, "compressed by xz; decompress it"},
      Mark{"BZh"sv, "compressed by bzip2; decompress it"},
      Mark{"PK\x03\x04"sv, "a zip file; unpack it"},
      Mark{"PAR1"sv, "a Parquet file; give it the extension .parquet, and use a dataset for it"},
      Mark{"\xff\xfe"sv, "in UTF-16; convert it to UTF-8"},
      Mark{"\xfe\xff"sv, "in UTF-16; convert it to UTF-8"},
      Mark{"{\0"sv, "in UTF-16; convert it to UTF-8"}};
  for (const Mark& mark : kMarks) {
    if (start.substr(0, mark.bytes.size()) == mark.bytes) {
      return mark.words;
    }
  }
  return "";
}

// Errors   `area`.not_text for a file of JSON, or one that is compressed or in UTF-16
inline void check_plain_text(const std::string& area,
                             const std::string& path,
                             std::string_view start) {
  std::string extension = path.substr(std::min(path.find_last_of('.'), path.size()));
  std::transform(extension.begin(), extension.end(), extension.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  if (extension == ".jsonl" || extension == ".json" || extension == ".ndjson") {
    throw Error(TENON_INVALID,
                area + ".not_text",
                path +
                    " is JSON, and the braces and keys would be trained on; write its texts to a "
                    "text file, or rename it to train on the JSON itself");
  }
  if (const std::string what = foreign_format(start); !what.empty()) {
    throw Error(TENON_INVALID, area + ".not_text", path + " is " + what);
  }
}

}  // namespace tenon

#endif
