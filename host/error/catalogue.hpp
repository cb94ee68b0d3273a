// SPDX-License-Identifier: Apache-2.0
//
// The catalogue of error ids: what each means in a line, and the exit status it ends the run with.
// docs/reference/errors.md explains each one to users; a test compares the two lists both ways.
// Invariant: sorted by id, no id twice; an id that was released is never given another meaning.

#pragma once

#include "host/error/exit_code.hpp"

#include <span>
#include <string_view>

namespace tenon {

struct ErrorEntry {
  std::string_view id;
  ExitCode exit_code;
  std::string_view summary;
};

// All entries, sorted by id.
std::span<const ErrorEntry> all_errors() noexcept;

// The entry of an id, or null if the catalogue has none.
const ErrorEntry* find_error(std::string_view id) noexcept;

// The exit status of an id. One that the catalogue lacks (a plugin may send any) is kFailed.
ExitCode exit_code_of(std::string_view id) noexcept;

}  // namespace tenon
