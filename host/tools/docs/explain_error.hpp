// SPDX-License-Identifier: Apache-2.0
//
// --explain ERROR-ID: prints the entry of an error in docs/reference/errors.md. The page is
// compiled into the program, so both have the same text.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tenon {

// Returns the page, split at each "## " heading. Each section except the first starts with its id.
std::span<const std::string_view> error_page_sections() noexcept;

// Returns the entry of an id ("recipe.syntax", or "[recipe.syntax]" as in messages). For "all",
// returns a table of all ids with exit status and summary. The text ends in a line break.
//
// Errors   usage.bad_option with the nearest ids, if the id is unknown
std::string explain_error(std::string_view id);

}  // namespace tenon
