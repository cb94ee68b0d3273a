// SPDX-License-Identifier: Apache-2.0
//
// A shared library that AOTInductor compiled from a graph, loaded.
// Threads: one call at a time per object.
#ifndef TENON_AOT_COMPILED_GRAPH_HPP
#define TENON_AOT_COMPILED_GRAPH_HPP

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace torch::inductor {
class AOTIModelContainerRunnerCpu;
}

class CompiledGraph {
 public:
  // Loads the library, which runs its start code.
  //
  // Errors: TENON_INVALID if it cannot be loaded, or if every user can change it
  explicit CompiledGraph(const std::string& file);
  ~CompiledGraph();

  // Runs the graph. Inputs must have the dtypes and shapes of the export, and be contiguous.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;

 private:
  std::unique_ptr<torch::inductor::AOTIModelContainerRunnerCpu> runner_;
};

#endif
