// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/recipe_inputs.hpp"

#include "host/model/parameter_store.hpp"
#include "host/model/program_runner.hpp"
#include "host/tools/check/default_dtype.hpp"
#include "host/tools/check/source_reader.hpp"
#include "host/tools/check/subject.hpp"
#include "host/train/components/run_dataset.hpp"
#include "host/train/components/run_models.hpp"
#include "host/train/objective/input_binding.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace tenon {
namespace {

constexpr int64_t kRecipeSamples = 4;
constexpr int64_t kMostElements = 30'000'000;  // as for models

struct PortUse {
  PortOwner::Kind kind;
  const InputMap* inputs;
};

std::optional<PortUse> use_of(const Recipe& recipe, const CheckedComponent& checked) {
  for (const LossUse& loss : recipe.losses) {
    if (&loss.use == checked.use) {
      return PortUse{PortOwner::Kind::kLoss, &loss.inputs};
    }
  }
  for (const MetricUse& metric : recipe.metrics) {
    if (&metric.use == checked.use) {
      return PortUse{PortOwner::Kind::kMetric, &metric.inputs};
    }
  }
  return std::nullopt;
}

bool can_run(const RunModels& models, const ModelGraph& graph) {
  const auto is_lookup = [](const ModelValue& value) { return value.lookup.has_value(); };
  return models.stored().empty() && graph.parametrizations.empty() &&
         std::ranges::none_of(graph.values, is_lookup) && graph.num_elements() <= kMostElements;
}

}  // namespace

std::vector<SampleInputs> recipe_inputs(Subject& subject,
                                        const CheckedComponent& checked,
                                        const std::vector<Port>& ports,
                                        at::ScalarType dtype,
                                        std::size_t most_batches) {
  if (checked.use == nullptr) {
    return {};
  }
  const Recipe& recipe = subject.recipe();
  const std::optional<PortUse> use = use_of(recipe, checked);
  if (!use.has_value()) {
    return {};
  }
  const DefaultDtype of_run(dtype);
  subject.note("create of the models of the recipe");
  RunModels models(recipe, subject.factory());
  const ModelGraph graph = models.joined();
  if (!can_run(models, graph)) {
    return {};
  }
  ParameterStore store(graph, {dtype, at::kCPU, [](uint32_t) { return 0U; }});
  const ExecBase base = check_exec_base(subject.request(), dtype);
  const ExecFrame frame(models.trained().proxy.instance().host(), base);
  store.initialise(models.trained().proxy, frame.exec(), subject.request().seed);
  for (uint32_t i = 1; i < models.members().size(); ++i) {
    const ExecFrame other(models.members()[i].proxy.instance().host(), base);
    store.initialise_further(i, models.members()[i].proxy, other.exec(), subject.request().seed);
  }
  ProgramRunner runner(models.list(), store, base);
  MicrobatchState values = runner.new_state();
  RunDataset dataset(subject.factory(), recipe.data.train, "data/train", recipe.seed, false);
  SourceReader reader(subject, "the dataset of the recipe", dataset.source());
  InputBinding binding({use->kind, checked.name()}, ports, *use->inputs, graph, recipe.model.name);
  std::vector<SampleInputs> all;
  for (const Batch& batch : reader.first_batches(kRecipeSamples, most_batches)) {
    subject.note("forward of the models of the recipe");
    runner.forward(values, batch, {.step = 7, .microbatch = 0, .is_train = false});
    const BoundInputs bound =
        binding.gather(&values, batch, InputBinding::Outputs::kDetached, dtype);
    SampleInputs inputs;
    for (const at::Tensor& input : bound.tensors()) {
      inputs.push_back(input.defined() ? input.detach().clone() : at::Tensor());
    }
    runner.clear(values);
    all.push_back(std::move(inputs));
  }
  return all;
}

}  // namespace tenon
