// SPDX-License-Identifier: Apache-2.0
//
// The tables tenon_state_writer and tenon_state_reader of state.h: a plugin's view of a subtree of
// a StateTree. Invariant: a plugin has no access outside its prefix.
// Threads: those of the call that receives the table.

#pragma once

#include <tenon/state.h>

#include "host/tensor/state/state_tree.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// Stores the entries that a plugin's `snapshot` writes, below a prefix.
//
// Owner  borrows the tree and the host pointer; both outlive it
class StateWriter {
 public:
  // Sets the version of the subtree. Statuses are created for `host`, which may be null.
  StateWriter(StateTree& tree, std::string prefix, uint32_t version, const tenon_host* host);
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;
  ~StateWriter() = default;

  // The table for the plugin; lives as long as this object.
  tenon_state_writer* abi() noexcept { return &table_; }

 private:
  struct Callbacks;

  StateTree& tree_;
  std::string prefix_;
  const tenon_host* host_;
  tenon_state_writer table_;
};

// Provides the entries below a prefix to a plugin's `load`; `version` is the version of the
// subtree.
//
// Owner  as above; values lent to the plugin live as long as this object and the tree
class StateReader {
 public:
  StateReader(const StateTree& tree, std::string prefix, const tenon_host* host);
  StateReader(const StateReader&) = delete;
  StateReader& operator=(const StateReader&) = delete;
  ~StateReader() = default;

  tenon_state_reader* abi() noexcept { return &table_; }

 private:
  struct Callbacks;
  struct Entry {
    std::string name;  // below the prefix
    uint32_t type;     // TENON_STATE_INT to TENON_STATE_TENSOR
  };
  // Lists the entries when first called.
  const std::vector<Entry>& entries();

  const StateTree& tree_;
  std::string prefix_;
  const tenon_host* host_;
  std::deque<at::Tensor> lent_;
  std::optional<std::vector<Entry>> entries_;
  tenon_state_reader table_;
};

}  // namespace tenon
