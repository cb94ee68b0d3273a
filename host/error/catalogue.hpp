// SPDX-License-Identifier: Apache-2.0
//
// The catalogue of error ids, with a one-line meaning and an exit status for each.
// docs/reference/errors.md explains each id to users; a test checks that both lists are the same.
// Invariant: sorted by id, without duplicates; the meaning of a released id never changes.

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

// Returns all entries, sorted by id.
std::span<const ErrorEntry> all_errors() noexcept;

// Returns the entry of an id; null if the catalogue lacks it.
const ErrorEntry* find_error(std::string_view id) noexcept;

// Returns the exit status of an id; kFailed for ids that the catalogue lacks, such as plugins' ids.
ExitCode exit_code_of(std::string_view id) noexcept;

}  // namespace tenon
