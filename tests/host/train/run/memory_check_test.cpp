// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/memory_check.hpp"

#include "host/device/block_cache.hpp"
#include "host/error/error.hpp"
#include "host/model/parameter_store.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/train/run_plan/run_plan.hpp"

#include <string>

#include "tests/host/train/run/run_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// 4 bytes of parameters, 4 of gradients and 8 of optimizer state for each element.
ParameterMemory adamw_of(double elements) {
  ParameterMemory memory;
  memory.on_device = {4 * elements, 4 * elements, 8 * elements};
  return memory;
}

// The message of the refusal; "" if the run fits.
std::string refusal_of(const ParameterMemory& memory, uint32_t ranks, const UsableMemory& at_hand) {
  try {
    check_fits(memory, ranks, at_hand);
    return "";
  } catch (const Error& error) {
    CHECK(std::string(error.id()) == "run.too_large");
    CHECK(error.exit_code() == ExitCode::kRecipe);
    return error.what();
  }
}

struct Compared {
  double expected = 0;
  double allocated = 0;
};

// Compares the estimate with what parameters and optimizers of a recipe allocate.
Compared compared(const std::string& patch, double bytes_per_state) {
  RunRig rig(patch);
  const auto plan = rig.plan();
  const ParameterMemory memory =
      parameter_memory(plan->model.graph, plan->model.layout, [&](uint32_t, at::ScalarType) {
        return bytes_per_state;
      });
  CHECK(memory.offloaded.sum() == 0);
  check_memory(rig.context(), *plan);
  const int64_t before = cpu_tensor_memory().bytes;
  ParameterStore store(plan->model.graph, plan->model.layout);
  const OptimizerDriver driver(
      plan->model.partitions, store.groups(), rig.context().platform.exec());
  return {memory.on_device.sum(), static_cast<double>(cpu_tensor_memory().bytes - before)};
}

}  // namespace

TEST_CASE("a model that needs more than the machine has is refused with both sizes", "[train]") {
  const UsableMemory machine{.machine = AvailableMemory{16 * kGiB, "the machine"}, .gpu = {}};
  CHECK(refusal_of(adamw_of(1e9), 1, machine).empty());  // 14.9 GiB
  const std::string text = refusal_of(adamw_of(2e9), 1, machine);
  CHECK_THAT(text, contains_text("needs at least 29.80 GiB of memory"));
  CHECK_THAT(text, contains_text("optimizer state 14.90 GiB"));
  CHECK_THAT(text, contains_text("the machine has 16.00 GiB available"));
}

TEST_CASE("all ranks of a machine count", "[train]") {
  const UsableMemory machine{.machine = AvailableMemory{16 * kGiB, "the machine"}, .gpu = {}};
  CHECK_THAT(refusal_of(adamw_of(1e9), 2, machine), contains_text("each of the 2 ranks"));
  CHECK(refusal_of(adamw_of(5e8), 2, machine).empty());
}

TEST_CASE("a GPU holds what is not offloaded to the machine", "[train]") {
  UsableMemory at_hand{.machine = AvailableMemory{kGiB, "the machine"},
                       .gpu = GpuMemory{.allocated = kGiB, .reserved = 3 * kGiB, .free = 4 * kGiB}};
  CHECK(refusal_of(adamw_of(4e8), 1, at_hand).empty());  // 5.96 GiB: reserved memory is reused
  CHECK_THAT(refusal_of(adamw_of(5e8), 1, at_hand),
             contains_text("the GPU has 6.00 GiB available"));
  ParameterMemory offloaded;
  offloaded.offloaded = adamw_of(1e9).on_device;
  CHECK_THAT(refusal_of(offloaded, 1, at_hand), contains_text("the machine has 1.00 GiB"));
  at_hand.machine->bytes = 16 * kGiB;
  CHECK(refusal_of(offloaded, 1, at_hand).empty());
}

TEST_CASE("a run whose available memory is unknown is not refused", "[train]") {
  CHECK(refusal_of(adamw_of(1e18), 64, {}).empty());
}

TEST_CASE("the estimate is what parameters, gradients and optimizer state take", "[train]") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  TENON_SKIP("the sanitizers replace the allocator that counts memory");
#endif
  const std::string wide = R"({"model": {"options": {"hidden": [100000]}}%})";
  const auto recipe = [&wide](const std::string& more) {
    std::string text = wide;
    return text.replace(text.find('%'), 1, more);
  };
  const std::string adamw = R"(, "optimizer": {"type": "adamw", "options": {"lr": 0.1}})";
  for (const auto& [patch, bytes] :
       {std::pair{recipe(""), 0.0},
        std::pair{recipe(adamw), 8.0},
        std::pair{recipe(adamw + R"(, "train": {"precision": "bf16"})"), 4.0},
        std::pair{recipe(adamw + R"(, "parallel": {"reshard_after_forward": true})"), 8.0}}) {
    const Compared size = compared(patch, bytes);
    INFO(patch << ": " << size.expected << " expected, " << size.allocated << " allocated");
    CHECK(size.expected > 100'000 * 8 * 4);
    CHECK(size.expected <= size.allocated);
    CHECK(size.allocated <= size.expected * 1.02);  // the allocator rounds up
  }
}

TEST_CASE("frozen parameters need no gradients and no optimizer state", "[train]") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  TENON_SKIP("the sanitizers replace the allocator that counts memory");
#endif
  const Compared size =
      compared(R"({"model": {"options": {"hidden": [100000]}, "frozen": ["mlp.0.*"]}})", 0);
  CHECK(size.expected <= size.allocated);
  CHECK(size.allocated <= size.expected * 1.02);
}

}  // namespace tenon
