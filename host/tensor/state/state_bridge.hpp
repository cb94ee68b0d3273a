// SPDX-License-Identifier: Apache-2.0
//
// A subtree of a StateTree as plugins see it: the tables tenon_state_writer and tenon_state_reader
// of state.h. Invariant: a plugin reaches nothing outside the prefix it was given.
// Threads: as the
// call that the table is handed to.

#pragma once

#include <tenon/state.h>

#include "host/tensor/state/state_tree.hpp"

#include <deque>
#include <string>

namespace tenon {

// Puts what a plugin's `snapshot` writes below a prefix.
//
// Owner  borrows the tree and the host pointer; neither may go before it
class StateWriter {
 public:
  // Marks the subtree with `version`. Statuses are made in the name of `host`, which may be null.
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

// Serves a plugin's `load` from below a prefix; `version` is that of the subtree.
//
// Owner  as above; what the plugin got lives as long as this object and the tree
class StateReader {
 public:
  StateReader(const StateTree& tree, std::string prefix, const tenon_host* host);
  StateReader(const StateReader&) = delete;
  StateReader& operator=(const StateReader&) = delete;
  ~StateReader() = default;

  tenon_state_reader* abi() noexcept { return &table_; }

 private:
  struct Callbacks;

  const StateTree& tree_;
  std::string prefix_;
  const tenon_host* host_;
  std::deque<at::Tensor> lent_;
  tenon_state_reader table_;
};

}  // namespace tenon
