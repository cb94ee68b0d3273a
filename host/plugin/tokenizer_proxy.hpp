// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a tokenizer. The host needs only its ids. The component that refers to the
// tokenizer receives the tokenizer's table and uses it to convert text.

#pragma once

#include <tenon/tokenizer.h>

#include "host/plugin/instance.hpp"

#include <cstdint>

namespace tenon {

struct TokenizerInfo {
  int64_t vocab_size = 0;
  int64_t bos = -1;  // special ids, or -1
  int64_t eos = -1;
  int64_t pad = -1;
  uint32_t bytes_per_token = 0;  // 0: varies
};

class TokenizerProxy {
 public:
  // Errors   plugin.missing_interface, plugin.bad_result, PluginError of `describe`
  // Threads  [main]
  explicit TokenizerProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }
  const TokenizerInfo& info() const noexcept { return info_; }

 private:
  ComponentInstance instance_;
  TokenizerInfo info_;
};

}  // namespace tenon
