// SPDX-License-Identifier: Apache-2.0
//
// Where, when and for what a computing call runs: `tenon_exec` with C++ manners. Borrowed until the
// call returns.
#ifndef TENON_CPP_EXEC_HPP
#define TENON_CPP_EXEC_HPP

#include <tenon/cpp/services.hpp>
#include <tenon/exec.h>

#include <cstdint>

namespace tenon {

/* Threads as the call that got it */
class Exec {
 public:
  Exec(const Host& host, const tenon_exec* exec) : host_(&host), exec_(exec) {
    TENON_CHECK(exec != nullptr, "exec is null");
  }
  const tenon_exec* get() const { return exec_; }
  const Host& host() const { return *host_; }
  tenon_device device() const { return exec_->device; }
  /* Of this call; equal in a recompute. */
  uint64_t seed() const { return exec_->seed; }
  /* From 1; 0 before the first. */
  uint64_t step() const { return exec_->step; }
  uint32_t microbatch() const { return exec_->microbatch; }
  bool is_train() const { return exec_->is_train != 0; }
  bool is_recompute() const { return exec_->is_recompute != 0; }
  /* Dtype of floating-point activations. */
  uint32_t compute_dtype() const { return exec_->compute_dtype; }
  const tenon_mesh& mesh() const { return *exec_->mesh; }
  /* Waits for the device; the run report counts it. */
  void sync() const { host_->check(exec_->sync(exec_)); }

 private:
  const Host* host_;
  const tenon_exec* exec_;
};

}  // namespace tenon

#endif
