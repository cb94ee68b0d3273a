// SPDX-License-Identifier: Apache-2.0
//
// Suggests the names closest to a misspelled name, for "did you mean" messages.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Returns the number of insertions, deletions, substitutions and swaps of neighbors that turn `a`
// into `b`. No part is edited twice. Compares bytes, not characters.
//
// Source   Damerau, A technique for computer detection and correction of spelling errors (1964);
//          the restricted form ("optimal string alignment")
std::size_t edit_distance(std::string_view a, std::string_view b);

// Returns up to three of `names` that `written` may stand for, the closest first. Ignores case, and
// treats "-" as "_". A name is close if it starts with `written` ("embed" for "embedding"; at least
// 3 letters), or if at most a third of its letters differ.
std::vector<std::string> nearest_names(std::string_view written,
                                       std::span<const std::string> names);

// Returns `did you mean "steps" or "epochs"?`, or "" if no name is close.
std::string did_you_mean(std::string_view written, std::span<const std::string> names);

}  // namespace tenon
