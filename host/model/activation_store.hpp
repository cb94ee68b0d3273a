// SPDX-License-Identifier: Apache-2.0
//
// Tensors that are moved out of a device's memory between forward and backward. Each microbatch in
// flight has a stack of groups: they come back in reverse order.
// Invariant: a tensor comes back with the same bits, shape and dtype.
// Threads: driven by the train thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

class ActivationStore {
 public:
  virtual ~ActivationStore() = default;

  // Moves a group of tensors away. They may stay in memory until they have been written.
  // Errors  of this group and of earlier ones, see the functions below
  virtual void push(uint64_t microbatch, std::vector<at::Tensor> group) = 0;
  // Returns the newest group of a microbatch that has one, and starts to bring back the one before
  // it.
  // Errors  as push
  virtual std::vector<at::Tensor> pop(uint64_t microbatch) = 0;
  // Drops all groups of a microbatch.
  virtual void drop(uint64_t microbatch) = 0;
};

// Returns a store that writes to a file in `folder`. The file has no name, so that nothing is left
// when the process ends, however it ends. A separate thread writes and reads: one group is read
// ahead, and at most two wait to be written.
// Errors  model.offload_failed with the folder and the system's reason, for the file, and in `push`
//         and `pop` for a full disk
std::unique_ptr<ActivationStore> disk_activations(const std::string& folder);

// Returns a store in host memory, for tensors on another device. Copies are in the order of the
// device's stream.
std::unique_ptr<ActivationStore> host_activations();

}  // namespace tenon
