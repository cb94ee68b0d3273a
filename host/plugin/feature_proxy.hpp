// SPDX-License-Identifier: Apache-2.0
//
// A feature transform, as the host calls it (feature.h has the contract).

#pragma once

#include <tenon/feature.h>

#include "host/plugin/instance.hpp"
#include "host/tensor/column.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

class FeatureProxy;

// One call of one instance; `outputs` are filled by run().
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

  // The types of what it makes of columns of these types: at least one, at most kMaxOutputs.
  //
  // Errors   PluginError, plugin.bad_result
  // Threads  [main], once
  const std::vector<ColumnType>& infer(std::span<const ColumnType> inputs);

  // Runs calls of instances of one type of one plugin, all after their infer(). `samples` is that
  // of all columns.
  //
  // Errors   PluginError; plugin.bad_result if a column is not of the type inferred
  // Threads  [worker]
  static void run(const tenon_exec& exec, std::span<FeatureCall> calls, int64_t samples);

  static constexpr std::size_t kMaxOutputs = 64;

 private:
  ComponentInstance instance_;
  const tenon_feature* table_;
  std::vector<ColumnType> outputs_;
};

}  // namespace tenon
