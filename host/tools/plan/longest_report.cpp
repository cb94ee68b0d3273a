// SPDX-License-Identifier: Apache-2.0
#include "host/tools/plan/longest_report.hpp"

#include "host/metrics/progress.hpp"
#include "host/text/byte_size.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tenon {
namespace {

std::string value_text(const std::optional<int64_t>& value) {
  return value.has_value() ? formatted("{}", *value) : "null";
}

// Settings as the recipe's section "train" has them.
std::string settings_text(const LongestSettings& settings) {
  std::string text = "loss_chunk=" + value_text(settings.loss_chunk);
  if (!settings.recompute.empty()) {
    text += " recompute=" + settings.recompute;
  }
  text += " tile=" + value_text(settings.tile);
  text += " offload_activations=" +
          (settings.offload_activations.empty() ? "null" : settings.offload_activations);
  return text;
}

std::string options_text(const LongestSettings& settings) {
  std::string text;
  const std::string words = settings_text(settings);
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    text += " --set train." + words.substr(begin, end - begin);
    begin = end + 1;
  }
  return text;
}

const LongestPlan& best_of(const std::vector<LongestPlan>& plans) {
  return *std::ranges::max_element(plans, {}, &LongestPlan::positions);
}

}  // namespace

std::string longest_text(const RecipePlan& plan) {
  std::string text = formatted("longest sequences of {} on {} rank{} of {}, {} x {} samples, {}\n",
                               plan.recipe,
                               plan.request.ranks,
                               plan.request.ranks == 1 ? "" : "s",
                               byte_size(static_cast<uint64_t>(*plan.request.memory)),
                               plan.subject.microbatches,
                               plan.batch_size,
                               plan.precision);
  size_t width = 0;
  for (const LongestPlan& one : plan.longest) {
    width = std::max(width, settings_text(one.settings).size());
  }
  for (const LongestPlan& one : plan.longest) {
    std::string settings = settings_text(one.settings);
    settings.resize(width, ' ');
    const std::string positions = grouped_digits(one.positions);
    text += "  " + settings + "  " +
            std::string(std::max<size_t>(10, positions.size()) - positions.size(), ' ') + positions;
    if (one.plan.has_value()) {
      const auto milliseconds = static_cast<int64_t>(std::ceil(one.plan->time.step * 1000));
      text += " positions, " + byte_size(static_cast<uint64_t>(one.plan->memory.sum())) + ", " +
              grouped_digits(milliseconds) + " ms";
    } else {
      text += " positions: no sequence fits";
    }
    text += "\n";
  }
  const LongestPlan& best = best_of(plan.longest);
  if (best.positions > 0) {
    text += "the longest, " + grouped_digits(best.positions) + " positions:\n " +
            options_text(best.settings) + "\n";
  }
  return text + "estimated times exclude offloading\n";
}

std::string longest_json(const RecipePlan& plan) {
  using Json = nlohmann::ordered_json;
  const auto number = [](const std::optional<int64_t>& value) {
    return value.has_value() ? Json(*value) : Json(nullptr);
  };
  Json json;
  json["recipe"] = plan.recipe;
  json["ranks"] = plan.request.ranks;
  json["memory"] = *plan.request.memory;
  json["longest"] = Json::array();
  for (const LongestPlan& one : plan.longest) {
    Json row = {{"positions", one.positions},
                {"loss_chunk", number(one.settings.loss_chunk)},
                {"recompute", one.settings.recompute},
                {"tile", number(one.settings.tile)},
                {"offload_activations", one.settings.offload_activations}};
    row["bytes"] = one.plan.has_value() ? Json(one.plan->memory.sum()) : Json(nullptr);
    row["seconds"] = one.plan.has_value() ? Json(one.plan->time.step) : Json(nullptr);
    json["longest"].push_back(std::move(row));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tenon
