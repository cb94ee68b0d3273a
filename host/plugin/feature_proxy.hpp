// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a feature transform (contract: feature.h).

#pragma once

#include <tenon/feature.h>

#include "host/plugin/instance.hpp"
#include "host/tensor/column.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

class FeatureProxy;

// One call of one instance; run() fills `outputs`.
struct FeatureCall {
  const FeatureProxy* feature = nullptr;
  std::vector<const Column*> inputs;
  std::vector<Column> outputs;
};

class FeatureProxy {
 public:
  // Errors   plugin.missing_interface
  // Threads  [main]
  explicit FeatureProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }

  // Returns the types of the output columns for inputs of these types: 1 to kMaxOutputs.
  //
  // Errors   PluginError, plugin.bad_result
  // Threads  [main], once
  const std::vector<ColumnType>& infer(std::span<const ColumnType> inputs);

  // Runs several calls, in one call into the plugin. All instances have the same type and plugin,
  // and infer() has been called on each. Every column has `samples` samples.
  //
  // Errors   PluginError; plugin.bad_result if a column does not have the inferred type
  // Threads  [worker]
  static void run(const tenon_exec& exec, std::span<FeatureCall> calls, int64_t samples);

  static constexpr std::size_t kMaxOutputs = 64;

 private:
  ComponentInstance instance_;
  const tenon_feature* table_;
  std::vector<ColumnType> outputs_;
};

}  // namespace tenon
