// SPDX-License-Identifier: Apache-2.0
#include "host/train/named_metrics.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/recipe/component_options.hpp"
#include "host/text/joined.hpp"
#include "host/text/metric_name.hpp"
#include "host/text/nearest_name.hpp"

#include <algorithm>

namespace tenon {
namespace {

// A metric that the recipe names, and the key that names it.
struct NamedMetricKey {
  std::string pointer;
  std::string metric;
  bool is_of_training = false;  // the key may also name a metric of training
};

std::vector<NamedMetricKey> named_in(const Recipe& recipe) {
  std::vector<NamedMetricKey> keys;
  if (recipe.eval.keep_best.has_value()) {
    keys.push_back({"/eval/keep_best/metric", recipe.eval.keep_best->metric});
  }
  if (recipe.checkpoint.has_value() && recipe.checkpoint->keep_best.has_value()) {
    keys.push_back({"/checkpoint/keep_best/metric", recipe.checkpoint->keep_best->metric});
  }
  for (const ComponentUse& hook : recipe.hooks) {
    if (const auto metric = named_metric(hook)) {
      keys.push_back({hook.pointer + "/options/metric", *metric, true});
    }
  }
  return keys;
}

bool is_of_training(const std::string& name, const LossSet& losses, const MetricSet& metric_set) {
  for (const char* const family : {"eval/", "next/", "test/"}) {  // folders of the host's metrics
    if (name.starts_with(family)) {
      return false;
    }
  }
  const auto& of_metrics = metric_set.training_metrics();
  if (is_host_metric(name) || std::ranges::find(of_metrics, name) != of_metrics.end()) {
    return true;
  }
  for (size_t l = 0; l < losses.size(); ++l) {
    if (name == "loss/" + losses.name(l)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::set<std::string> evaluation_metrics(const Recipe& recipe,
                                         std::span<const EvalSet> sets,
                                         const LossSet& losses,
                                         const MetricSet& metric_set) {
  std::vector<std::string> names = metric_set.evaluation_metrics();
  names.emplace_back("loss");
  for (size_t l = 0; losses.size() > 1 && l < losses.size(); ++l) {
    names.push_back("loss/" + losses.name(l));
  }
  std::set<std::string> all;
  const auto add = [&](const std::string& prefix, const DataSource* source, bool has_series) {
    for (const std::string& name : names) {
      all.insert(prefix + name);
      if (has_series) {
        all.insert(prefix + name + "/run");
      }
    }
    for (size_t l = 0; source != nullptr && l < losses.size(); ++l) {
      for (const MixPartInfo& part : source->parts()) {
        all.insert(prefix + "data/" + part.name + "/loss" +
                   (losses.size() > 1 ? "/" + losses.name(l) : ""));
      }
    }
  };
  for (const EvalSet& set : sets) {
    add(set.prefix, &set.data->source(), recipe.eval.with_window != WithWindow::kNever);
  }
  if (recipe.eval.next_window) {
    add("next/", nullptr, true);
  }
  return all;
}

void check_named_metrics(const Recipe& recipe,
                         const std::set<std::string>& known,
                         const LossSet& losses,
                         const MetricSet& metric_set,
                         bool added_by_hooks) {
  for (const NamedMetricKey& key : named_in(recipe)) {
    if (known.contains(key.metric) ||
        (key.is_of_training && is_of_training(key.metric, losses, metric_set))) {
      continue;
    }
    std::vector<std::string> names(known.begin(), known.end());
    const std::string hint = did_you_mean(key.metric, names);
    const Error error("metric.unknown",
                      key.pointer + ": the evaluations of this recipe give no metric \"" +
                          key.metric + "\"" + (hint.empty() ? "" : "; " + hint) + " (they give " +
                          (names.empty() ? "nothing" : joined(names)) + ")");
    if (!added_by_hooks) {
      throw Error(error);
    }
    log_warning(error.message() + "; a hook may still add it");
  }
}

}  // namespace tenon
