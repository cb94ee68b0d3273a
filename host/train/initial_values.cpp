// SPDX-License-Identifier: Apache-2.0
#include "host/train/initial_values.hpp"

#include "host/tensor/philox.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace tenon {
namespace {

// Models that are not trained.
void draw_further(RunServices& run, uint64_t seed) {
  std::deque<RunModels::Member>& members = run.plan.model.models->members();
  for (uint32_t i = 1; i < members.size(); ++i) {
    const ExecFrame frame(members[i].proxy.instance().host(), run.plan.context.exec.on(at::kCPU));
    run.model.parameters.initialise_further(i, members[i].proxy, frame.exec(), seed);
  }
}

void load_further(RunServices& run) {
  const LoadTargets targets{
      .parameters = run.model.parameters,
      .optimizer = run.model.optimizer,
      .start = [&run](const std::vector<uint32_t>& which, const UnstoredValue& unstored) {
        start_parametrizations(run, which, unstored);
      }};
  for (const std::string& line : run.data.model_values->load(targets, run.model.sharded)) {
    run.report.journal.add(Remark{line});
  }
}

}  // namespace

void start_parametrizations(RunServices& run,
                            const std::vector<uint32_t>& which,
                            const UnstoredValue& unstored) {
  start_parametrizations(
      which, run.model.parameters, run.model.sharded, run.plan.context.exec.on(at::kCPU), unstored);
}

void set_initial_values(RunServices& run) {
  ParameterStore& parameters = run.model.parameters;
  ModelProxy& trained = run.plan.model.trained();
  const uint64_t seed = mix_seeds(run.recipe().seed, stream_of("init"));
  const ExecFrame frame(trained.instance().host(), run.plan.context.exec.on(at::kCPU));
  parameters.initialise(trained, frame.exec(), seed);
  const UnstoredValue drawn = drawn_value(parameters, seed);
  UnstoredValue unstored = drawn;
  if (const auto& import = run.plan.files.import; import.has_value()) {
    import->load(parameters);
    // It has values of the trained model only.
    unstored = [&](uint32_t k) {
      const at::Tensor value = import->unstored(parameters, k);
      return value.defined() ? value : drawn(k);
    };
  }
  if (run.data.model_values != nullptr) {
    draw_further(run, seed);
  }
  start_parametrizations(run, all_parametrizations(parameters.graph()), unstored);
  if (run.data.model_values != nullptr) {
    load_further(run);
  }
}

}  // namespace tenon
