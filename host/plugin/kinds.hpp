// SPDX-License-Identifier: Apache-2.0
//
// The kinds of component that this host knows, and the interface that each must speak.

#pragma once

#include <span>
#include <string_view>

namespace tenon {

struct KindEntry {
  std::string_view kind;          // "loss"
  std::string_view interface_id;  // "tenon.loss/1"
};

// All kinds, in the order in which they are listed for people.
std::span<const KindEntry> all_kinds() noexcept;

// The entry of a kind, or null where this host does not know it.
const KindEntry* find_kind(std::string_view kind) noexcept;

}  // namespace tenon
