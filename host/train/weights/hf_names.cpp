// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/hf_names.hpp"

#include "host/json/bounded_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <string_view>

namespace tenon {
namespace {

bool ends_with_component(const std::string& name, std::string_view ending) {
  return name.ends_with(ending) &&
         (name.size() == ending.size() || name[name.size() - ending.size() - 1] == '.');
}

// The first component of most names, with its point: "transformer.".
std::string main_prefix(const std::set<std::string>& names) {
  std::map<std::string, size_t> counts;
  for (const std::string& name : names) {
    ++counts[name.substr(0, name.find('.') + 1)];
  }
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  return most == counts.end() ? "" : most->first;
}

}  // namespace

bool is_computed_in_hf(const std::string& name, const std::vector<int64_t>& shape) {
  return ends_with_component(name, "inv_freq") || ends_with_component(name, "attn.masked_bias") ||
         ends_with_component(name, "embeddings.position_ids") ||
         (ends_with_component(name, "attn.bias") && shape.size() == 4);
}

std::string text_config(const std::string& config) {
  const nlohmann::json json = parse_bounded_json(config);
  const auto text = json.find("text_config");
  return text != json.end() && text->is_object() ? text->dump() : config;
}

std::optional<std::string> quantization_of(const std::string& config) {
  const nlohmann::json json = parse_bounded_json(config);
  const auto found = json.find("quantization_config");
  if (found == json.end() || found->is_null()) {
    return std::nullopt;
  }
  const bool is_named = found->is_object() && found->contains("quant_method") &&
                        found->at("quant_method").is_string();
  return is_named ? found->at("quant_method").get<std::string>() : "unknown";
}

HfPrefix::HfPrefix(const std::set<std::string>& there, const std::set<std::string>& here) {
  const auto num_equal = [&](const HfPrefix& some) {
    return std::ranges::count_if(
        there, [&](const std::string& name) { return here.contains(some.here(name)); });
  };
  const auto num_here = static_cast<std::ptrdiff_t>(here.size());
  auto most = num_equal(*this);
  if (2 * most >= num_here) {
    return;
  }
  const auto try_prefix = [&](const std::string& from, const std::string& to) {
    HfPrefix some(*this);
    some.from_ = from;
    some.to_ = to;
    some.is_part_ = !from.empty();
    if (const auto n = num_equal(some); n > most) {
      most = n;
      *this = some;
    }
  };
  const std::string main = main_prefix(here);
  // A folder of the base model lacks it; the text of a model with images has another one before it
  // or in its place.
  try_prefix("", main);
  const auto sample =
      std::ranges::find_if(here, [&](const std::string& name) { return name.starts_with(main); });
  if (sample == here.end()) {
    return;
  }
  for (const std::string& to : {std::string(), main}) {
    const std::string rest = "." + sample->substr(to.size());
    for (const std::string& name : there) {
      if (name.ends_with(rest)) {
        try_prefix(name.substr(0, name.size() - rest.size() + 1), to);
      }
    }
  }
}

std::string HfPrefix::here(const std::string& there) const {
  const bool is_changed =
      (!from_.empty() || !to_.empty()) && there.starts_with(from_) &&
      // A folder of a base model may have the head under its own name.
      !(from_.empty() && (there.starts_with(to_) || there.starts_with("lm_head.")));
  return is_changed ? to_ + there.substr(from_.size()) : there;
}

bool HfPrefix::is_other_part(const std::string& there) const {
  return is_part_ && !there.starts_with(from_) && !there.starts_with("lm_head.");
}

}  // namespace tenon
