// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_plan/run_plan.hpp"

#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <string>

namespace tenon {
namespace {

std::string model_detail(const ModelGraph& graph) {
  const int64_t frozen = graph.num_frozen_elements();
  return formatted("{} parameters in {}{}",
                   grouped_digits(graph.num_elements()),
                   counted(graph.blocks.size(), "block"),
                   frozen > 0 ? formatted(", {} of them frozen", grouped_digits(frozen)) : "");
}

}  // namespace

std::vector<DataSource*> DataPlan::sources() const {
  std::vector<DataSource*> sources;
  for (RunDataset* const set : all()) {
    sources.push_back(&set->source());
  }
  return sources;
}

std::vector<RunDataset*> DataPlan::all() const {
  std::vector<RunDataset*> sets = {train.get()};
  for (const auto* const list : {&eval, &test}) {
    for (const std::unique_ptr<RunDataset>& set : *list) {
      sets.push_back(set.get());
    }
  }
  return sets;
}

std::vector<ReportedComponent> RunPlan::reported() const {
  std::vector<ReportedComponent> all = {
      tenon::reported("model", model.trained().instance(), model_detail(model.graph))};
  const auto add = [&all](const std::vector<ReportedComponent>& lines) {
    all.insert(all.end(), lines.begin(), lines.end());
  };
  for (size_t i = 1; i < model.models->members().size(); ++i) {
    const RunModels::Member& member = model.models->members()[i];
    all.push_back(tenon::reported(
        member.use.name,
        member.proxy.instance(),
        grouped_digits(member.graph.num_elements()) + " parameters that are not trained"));
  }
  for (const RunModels::Member& member : model.models->stored()) {
    all.push_back(tenon::reported(
        member.use.name, member.proxy.instance(), "outputs computed before training, and stored"));
  }
  add(data.train->reported("data"));
  const auto add_sets = [&](const std::vector<std::unique_ptr<RunDataset>>& sets,
                            const std::vector<EvalSetUse>& uses) {
    for (size_t i = 0; i < sets.size(); ++i) {
      add(sets[i]->reported(uses[i].list + (uses[i].name.empty() ? "" : "/" + uses[i].name)));
    }
  };
  add_sets(data.eval, recipe().data.eval);
  add_sets(data.test, recipe().data.test);
  add(data.train->reported_features());
  add(objective);
  all.push_back(tenon::reported("optimizer", model.partitions.front().optimizer.instance()));
  if (observers.scheduler.has_value()) {
    all.push_back(tenon::reported("schedule", observers.scheduler->instance()));
  }
  for (const HookProxy& hook : observers.hooks) {
    all.push_back(tenon::reported("hook", hook.instance()));
  }
  for (const MetricSinkProxy& sink : observers.sinks) {
    all.push_back(tenon::reported("sink", sink.instance()));
  }
  return all;
}

}  // namespace tenon
