// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for an optimizer of table rows (contract: draft/sparse_optimizer.h).

#pragma once

#include <tenon/draft/sparse_optimizer.h>

#include "host/plugin/instance.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// One tensor of optimizer state for each row.
struct RowSlotSpec {
  std::string name;
  uint32_t shape = TENON_ROW_SLOT_LIKE_VALUE;
  uint32_t dtype = TENON_F32;
  double init = 0;
};

struct SparseOptimizerInfo {
  uint32_t narrow = TENON_NARROW_REFUSED;
  bool runs_on_cpu = false;
  bool runs_on_cuda = false;
  std::vector<RowSlotSpec> slots;
};

class SparseOptimizerProxy {
 public:
  // Errors   plugin.missing_interface, plugin.bad_result, PluginError of `describe`
  // Threads  [main]
  explicit SparseOptimizerProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }
  const SparseOptimizerInfo& info() const noexcept { return info_; }

  // Errors   PluginError
  // Threads  [worker]: several calls run concurrently, on disjoint rows
  void update(const tenon_exec& exec, const tenon_sparse_update_args& args) const {
    instance_.call("update", [&] { return table_->update(instance_.self(), &exec, &args); });
  }

 private:
  ComponentInstance instance_;
  const tenon_sparse_optimizer* table_;
  SparseOptimizerInfo info_;
};

}  // namespace tenon
