// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/feature_proxy.hpp"

#include "host/error/assert.hpp"
#include "host/plugin/interface_table.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/handle.hpp"
#include "host/text/formatted.hpp"

#include <array>
#include <deque>
#include <string>
#include <utility>

namespace tenon {
namespace {

tenon_column_type to_abi(const ColumnType& type) {
  return {.struct_size = sizeof(tenon_column_type),
          .dtype = type.dtype,
          .num_levels = static_cast<uint32_t>(type.num_levels),
          .is_text = type.is_text ? 1U : 0U,
          .has_weights = type.has_weights ? 1U : 0U,
          .width = type.width};
}

ColumnType checked(const tenon_column_type& type, const ComponentIdentity& identity) {
  constexpr uint32_t kMostLevels = 8;
  const std::string of = "infer returned an output ";
  if (!is_dtype(type.dtype)) {
    identity.fail_result(formatted("{}of dtype {}", of, type.dtype));
  }
  if (type.num_levels > kMostLevels) {
    identity.fail_result(formatted("{}of {} levels", of, type.num_levels));
  }
  if (type.is_text != 0 && (type.dtype != TENON_U8 || type.num_levels == 0)) {
    identity.fail_result(of + "of text that is not u8 in strings");
  }
  if (type.has_weights != 0 && type.num_levels <= (type.is_text != 0 ? 1U : 0U)) {
    identity.fail_result(of + "with weights that is not of lists");
  }
  if (type.width < -1 || (type.num_levels > 0 && type.width != 0)) {
    identity.fail_result(formatted("{}of width {}", of, type.width));
  }
  return {.dtype = type.dtype,
          .num_levels = type.num_levels,
          .is_text = type.is_text != 0,
          .has_weights = type.has_weights != 0,
          .width = type.width};
}

// The arguments of a call as the plugin sees them, and storage for the handles that it returns.
// Neither copied nor moved, because the arguments point into it.
struct AbiCall {
  std::vector<tenon_column> inputs;
  std::vector<std::vector<const tenon_tensor*>> input_offsets;
  std::vector<tenon_column_out> outputs;
  std::vector<std::vector<tenon_tensor*>> output_offsets;

  AbiCall(const FeatureCall& call, std::span<const ColumnType> types)
      : input_offsets(call.inputs.size()), output_offsets(types.size()) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const Column& column = *call.inputs[i];
      for (const at::Tensor& level : column.offsets) {
        input_offsets[i].push_back(borrow(level));
      }
      inputs.push_back({.struct_size = sizeof(tenon_column),
                        .values = borrow(column.values),
                        .offsets = input_offsets[i].data(),
                        .num_levels = column.offsets.size(),
                        .weights = column.weights.defined() ? borrow(column.weights) : nullptr});
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
      output_offsets[i].resize(types[i].num_levels);
      outputs.push_back({.struct_size = sizeof(tenon_column_out),
                         .values_own = nullptr,
                         .offsets_own = output_offsets[i].data(),
                         .num_levels = types[i].num_levels,
                         .weights_own = nullptr});
    }
  }
  AbiCall(const AbiCall&) = delete;
  AbiCall& operator=(const AbiCall&) = delete;
  ~AbiCall() {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      release_if_handle(outputs[i].values_own);
      release_if_handle(outputs[i].weights_own);
      for (tenon_tensor* const level : output_offsets[i]) {
        release_if_handle(level);
      }
    }
  }

  // Errors   plugin.bad_result for a handle that is not one, or that was released
  Column take(std::size_t output, const ComponentIdentity& identity) {
    const auto give = [&](tenon_tensor*& handle) {
      if (handle == nullptr) {
        return at::Tensor();
      }
      if (const char* const problem = handle_problem(handle)) {
        identity.fail_result(
            formatted("run stored, in output {}, a pointer that {}", output, problem));
      }
      return take_handle(std::exchange(handle, nullptr));
    };
    Column column;
    column.values = give(outputs[output].values_own);
    column.weights = give(outputs[output].weights_own);
    for (tenon_tensor*& level : output_offsets[output]) {
      column.offsets.push_back(give(level));
    }
    return column;
  }
};

}  // namespace

FeatureProxy::FeatureProxy(ComponentInstance instance)
    : instance_(std::move(instance)), table_(table_of<tenon_feature>(instance_, TENON_FEATURE_ID)) {
  const ComponentIdentity& identity = instance_.identity();
  TENON_REQUIRE(tenon_feature, table_, infer, TENON_FEATURE_ID, identity);
  TENON_REQUIRE(tenon_feature, table_, run, TENON_FEATURE_ID, identity);
}

const std::vector<ColumnType>& FeatureProxy::infer(std::span<const ColumnType> inputs) {
  TENON_ASSERT(outputs_.empty(), "infer is asked once");
  std::vector<tenon_column_type> given;
  for (const ColumnType& type : inputs) {
    given.push_back(to_abi(type));
  }
  std::array<tenon_column_type, kMaxOutputs> made{};
  for (tenon_column_type& type : made) {
    type.struct_size = sizeof(type);
  }
  std::size_t num_made = made.size();
  instance_.call("infer", [&] {
    return table_->infer(instance_.self(), given.data(), given.size(), made.data(), &num_made);
  });
  if (num_made == 0 || num_made > made.size()) {
    instance_.identity().fail_result(
        formatted("infer returned {} outputs, expected 1 to {}", num_made, made.size()));
  }
  for (std::size_t i = 0; i < num_made; ++i) {
    outputs_.push_back(checked(made[i], instance_.identity()));
  }
  return outputs_;
}

void FeatureProxy::run(const tenon_exec& exec, std::span<FeatureCall> calls, int64_t samples) {
  TENON_ASSERT(!calls.empty(), "there is something to run");
  std::deque<AbiCall> views;
  std::vector<tenon_feature_call> given;
  for (const FeatureCall& call : calls) {
    AbiCall& view = views.emplace_back(call, call.feature->outputs_);
    given.push_back({.struct_size = sizeof(tenon_feature_call),
                     .self = call.feature->instance_.self(),
                     .inputs = view.inputs.data(),
                     .num_inputs = view.inputs.size(),
                     .outputs = view.outputs.data(),
                     .num_outputs = view.outputs.size()});
  }
  const FeatureProxy& first = *calls.front().feature;
  first.instance_.call("run", [&] { return first.table_->run(&exec, given.data(), given.size()); });
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const FeatureProxy& feature = *calls[i].feature;
    calls[i].outputs.clear();
    for (std::size_t output = 0; output < feature.outputs_.size(); ++output) {
      Column column = views[i].take(output, feature.instance_.identity());
      if (const auto why = why_not_column(column, feature.outputs_[output], samples)) {
        feature.instance_.identity().fail_result(
            formatted("run returned an output of {} samples of which {}", samples, *why));
      }
      calls[i].outputs.push_back(std::move(column));
    }
  }
}

}  // namespace tenon
