// SPDX-License-Identifier: Apache-2.0
//
// The tokens that the post-processors of a tokenizer.json put around a text.
#pragma once

#include "../engine/json_place.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

struct AroundTokens {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};

AroundTokens read_around_tokens(const JsonPlace& place);

}  // namespace tenon
