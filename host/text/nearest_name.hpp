// SPDX-License-Identifier: Apache-2.0
//
// "Did you mean": the names closest to a misspelt one.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// The number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into
// `b`, no part being edited twice. Bytes count, not characters.
//
// Source   Damerau, A technique for computer detection and correction of spelling errors (1964);
//          the restricted form ("optimal string alignment")
std::size_t edit_distance(std::string_view a, std::string_view b);

// Up to three of `names` that are near enough to be what was meant, the nearest first. Case, and
// "-" for "_", do not count. A name that starts with what was written is near ("embed" for
// "embedding"), and so is one that differs in a third of its letters or fewer.
std::vector<std::string> nearest_names(std::string_view written,
                                       std::span<const std::string> names);

// `did you mean "steps" or "epochs"?`, or "" where no name is near.
std::string did_you_mean(std::string_view written, std::span<const std::string> names);

}  // namespace tenon
