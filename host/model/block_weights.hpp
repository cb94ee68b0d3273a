// SPDX-License-Identifier: Apache-2.0
//
// The parameters of one block that parametrizations compute. A forward of the block gets the
// effective tensor, computed in the block's own autograd graph. A weight that the block uses only
// in linear maps is never computed: the block gets a stand-in, and the host's operators call the
// product of the parametrization (kernels/linear_map.hpp).
// Threads: owned and driven by the train thread.
#pragma once

#include "host/kernels/linear_map.hpp"
#include "host/model/parameter_store.hpp"
#include "host/plugin/parametrization_proxy.hpp"
#include "host/tensor/exec_frame.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

class BlockWeights {
 public:
  // `graph` is as for BlockRunner.
  // Owner: all references outlive this object
  BlockWeights(ParameterStore& store,
               const ModelGraph& graph,
               uint32_t block,
               const ExecBase& base);
  ~BlockWeights();
  BlockWeights(BlockWeights&&) noexcept;
  BlockWeights& operator=(BlockWeights&&) = delete;

  void move_to(const CallPoint& point);
  // See ExecFrame::use_stream_before.
  void use_stream_before(uint64_t ranks);

  // Provides the weights for one forward, during its lifetime.
  class Call {
   public:
    // Replaces the handles of computed parameters in `handles`, which are those of the declared
    // parameters. Autograd records what it computes if the current mode says so.
    // Errors: those of the plugin, with the parameter's name
    Call(BlockWeights& weights,
         uint32_t salt,
         bool is_recompute,
         std::vector<const tenon_tensor*>& handles);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    LinearMapScope scope_;
    std::vector<at::Tensor> effective_;
  };

  // Names the parameters that have stand-ins: "'a.weight', 'b.weight'"; "" if there are none.
  std::string names_of_stand_ins() const;

 private:
  class Weight;

  std::vector<std::unique_ptr<Weight>> weights_;
};

}  // namespace tenon
