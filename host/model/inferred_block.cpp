// SPDX-License-Identifier: Apache-2.0
#include "host/model/inferred_block.hpp"

#include <tenon/model.h>

#include "host/device/autocast_guard.hpp"
#include "host/error/error.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>

namespace tenon {
namespace {

constexpr size_t kMaxOutputAxes = 8;  // room that the ABI provides for the shape of an output

bool is_cost(double value) {
  return value >= 0 && std::isfinite(value);
}

}  // namespace

std::optional<InferredBlock> infer_block(const ModelProxy& model,
                                         const ModelBlock& block,
                                         const ExecBase& base,
                                         const tenon_exec& exec,
                                         const std::vector<const std::vector<int64_t>*>& shapes,
                                         std::span<const int64_t> lengths) {
  std::vector<const int64_t*> inputs;
  std::vector<size_t> ndims;
  for (const std::vector<int64_t>* const shape : shapes) {
    inputs.push_back(shape != nullptr ? shape->data() : nullptr);
    ndims.push_back(shape != nullptr ? shape->size() : 0);
  }
  const auto out_shapes = std::make_unique<int64_t[][kMaxOutputAxes]>(block.outputs.size() + 1);
  std::vector<size_t> out_ndims(block.outputs.size(), 0);
  tenon_infer_args args{};
  args.struct_size = sizeof(args);
  args.block = block.number;
  args.input_shapes = inputs.data();
  args.input_ndims = ndims.data();
  args.num_inputs = inputs.size();
  args.out_shapes = out_shapes.get();
  args.out_ndims = out_ndims.data();
  args.num_outputs = block.outputs.size();
  args.segment_lengths = lengths.empty() ? nullptr : lengths.data();
  args.num_segments = lengths.size();
  try {
    const AutocastGuard autocast(base.device, base.autocast_dtype);
    model.infer(exec, args);
  } catch (const PluginError& error) {
    if (error.code() == TENON_UNSUPPORTED) {
      return std::nullopt;
    }
    throw error.with_context("block '" + block.name + "'");
  }
  const bool is_sound =
      is_cost(args.out_flops) && is_cost(args.out_saved_bytes) && is_cost(args.out_working_bytes) &&
      args.out_saved_bytes < 9e18 && args.out_working_bytes < 9e18 &&
      std::ranges::all_of(out_ndims, [](size_t n) { return n <= kMaxOutputAxes; });
  if (!is_sound) {
    model.instance().identity().fail_result("infer returned for block '" + block.name +
                                            "' an impossible cost or number of axes");
  }
  InferredBlock inferred{.output_shapes = {},
                         .flops = args.out_flops,
                         .saved_bytes = args.out_saved_bytes,
                         .working_bytes = args.out_working_bytes};
  for (size_t i = 0; i < block.outputs.size(); ++i) {
    inferred.output_shapes.emplace_back(out_shapes[i], out_shapes[i] + out_ndims[i]);
  }
  return inferred;
}

}  // namespace tenon
