// SPDX-License-Identifier: Apache-2.0
//
// The part of BlockRunner that runs a step of generation.
#include "host/device/autocast_guard.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/model/block_call.hpp"
#include "host/model/block_runner.hpp"
#include "host/plugin/generation_proxy.hpp"
#include "host/plugin/own_handles.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/trace_span.hpp"
#include "host/text/formatted.hpp"

#include <ATen/core/grad_mode.h>

#include <string>
#include <utility>
#include <vector>

namespace tenon {

void BlockRunner::step(uint32_t b,
                       const GenerationProxy& generation,
                       BlockTape& tape,
                       BlockStep& step) {
  const ModelBlock& block = graph_.blocks[b];
  const TraceSpan span("step of block", block.name);
  tape.input_handles = borrow_all(tape.inputs);
  std::vector<tenon_tensor*> cache_handles;
  for (at::Tensor& cache : step.caches) {
    cache_handles.push_back(cache.defined() ? borrow_mutable(cache) : nullptr);
  }
  lend_buffers(b, /*is_recompute=*/false, tape);
  OwnHandles output_handles(block.outputs.size());
  OwnHandles next_cache_handles(step.caches.size());
  tenon_generation_args args{};
  args.struct_size = sizeof(args);
  args.block = block.number;
  args.first = step.first;
  args.capacity = step.capacity;
  args.inputs = tape.input_handles.data();
  args.num_inputs = tape.input_handles.size();
  args.parameters = tape.parameter_handles.data();
  args.num_parameters = tape.parameter_handles.size();
  args.buffers = tape.buffer_handles.data();
  args.num_buffers = tape.buffer_handles.size();
  args.caches = cache_handles.data();
  args.num_caches = cache_handles.size();
  args.outputs_own = output_handles.data();
  args.num_outputs = output_handles.size();
  args.next_caches_own = next_cache_handles.data();

  ExecFrame& frame = frame_of(b);
  frame.set_generating(step.first == 0 ? Generating::kPrompt : Generating::kContinuation);
  frame.seed_for(b);
  std::vector<at::Tensor> next_caches;
  try {
    const ComponentIdentity& identity = identity_of(b);
    const at::AutoGradMode no_grad(false);
    const TensorRegionScope region(new_region(b, {}));
    const BlockWeights::Call weights = weights_for(b, b, /*is_recompute=*/false, tape);
    const AutocastGuard autocast(store_.device(), autocast_dtype_);
    generation.step(frame.exec(), args);
    tape.outputs = output_handles.take(identity, "step");
    next_caches = next_cache_handles.take(identity, "step");
  } catch (const Error& error) {
    throw_with_context("step of block '" + block.name + "'", error);
  }
  for (size_t i = 0; i < tape.outputs.size(); ++i) {
    check_output(b, i, tape.outputs[i]);
  }
  for (size_t i = 0; i < next_caches.size(); ++i) {
    if (next_caches[i].defined()) {
      step.caches[i] = std::move(next_caches[i]);
    } else if (!step.caches[i].defined()) {
      identity_of(b).fail_result(
          formatted("the first step of block '{}' returned no cache {}", block.name, i));
    }
  }
}

}  // namespace tenon
