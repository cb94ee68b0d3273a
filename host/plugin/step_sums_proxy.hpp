// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for what a model sums over a step (contract: tenon/draft/step_sums.h). The graph
// of the model is unknown here.
// Threads: [main] to create it, then the train thread.
#pragma once

#include <tenon/draft/step_sums.h>

#include "host/plugin/instance.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace tenon {

// As the model describes it. Indices are not checked.
struct StepSumsDescription {
  struct Balance {
    uint32_t block = 0;
    int64_t num_experts = 0;  // at least 1
  };
  std::vector<uint32_t> buffers;
  std::vector<Balance> balances;
};

class StepSumsProxy {
 public:
  // Returns nothing if the model sums nothing. The instance must outlive the proxy.
  //
  // Errors   plugin.missing_interface if its table lacks `describe`
  static std::optional<StepSumsProxy> of(const ComponentInstance& instance);

  // Errors   PluginError; plugin.bad_result for missing arrays or a loss without experts
  StepSumsDescription describe() const;

  bool has_end_step() const noexcept { return has_end_step_; }
  // Computes state buffers of a block. Requires has_end_step(). If it throws, the caller releases
  // handles that are already in `args`.
  //
  // Errors   PluginError
  // Threads  the train thread
  void end_step(const tenon_exec& exec, tenon_end_step_args& args) const {
    instance_->call("end_step", [&] { return table_->end_step(instance_->self(), &exec, &args); });
  }

 private:
  StepSumsProxy(const ComponentInstance& instance, const tenon_step_sums* table);

  const ComponentInstance* instance_;
  const tenon_step_sums* table_;
  bool has_end_step_;
};

}  // namespace tenon
