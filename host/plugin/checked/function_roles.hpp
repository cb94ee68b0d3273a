// SPDX-License-Identifier: Apache-2.0
//
// The thread role of each function that the host calls in a component (tenon/abi.h, rule 9).
// Invariant: the roles of sdk/abi/abi.json, from which sdk/abi/glue.py writes the table.
// Threads: any.
#pragma once

#include <span>
#include <string_view>

namespace tenon {

enum class Role { kLoad, kMain, kStep, kWorker, kAny };

struct FunctionRole {
  std::string_view table;     // "tenon_loss"
  std::string_view kind;      // "loss"; "" for the functions that all kinds have
  std::string_view function;  // "compute"
  Role role = Role::kAny;
  bool has_exec = false;  // it gets an exec, and may compute whatever its role is
};

std::span<const FunctionRole> all_function_roles() noexcept;

// Returns the role of a function; [any] if the table lacks it.
FunctionRole role_of(std::string_view kind, std::string_view function) noexcept;

// "[step]".
std::string_view role_name(Role role) noexcept;

}  // namespace tenon
