// SPDX-License-Identifier: Apache-2.0
//
// Guards the number of compute threads of libtorch and OpenMP around a call into a plugin. It is
// that of the calling thread, and the order of sums depends on it.
// Threads: any.
#pragma once

namespace tenon {

class ComponentIdentity;

// Returns the number of threads that operators called by this thread use.
int num_operator_threads() noexcept;

class ComputeThreads {
 public:
  // `function` is a literal.
  ComputeThreads(const ComponentIdentity& identity, const char* function) noexcept
      : identity_(identity), function_(function), before_(num_operator_threads()) {}
  ~ComputeThreads() {
    if (num_operator_threads() != before_) [[unlikely]] {
      restore();
    }
  }
  ComputeThreads(const ComputeThreads&) = delete;
  ComputeThreads& operator=(const ComputeThreads&) = delete;

 private:
  // Logs a warning that names the component. Defined beside ComponentIdentity.
  [[gnu::cold]] void restore() const noexcept;

  const ComponentIdentity& identity_;
  const char* function_;
  int before_;
};

}  // namespace tenon
