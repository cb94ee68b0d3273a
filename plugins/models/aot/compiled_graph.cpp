// SPDX-License-Identifier: Apache-2.0
#include "compiled_graph.hpp"

#include <tenon/cpp/guard.hpp>

#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>

#include <exception>

#include "write_permissions.hpp"

CompiledGraph::CompiledGraph(const std::string& file) {
  check_write_permissions(file);
  std::string reason;
  try {
    runner_ = std::make_unique<torch::inductor::AOTIModelContainerRunnerCpu>(file);
    return;
  } catch (const c10::Error& error) {
    reason = error.what_without_backtrace();
  } catch (const std::exception& error) {
    reason = error.what();
  }
  TENON_FAIL(TENON_INVALID,
             "aot.bad_library",
             file,
             " cannot be loaded (",
             reason.substr(0, reason.find('\n')),
             "); export the module again with tenon_aot.py");
}

CompiledGraph::~CompiledGraph() = default;

std::vector<at::Tensor> CompiledGraph::run(const std::vector<at::Tensor>& inputs) const {
  // The graph has its gradients and precisions compiled in.
  const at::AutoGradMode no_grad(false);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return runner_->run(inputs);
}
