// SPDX-License-Identifier: Apache-2.0
//
// The tokens that the post-processors of a tokenizer.json put around a text.
#pragma once

#include <cstdint>
#include <vector>

#include "../engine/json_node.hpp"

namespace tenon {

struct AroundTokens {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};

AroundTokens read_around_tokens(const JsonNode& node);

}  // namespace tenon
