// SPDX-License-Identifier: Apache-2.0
//
// What a JSON Schema says of its keys as a Markdown table, for pages: `--describe ... --markdown`.
// The table of component_text() is for terminals.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

// The table with the word `what` ("option", "key") at the head of its first column; "" where the
// schema has no keys. Of the keys, those named and what is inside them; with none named, all.
std::string option_markdown(const nlohmann::ordered_json& schema,
                            const std::string& what,
                            const std::vector<std::string>& keys = {});

}  // namespace tenon
