// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer plugin of the build tree, through the ABI, for programs that also use the classes of
// tokenizers: headers of the host and of the SDK's wrapper do not go together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct MadeToken {
  int32_t id;
  uint64_t begin;  // bytes of the text
  uint64_t end;
};

struct MadeTokenizer {
  std::function<std::vector<MadeToken>(std::string_view text)> encode;  // as text of a user
  std::function<std::string(const int32_t* ids, size_t n)> decode;
};

// Errors  std::exception with the words of the host
MadeTokenizer made_tokenizer(const std::string& type, const std::string& file);

}  // namespace tenon
