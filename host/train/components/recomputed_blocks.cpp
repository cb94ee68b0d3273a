// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/recomputed_blocks.hpp"

#include "host/error/error.hpp"
#include "host/text/name_pattern.hpp"

#include <algorithm>

namespace tenon {
namespace {

constexpr size_t kMostNames = 8;  // names in a message

// Returns the names that patterns can match, each once.
std::string names_in(const ModelGraph& graph) {
  std::vector<std::string> names;
  const auto add = [&names](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) {
      names.push_back(name);
    }
  };
  for (const ModelBlock& block : graph.blocks) {
    add(block.unit_name());
    add(block.name);
  }
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    text += (i > 0 ? ", " : "") + names[i];
  }
  return text + (names.size() > kMostNames ? ", ..." : "");
}

}  // namespace

std::vector<bool> recomputed_blocks(const std::vector<std::string>& recompute,
                                    const ModelGraph& graph) {
  std::vector<bool> is_recomputed(graph.blocks.size(), false);
  for (const std::string& entry : recompute) {
    if (entry == "none" || entry == "blocks" || entry == "selective") {
      is_recomputed.assign(graph.blocks.size(), entry != "none");
      continue;
    }
    bool is_matched = false;
    for (size_t b = 0; b < graph.blocks.size(); ++b) {
      const ModelBlock& block = graph.blocks[b];
      if (matches_pattern(entry, block.unit_name()) || matches_pattern(entry, block.name)) {
        is_recomputed[b] = true;
        is_matched = true;
      }
    }
    if (!is_matched) {
      throw Error(
          "model.unmatched_recompute",
          "/train/recompute: '" + entry +
              "' is neither \"none\", \"blocks\" nor \"selective\", and as a pattern it matches "
              "no unit or block of the model; its units and blocks are " +
              names_in(graph));
    }
  }
  return is_recomputed;
}

bool keeps_attention(const std::vector<std::string>& recompute) {
  return recompute == std::vector<std::string>{"selective"};
}

}  // namespace tenon
