// SPDX-License-Identifier: Apache-2.0
//
// The kinds of component that this host knows, each with its required interface.

#pragma once

#include <span>
#include <string_view>

namespace tenon {

struct KindEntry {
  std::string_view kind;          // "loss"
  std::string_view interface_id;  // "tenon.loss/1"
};

// Returns all kinds, in the order in which they are listed for users.
std::span<const KindEntry> all_kinds() noexcept;

// Returns the entry of a kind, or null if this host does not know it.
const KindEntry* find_kind(std::string_view kind) noexcept;

}  // namespace tenon
