// SPDX-License-Identifier: Apache-2.0
//
// The normalization forms NFC, NFD, NFKC and NFKD, and grapheme clusters, as `tokenizers` 0.23.3
// has them. Source: UAX #15 and UAX #29 of the Unicode Standard. Threads: stateless functions, from
// any thread.
#pragma once

#include <string_view>

#include "split_text.hpp"

namespace tenon {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// Whether the form leaves the text as it is, by a test that may miss some texts.
bool is_surely_in_form(std::string_view text, UnicodeForm form);

// Appends the normalized text. The changes say which code points it stands for.
void normalize_form(std::string_view text, UnicodeForm form, RewrittenCodes& out);

// End of the extended grapheme cluster that starts at `begin`.
size_t grapheme_end(std::string_view text, size_t begin);

}  // namespace tenon
