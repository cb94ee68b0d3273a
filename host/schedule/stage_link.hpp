// SPDX-License-Identifier: Apache-2.0
//
// What one stage of a pipeline needs of another. A link stands for one message of a microbatch.
// Threads: any.
#pragma once

#include "host/schedule/stage_action.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon {

struct StageLink {
  enum class Kind : uint8_t {
    kValues,     // forwards of `to` need the forward of `from`
    kGradients,  // backwards of inputs of `to` need that of `from`
    kTied        // the same, for the gradient of a parameter that both stages use; `to` owns it
  };
  Kind kind = Kind::kValues;
  uint32_t from = 0;  // stages
  uint32_t to = 0;

  // Returns whether an action of this kind sends over the link, or waits for it.
  bool concerns(StageActionKind action) const {
    return kind == Kind::kValues ? action == StageActionKind::kForward
                                 : gives_input_gradients(action);
  }
};

// Returns "values", "gradients" or "a part of a tied parameter", as in messages.
std::string_view link_name(StageLink::Kind kind);

// Returns the links of stages that each read the one before.
std::vector<StageLink> chain_links(uint32_t num_stages);

}  // namespace tenon
