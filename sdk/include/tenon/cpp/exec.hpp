// SPDX-License-Identifier: Apache-2.0
//
// Context of a computing call: a C++ view of `tenon_exec`.
#ifndef TENON_CPP_EXEC_HPP
#define TENON_CPP_EXEC_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/services.hpp>
#include <tenon/exec.h>

#include <cstdint>

TENON_NAMESPACE_BEGIN

/* Describes where and for what a call runs; see tenon_exec.
 *
 * Threads  the thread of the call that received it
 * Owner    borrowed until that call returns */
class Exec {
 public:
  Exec(const Host& host, const tenon_exec* exec) : host_(&host), exec_(exec) {
    TENON_CHECK(exec != nullptr, "exec is null");
  }
  const tenon_exec* get() const { return exec_; }
  const Host& host() const { return *host_; }
  tenon_device device() const { return exec_->device; }
  /* Seed of this call; a recompute gets the same seed. */
  uint64_t seed() const { return exec_->seed; }
  /* Training step, from 1; 0 before the first. */
  uint64_t step() const { return exec_->step; }
  /* Index within the step, from 0. */
  uint32_t microbatch() const { return exec_->microbatch; }
  /* What the call is for, TENON_MODE_*. */
  uint32_t mode() const { return exec_->mode; }
  /* True if the mode is TENON_MODE_TRAIN; false in an evaluation. */
  bool is_train() const { return exec_->mode == TENON_MODE_TRAIN; }
  /* True if forward runs again for backward; it must then have no side effects. */
  bool is_recompute() const { return exec_->is_recompute != 0; }
  /* Dtype of floating-point activations. */
  uint32_t compute_dtype() const { return exec_->compute_dtype; }
  /* Position of this rank; valid for the whole run. */
  const tenon_mesh& mesh() const { return *exec_->mesh; }
  /* Waits until the device has finished the work queued so far. The run report counts the waits of
   * each plugin.
   *
   * Errors   TENON_INTERNAL if the device failed */
  void sync() const { host_->check(exec_->sync(exec_)); }
  /* Returns true if the run is about to end, because it was asked to stop. A call that waits or
   * takes long may then give up with TENON_CANCELLED.
   *
   * Threads  [any], until the call that received this exec returns */
  bool stop_requested() const { return exec_->stop_requested(exec_) != 0; }

 private:
  const Host* host_;
  const tenon_exec* exec_;
};

TENON_NAMESPACE_END

#endif
