// SPDX-License-Identifier: Apache-2.0
//
// Checks a tokenizer before the component that refers to it gets its table, with which it converts
// text. The host itself calls nothing else.

#pragma once

#include <tenon/tokenizer.h>

#include "host/plugin/instance.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

struct TokenizerInfo {
  int64_t vocab_size = 0;
  int64_t bos = -1;  // special ids, or -1
  int64_t eos = -1;
  int64_t pad = -1;
  uint32_t bytes_per_token = 0;    // 0: varies
  std::string chat_template = {};  // Jinja; "" if there is none
  // Texts of special tokens, by name: "bos_token".
  std::vector<std::pair<std::string, std::string>> specials = {};
};

// Describes a tokenizer, and checks that it has all functions.
//
// Errors   plugin.missing_interface, plugin.bad_result, PluginError of `describe`
// Threads  [main]
TokenizerInfo describe_tokenizer(const ComponentInstance& instance);

}  // namespace tenon
