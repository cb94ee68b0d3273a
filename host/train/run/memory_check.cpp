// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/memory_check.hpp"

#include <tenon/optimizer.h>
#include <tenon/ports.h>

#include "host/error/error.hpp"
#include "host/text/byte_size.hpp"
#include "host/text/formatted.hpp"
#include "host/train/run/run_context.hpp"
#include "host/train/run_plan/run_plan.hpp"

#include <algorithm>
#include <string>

namespace tenon {
namespace {

std::string text_of(double bytes) {
  constexpr double kMost = 0x1p63;
  return byte_size(static_cast<uint64_t>(std::min(bytes, kMost)));
}

std::string parts_of(const HeldBytes& held) {
  return "parameters " + text_of(held.parameters) + ", gradients " + text_of(held.gradients) +
         ", optimizer state " + text_of(held.optimizer);
}

void check_machine(const HeldBytes& held,
                   uint32_t ranks,
                   const std::optional<AvailableMemory>& available) {
  const double needed = held.sum() * ranks;
  if (!available.has_value() || needed <= static_cast<double>(available->bytes)) {
    return;
  }
  const std::string of_ranks =
      ranks == 1 ? "" : formatted(" for each of the {} ranks of this machine", ranks);
  throw Error("run.too_large",
              "the model needs at least " + text_of(needed) + " of memory (" + parts_of(held) +
                  of_ranks + "), but " + available->limit + " has " +
                  byte_size(static_cast<uint64_t>(available->bytes)) +
                  " available; shard it over ranks of more machines, or train a smaller model");
}

void check_gpu(const HeldBytes& held, const GpuMemory& gpu) {
  const int64_t available = gpu.free + std::max<int64_t>(0, gpu.reserved - gpu.allocated);
  if (held.sum() <= static_cast<double>(available)) {
    return;
  }
  throw Error("run.too_large",
              "the model needs at least " + text_of(held.sum()) + " of GPU memory (" +
                  parts_of(held) + "), but the GPU has " +
                  byte_size(static_cast<uint64_t>(available)) +
                  " available; shard it over more ranks, set parallel.offload, or train a smaller "
                  "model");
}

// Bytes of optimizer state for one element, at least.
double state_bytes(const OptimizerInfo& info, at::ScalarType stored) {
  double bytes = 0;
  for (const SlotSpec& slot : info.slots) {
    const auto size = static_cast<double>(c10::elementSize(
        slot.dtype >= TENON_CLASS_FIRST ? stored : static_cast<at::ScalarType>(slot.dtype)));
    if (slot.shape == TENON_SLOT_LIKE_PARAMETER) {
      bytes += size;
    } else if (slot.shape == TENON_SLOT_BLOCKWISE) {
      bytes += size / static_cast<double>(info.block);
    }
  }
  return bytes;
}

}  // namespace

void check_fits(const ParameterMemory& memory, uint32_t ranks, const UsableMemory& at_hand) {
  if (at_hand.gpu.has_value()) {
    check_gpu(memory.on_device, *at_hand.gpu);
    check_machine(memory.offloaded, ranks, at_hand.machine);
  } else {
    check_machine(memory.on_device, ranks, at_hand.machine);
  }
}

void check_memory(const RunContext& context, const RunPlan& plan) {
  const Gpu* const gpu = context.platform.gpu();
  const auto& partitions = plan.model.partitions;
  const ParameterMemory memory =
      parameter_memory(plan.model.graph,
                       plan.model.layout,
                       [&partitions](uint32_t partition, at::ScalarType stored) {
                         return state_bytes(partitions[partition].optimizer.info(), stored);
                       });
  check_fits(memory,
             context.request.ranks.local_world_size,
             {.machine = available_memory(),
              .gpu = gpu != nullptr ? std::optional(gpu->memory()) : std::nullopt});
}

}  // namespace tenon
