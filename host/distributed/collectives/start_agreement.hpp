// SPDX-License-Identifier: Apache-2.0
//
// Compares the properties that all ranks must share before they start: the fingerprint of the run
// (recipe, plugins, versions, kind of device). together.hpp handles the failure of a single rank;
// same_data.hpp compares data.
// Invariants: all ranks throw, with the same message, or none does; texts are sent only if
// something differs.
// Threads: the train thread alone.
#pragma once

#include "host/distributed/collectives/group.hpp"

#include <span>
#include <string>

namespace tenon {

// A property that must be equal on all ranks. If `value` is the text of a JSON object or array,
// messages name the key that differs.
struct Fact {
  std::string name;   // "libtorch", "plugin org.tenon.llama"
  std::string value;  // "" if this rank has none
};

// Compares the metadata of all ranks. The names may differ between ranks.
// Errors  distributed.differs, with the first three differences, and the ranks of each value;
//         distributed.failed as Gathering::wait
void agree_on_metadata(Group& ranks, std::span<const Fact> metadata);

}  // namespace tenon
