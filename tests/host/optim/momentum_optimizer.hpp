// SPDX-License-Identifier: Apache-2.0
//
// An optimizer with slots of several shapes, for tests of states that ranks share.
#pragma once

#include <tenon/optimizer.h>

#include "host/optim/optimizer_driver.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/Functions.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/made_instance.hpp"

namespace tenon {

// A momentum by element, a count by piece, and a sum of gradients by block or row.
struct MomentumOptimizer {
  explicit MomentumOptimizer(uint32_t granularity, int64_t elements)
      : needs(granularity), block(elements) {
    const auto add = [this](const char* name, uint32_t shape) {
      slots.push_back({sizeof(tenon_slot_spec), name, shape, TENON_F32, 0});
    };
    add("momentum", TENON_SLOT_LIKE_PARAMETER);
    add("count", TENON_SLOT_SCALAR);
    if (needs == TENON_OPTIMIZER_MATRIX) {
      add("rows", TENON_SLOT_ROWS);
    } else if (block > 1) {
      add("blocks", TENON_SLOT_BLOCKWISE);
    }
  }
  static tenon_status* describe(void* self, tenon_optimizer_info* out) {
    auto& test = *static_cast<MomentumOptimizer*>(self);
    out->needs = test.needs;
    out->block = test.block;
    out->slots_ref = test.slots.data();
    out->num_slots = test.slots.size();
    return nullptr;
  }
  static tenon_status* update(void* self, const tenon_exec*, const tenon_update_args* args) {
    const auto& test = *static_cast<MomentumOptimizer*>(self);
    const size_t n = args->num_pieces;
    for (size_t i = 0; i < n; ++i) {
      const at::Tensor g = tensor_of(args->grads[i]);
      const at::Tensor momentum = tensor_of(args->slots[i]);
      momentum.mul_(0.5).add_(g);
      tensor_of(args->slots[n + i]).add_(1);
      const at::Tensor third = test.slots.size() > 2 ? tensor_of(args->slots[2 * n + i]) : g;
      if (test.needs == TENON_OPTIMIZER_MATRIX) {
        third.add_(g.dim() > 1 ? g.sum(-1) : g.sum());
      } else if (test.block > 1) {
        const at::Tensor padded = at::zeros({third.numel() * test.block});
        padded.narrow(0, 0, g.numel()).copy_(g);
        third.add_(padded.view({-1, test.block}).sum(1));
      }
      tensor_of(args->parameters[i]).sub_(momentum);
    }
    return nullptr;
  }
  std::vector<OptimizedPartition> partitions() {
    static const tenon_optimizer table = {sizeof(tenon_optimizer), &describe, &update, nullptr};
    std::vector<OptimizedPartition> all;
    all.push_back(
        {OptimizerProxy(made_instance("optimizer", TENON_OPTIMIZER_ID, &table, this)), 1});
    return all;
  }

  uint32_t needs;
  int64_t block;
  std::vector<tenon_slot_spec> slots;
};

}  // namespace tenon
