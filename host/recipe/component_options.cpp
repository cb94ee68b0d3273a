// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/component_options.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace tenon {

nlohmann::json options_of(const ComponentUse& use) {
  auto options = nlohmann::json::parse(use.options, nullptr, /*allow_exceptions=*/false);
  return options.is_object() ? std::move(options) : nlohmann::json::object();
}

std::optional<std::string> named_metric(const ComponentUse& hook) {
  const nlohmann::json options = options_of(hook);
  const auto metric = options.find("metric");
  return metric != options.end() && metric->is_string() ? std::optional(metric->get<std::string>())
                                                        : std::nullopt;
}

}  // namespace tenon
