// SPDX-License-Identifier: Apache-2.0
#include "host/train/memory_report.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr HeldMemory kHeld{
    .parameters = 10 * kMiB, .gradients = 10 * kMiB, .optimizer = 20 * kMiB, .batches = 512};

}  // namespace

TEST_CASE("a GPU's memory is shared out without a rest", "[train]") {
  const GpuMemory memory{.allocated = 100 * kMiB,
                         .reserved = 128 * kMiB,
                         .peak_allocated = 120 * kMiB,
                         .peak_reserved = 128 * kMiB,
                         .free = 100 * kMiB,
                         .total = 256 * kMiB};
  CHECK(gpu_memory_report(kHeld, memory, {}) ==
        "Of the GPU's 256.0 MiB, tensors held 100.0 MiB (parameters 10.0 MiB, gradients 10.0 MiB, "
        "optimizer state 20.0 MiB, batches 512 B, activations and all else 60.0 MiB), the "
        "allocator kept 28.0 MiB for reuse, libraries and other processes had 28.0 MiB");
}

TEST_CASE("what was refused is told with the memory of that moment", "[train]") {
  const RefusedMemory refused{
      .requested = 3 * kMiB,
      .memory = {
          .allocated = 2048 * kMiB, .reserved = 2048 * kMiB, .free = 0, .total = 4096 * kMiB}};
  const std::string text = gpu_memory_report(kHeld, GpuMemory(), refused);
  CHECK_THAT(text, contains_text("Of the GPU's 4.00 GiB, when 3.0 MiB more were asked for"));
  CHECK_THAT(text, contains_text("tensors held 2.00 GiB"));
  CHECK_THAT(text, contains_text("other processes had 2.00 GiB"));
}

TEST_CASE("a process tells what it held on the CPU", "[train]") {
  CHECK(cpu_memory_report(kHeld, 100 * kMiB) ==
        "The process held parameters 10.0 MiB, gradients 10.0 MiB, optimizer state 20.0 MiB, "
        "batches 512 B, activations and all else 60.0 MiB");
  CHECK_THAT(cpu_memory_report(kHeld, 0), !contains_text("activations"));
  CHECK(resident_bytes() > kMiB);
}

}  // namespace tenon
