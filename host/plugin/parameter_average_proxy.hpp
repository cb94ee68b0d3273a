// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for the averages of a hook (contract: tenon/draft/parameter_average.h). The
// proxy must not outlive the instance, but the instance may be moved.
#pragma once

#include <tenon/draft/parameter_average.h>

#include "host/plugin/instance.hpp"

#include <c10/core/ScalarType.h>

#include <optional>

namespace tenon {

// Returns the dtype of the average of a parameter: at least fp32, because small steps towards a
// value vanish in bf16.
inline at::ScalarType average_dtype(at::ScalarType parameter) {
  return parameter == at::kDouble ? at::kDouble : at::kFloat;
}

class ParameterAverageProxy {
 public:
  // Returns nothing if the instance averages no parameters.
  //
  // Errors   plugin.missing_interface if its table lacks a function
  static std::optional<ParameterAverageProxy> of(const ComponentInstance& instance);

  const ComponentIdentity& identity() const noexcept { return *identity_; }
  // The host as the plugin sees it.
  const tenon_host* host() const noexcept { return identity_->component().plugin->host.abi(); }

  // Errors   PluginError
  // Threads  [step]
  void update(const tenon_exec& exec, const tenon_parameter_average_args& args) const {
    identity_->call("update", [&] { return table_->update(self_, &exec, &args); });
  }

 private:
  ParameterAverageProxy(const ComponentIdentity& identity,
                        const tenon_parameter_average* table,
                        void* self)
      : identity_(&identity), table_(table), self_(self) {}

  const ComponentIdentity* identity_;
  const tenon_parameter_average* table_;
  void* self_;
};

}  // namespace tenon
