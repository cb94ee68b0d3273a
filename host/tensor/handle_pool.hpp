// SPDX-License-Identifier: Apache-2.0
//
// Memory of the tensor handles that plugins own. It distinguishes a handle of this pool from any
// other pointer, and from a handle that was released, without reading memory that may not exist.
// Invariant: the memory of a handle is used for other handles only.
// Threads: any.
#pragma once

#include <tenon/tensor.h>

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace tenon {

class HandlePool {
 public:
  // The pool of the process, which is never destroyed: plugins may release handles until the end.
  static HandlePool& get();

  HandlePool(const HandlePool&) = delete;
  HandlePool& operator=(const HandlePool&) = delete;

  // `holder` is the host of the plugin that gets the handle; null if it is unknown.
  //
  // Errors   std::bad_alloc if no memory is left
  tenon_tensor* add(at::Tensor tensor, const tenon_host* holder = nullptr);
  // Releases a handle and returns its tensor. The handle must be one of the pool, and not released.
  at::Tensor remove(tenon_tensor* handle) noexcept;

  // Keeps the memory of released handles unused for long, so that their late use is recognized.
  void keep_released() noexcept;

  // As handle_problem().
  const char* problem(const tenon_tensor* handle) const noexcept;

  // The number of handles that are not released. Looks at every slot.
  int64_t num_live() const;
  // The same by plugin, without handles whose holder is unknown.
  std::map<const tenon_host*, int64_t> num_live_by_holder() const;

 private:
  struct Slot;
  struct Cache;
  HandlePool();
  Slot* new_slot();
  void take_back(Slot* slot) noexcept;

  mutable std::mutex mutex_;
  // Reserved addresses, which read as zeros. They become writable as slots are needed, so that a
  // limit on a process's data (RLIMIT_DATA) counts these only.
  Slot* slots_ = nullptr;
  std::size_t num_writable_ = 0;
  std::size_t num_slots_ = 0;  // used at least once
  Slot* free_ = nullptr;       // list of released slots that no thread keeps, the last one first
  // With keep_released(), the list has the last one last, and is used from this length on.
  Slot* last_free_ = nullptr;
  std::size_t num_free_ = 0;
  std::size_t least_free_ = 0;
  std::atomic<std::size_t> most_kept_;  // released slots that a thread keeps
};

}  // namespace tenon
