// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/stage_link.hpp"

namespace tenon {

std::string_view link_name(StageLink::Kind kind) {
  switch (kind) {
    case StageLink::Kind::kValues:
      return "values";
    case StageLink::Kind::kGradients:
      return "gradients";
    case StageLink::Kind::kTied:
      return "a part of a tied parameter";
  }
  return "";
}

std::vector<StageLink> chain_links(uint32_t num_stages) {
  std::vector<StageLink> links;
  for (uint32_t stage = 0; stage + 1 < num_stages; ++stage) {
    links.push_back({StageLink::Kind::kValues, stage, stage + 1});
    links.push_back({StageLink::Kind::kGradients, stage + 1, stage});
  }
  return links;
}

}  // namespace tenon
