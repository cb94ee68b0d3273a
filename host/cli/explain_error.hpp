// SPDX-License-Identifier: Apache-2.0
//
// --explain ERROR-ID: what docs/reference/errors.md says of an error. The page is built into the
// program, so that what is printed and what is published are one text.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tenon {

// The page, cut before each of its "## " headings; each part but the first begins with its id.
std::span<const std::string_view> error_page_sections() noexcept;

// The entry of an id ("recipe.syntax", or "[recipe.syntax]" as messages have it), as text that ends
// in a line break. For "all": a table of the ids, each with its exit status and its summary.
//
// Errors   usage.bad_option with the nearest ids, for one that the page does not have
std::string explain_error(std::string_view id);

}  // namespace tenon
