// SPDX-License-Identifier: Apache-2.0
#include "host/train/memory_report.hpp"

#include "host/text/byte_size.hpp"
#include "host/train/run_services.hpp"

#include <algorithm>
#include <fstream>
#include <unistd.h>

namespace tenon {
namespace {

std::string held_text(const HeldMemory& held) {
  return "parameters " + byte_size(held.parameters) + ", gradients " + byte_size(held.gradients) +
         ", optimizer state " + byte_size(held.optimizer) + ", batches " + byte_size(held.batches) +
         (held.tables > 0 ? ", tables " + byte_size(held.tables) : "");
}

}  // namespace

std::string gpu_memory_report(const HeldMemory& held,
                              const GpuMemory& now,
                              const std::optional<RefusedMemory>& refused) {
  const GpuMemory& memory = refused.has_value() ? refused->memory : now;
  std::string text = "Of the GPU's " + byte_size(memory.total);
  if (refused.has_value()) {
    text += ", when " + byte_size(refused->requested) + " more were asked for";
  }
  const int64_t others = memory.total - memory.free - memory.reserved;
  return text + ", tensors held " + byte_size(memory.allocated) + " (" + held_text(held) +
         ", activations and all else " +
         byte_size(std::max<int64_t>(0, memory.allocated - held.sum())) + "), the allocator kept " +
         byte_size(memory.reserved - memory.allocated) +
         " for reuse, libraries and other processes had " + byte_size(std::max<int64_t>(0, others));
}

std::string cpu_memory_report(const HeldMemory& held, int64_t resident) {
  const std::string text = "The process held " + held_text(held);
  const int64_t known = held.sum() + held.tables;
  return resident > known ? text + ", activations and all else " + byte_size(resident - known)
                          : text;
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages >> pages;  // the second number
  return file ? pages * sysconf(_SC_PAGESIZE) : 0;
}

std::string memory_report(const RunServices& run, int64_t batch_bytes) {
  HeldMemory held;
  Gpu* const gpu = run.plan.context.gpu;
  for (const FlatGroup& group : run.model.parameters.groups()) {
    held.parameters += static_cast<int64_t>(group.data().nbytes());
    if (!group.sharing().frees_gradients) {
      held.gradients += static_cast<int64_t>(group.grad().nbytes());
    }
    if (group.has_copy()) {
      const auto bytes = static_cast<int64_t>(group.unsharded_view(0).element_size());
      held.parameters += group.data().numel() * bytes;
    }
  }
  held.optimizer = run.model.optimizer.state_bytes();
  held.tables = run.model.tables != nullptr ? run.model.tables->num_bytes() : 0;
  held.batches = batch_bytes;
  return gpu != nullptr ? gpu_memory_report(held, gpu->memory(), gpu->refused())
                        : cpu_memory_report(held, resident_bytes());
}

}  // namespace tenon
