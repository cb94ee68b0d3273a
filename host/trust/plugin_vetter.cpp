// SPDX-License-Identifier: Apache-2.0
#include "host/trust/plugin_vetter.hpp"

#include "host/error/error.hpp"
#include "host/io/private_file.hpp"
#include "host/trust/vet.hpp"
#include "host/trust/vet_cache.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

namespace tenon {

std::chrono::milliseconds vet_timeout_from_environment() {
  const char* const text = std::getenv("TENON_VET_TIMEOUT_S");
  if (text == nullptr || *text == '\0') {
    return std::chrono::seconds(10);
  }
  double value = 0;
  const auto [end, problem] = std::from_chars(text, text + std::strlen(text), value);
  // At most one day, which every clock can represent.
  if (problem != std::errc() || *end != '\0' || !(value > 0) || value > 86400) {
    throw Error("usage.bad_option",
                "TENON_VET_TIMEOUT_S is \"" + std::string(text) +
                    "\"; expected a number of seconds above 0 and at most 86400");
  }
  return std::chrono::milliseconds(std::max<long>(1, static_cast<long>(value * 1000)));
}

std::string default_vet_cache_file() {
  const std::string folder = user_cache_folder();
  return folder.empty() ? folder : folder + "/vetted.json";
}

PluginVetter::PluginVetter(VetRules rules)
    : rules_(std::move(rules)),
      cache_(std::make_unique<VetCache>(rules_.cache_file,
                                        host_build_id() + " " + rules_.depends_on)) {}

PluginVetter::~PluginVetter() = default;

std::vector<Verdict> PluginVetter::vet(std::span<const VetSubject> plugins, const VetTrial& trial) {
  std::vector<Verdict> verdicts(plugins.size());
  std::vector<std::size_t> uncached;  // of the plugins without a cached verdict
  std::vector<VetSubject> unknown;
  for (std::size_t i = 0; i < plugins.size(); ++i) {
    std::optional<Verdict> known =
        rules_.ignores_cache ? std::nullopt : cache_->find(plugins[i].file);
    // If the file has been replaced since its signature was verified, loading it finds out.
    if (known && (plugins[i].hash.empty() || plugins[i].hash == known->hash)) {
      verdicts[i] = std::move(*known);
    } else {
      uncached.push_back(i);
      unknown.push_back(plugins[i]);
    }
  }
  if (!unknown.empty()) {
    std::vector<Verdict> fresh = vet_plugins(
        unknown,
        [&](std::size_t i, const ReportCall& report) { return trial(uncached[i], report); },
        rules_.timeout);
    for (std::size_t i = 0; i < unknown.size(); ++i) {
      if (unknown[i].stamp) {
        cache_->store(unknown[i].file, *unknown[i].stamp, fresh[i]);
      }
      verdicts[uncached[i]] = std::move(fresh[i]);
    }
  }
  cache_->save();
  return verdicts;
}

}  // namespace tenon
