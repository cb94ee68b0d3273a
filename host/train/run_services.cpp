// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_services.hpp"

#include "host/train/components/sharding_options.hpp"

#include <utility>

namespace tenon {
namespace {

// Updates run on the device that stores the shards.
ExecBase exec_of_shards(const RunPlan& plan) {
  const ExecBase& exec = plan.context.exec;
  const std::optional<at::Device>& home = plan.model.layout.sharing.home;
  return home.has_value() ? exec.on(*home) : exec;
}

std::unique_ptr<TableSet> make_tables(const RunPlan& plan, RankGroups& groups) {
  const ModelPlan& model = plan.model;
  return model.tables.empty()
             ? nullptr
             : std::make_unique<TableSet>(
                   model.tables, model.lookups.lookups, plan.context.exec, &groups.rows());
}

std::optional<ParameterAverages> make_averages(const RunPlan& plan, ParameterStore& parameters) {
  const auto& average = plan.model.average;
  return average.has_value() ? std::make_optional<ParameterAverages>(
                                   *average, parameters.groups(), exec_of_shards(plan))
                             : std::nullopt;
}

std::unique_ptr<BestState> make_best(const RunPlan& plan,
                                     ParameterStore& parameters,
                                     TableSet* tables) {
  const auto& keep = plan.recipe().eval.keep_best;
  if (!keep.has_value() || plan.request.is_eval_only) {
    return nullptr;
  }
  BestState::Parts kept = {{"parameters", &parameters}};
  if (tables != nullptr) {
    kept.emplace_back("tables", tables);
  }
  return std::make_unique<BestState>(*keep, std::move(kept));
}

std::unique_ptr<SequenceGroup> make_sequences(const RunPlan& plan, RankGroups& groups) {
  return groups.context().is_alone() ? nullptr
                                     : std::make_unique<SequenceGroup>(
                                           groups.context(), context_by(plan.recipe().parallel));
}

std::unique_ptr<StageExchange> make_exchange(const RunPlan& plan, RankGroups& groups) {
  return groups.pipeline().is_alone()
             ? nullptr
             : std::make_unique<StageExchange>(groups.pipeline(),
                                               groups.messages(),
                                               plan.model.graph.stage_owners,
                                               plan.context.exec.device);
}

std::unique_ptr<TensorGroup> make_tensor(RankGroups& groups) {
  return groups.tensor().is_alone() ? nullptr : std::make_unique<TensorGroup>(groups.tensor());
}

}  // namespace

DataServices::DataServices(DataSource& source, const LoaderOptions& options, SkipList skipped)
    : train(source, options, std::move(skipped)), options_(options) {}

DataStream& DataServices::add_set(std::vector<EvalSet>& sets,
                                  const std::string& prefix,
                                  DataSource& source,
                                  std::optional<int64_t> batches) {
  DataStream& data = streams.emplace_back(source, for_evaluation(options_, batches));
  sets.push_back({prefix, &data});
  return data;
}

std::vector<EvalSet> DataServices::all_sets() const {
  std::vector<EvalSet> sets = eval_sets;
  sets.insert(sets.end(), test_sets.begin(), test_sets.end());
  return sets;
}

ModelServices::ModelServices(const RunPlan& plan,
                             RankGroups& groups,
                             std::unique_ptr<ActivationStore> activations)
    : losses(*plan.model.losses),
      metrics(*plan.model.metrics),
      parameters(plan.model.graph, plan.model.layout),
      sharded(parameters, groups, sharding_options(plan.recipe().parallel)),
      sequences(make_sequences(plan, groups)),
      tensor(make_tensor(groups)),
      exchange(make_exchange(plan, groups)),
      tables(make_tables(plan, groups)),
      rows(tables != nullptr ? std::make_unique<TableRows>(*tables, plan.model.lookups.values)
                             : nullptr),
      runner(plan.model.models->list(),
             parameters,
             plan.context.exec,
             plan.model.runner,
             &sharded,
             rows.get(),
             std::move(activations),
             sequences.get(),
             tensor.get(),
             exchange.get()),
      optimizer(plan.model.partitions, parameters.groups(), exec_of_shards(plan)),
      averages(make_averages(plan, parameters)),
      values(optimizer, sharded, averages.has_value() ? &*averages : nullptr),
      best(make_best(plan, parameters, tables.get())) {
  if (plan.context.precision.autocast == at::kHalf) {
    loss_scale.emplace(plan.context.exec.device);
  }
  const auto num_states = plan.loop.schedule.is_pipeline() ? plan.loop.microbatches_per_step : 1;
  for (int64_t i = 0; i < num_states; ++i) {
    states.push_back(runner.new_state());
  }
}

}  // namespace tenon
