// SPDX-License-Identifier: Apache-2.0
#include "host/process/compute_settings.hpp"

#include "host/device/block_cache.hpp"
#include "host/device/device.hpp"
#include "host/device/host_memory.hpp"
#include "host/plugin/compute_threads.hpp"

#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <cstdlib>
#include <optional>
#include <utility>

namespace tenon {

// Settings that this object has changed, as they were.
struct ComputeSettings::Before {
  std::optional<DeterministicFlags> determinism;
  std::optional<int> threads;
  std::optional<KernelPolicy> kernels;
  std::optional<KeepKernelAnswer> keeper;
  std::optional<caffe2::TypeMeta> default_dtype;
};

ComputeSettings::ComputeSettings() : before_(std::make_unique<Before>()) {}

ComputeSettings::~ComputeSettings() {
  if (before_->default_dtype.has_value()) {
    c10::set_default_dtype(*before_->default_dtype);
  }
  if (before_->keeper.has_value()) {
    set_kernel_answer_keeper(std::move(*before_->keeper));
  }
  if (before_->kernels.has_value()) {
    set_kernel_policy(std::move(*before_->kernels));
  }
  // Not set_compute_threads(), which tries to start threads and may throw.
  if (before_->threads.has_value() && *before_->threads != num_operator_threads()) {
    at::set_num_threads(*before_->threads);
  }
  if (before_->determinism.has_value()) {
    set_deterministic_flags(*before_->determinism);
  }
}

void ComputeSettings::make_reproducible() {
  if (!before_->determinism.has_value()) {
    before_->determinism = deterministic_flags();
  }
  choose_reproducible_math();
  choose_reproducible_gpu_math();
  set_deterministic(Deterministic::kYes);
}

void ComputeSettings::quiet_tracer() {
  ::setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);
}

void ComputeSettings::keep_memory() {
  keep_freed_memory();
  use_block_cache();
}

void ComputeSettings::pin_staging(const StagingPins& pins) {
  use_staging_pins(pins);
}

void ComputeSettings::use_threads(int n) {
  if (!before_->threads.has_value()) {
    before_->threads = num_operator_threads();
  }
  set_compute_threads(n);
}

void ComputeSettings::use_kernels(KernelPolicy policy) {
  if (!before_->kernels.has_value()) {
    before_->kernels = kernel_policy();
  }
  set_kernel_policy(std::move(policy));
}

void ComputeSettings::keep_kernel_answers(KeepKernelAnswer keeper) {
  KeepKernelAnswer before = set_kernel_answer_keeper(std::move(keeper));
  if (!before_->keeper.has_value()) {
    before_->keeper = std::move(before);
  }
}

void ComputeSettings::use_default_dtype(at::ScalarType dtype) {
  if (!before_->default_dtype.has_value()) {
    before_->default_dtype = c10::get_default_dtype();
  }
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
}

}  // namespace tenon
