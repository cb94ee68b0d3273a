// SPDX-License-Identifier: Apache-2.0
//
// What ranks must have in common before they begin: the facts of the run (recipe, plugins,
// versions, kind of device). A rank that fails alone is together.hpp's, and data same_data.hpp's.
// Invariants: all ranks throw, with the same message, or none does; texts travel only where
// something differs.
// Threads: the train thread alone.
#pragma once

#include "host/distributed/collectives/collective.hpp"

#include <span>
#include <string>

namespace tenon {

// Something that must be equal on all ranks. Where `value` is the text of a JSON object or array,
// messages name the key that differs.
struct Fact {
  std::string name;   // "libtorch", "plugin org.tenon.llama"
  std::string value;  // "" where this rank has none
};

// Holds the facts of all ranks against each other. The names may differ from rank to rank.
// Errors  distributed.differs, with the facts that differ and who has which (the first three
//         differences); distributed.failed as Gathering::wait
void agree_on_metadata(Collective& collective, std::span<const Fact> metadata);

}  // namespace tenon
