// SPDX-License-Identifier: Apache-2.0
//
// The keys of a JSON Schema as a Markdown table, for `--describe ... --markdown`.
// component_text() makes the table for terminals.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

// Returns the table; "" if the schema has no keys. `what` ("option", "key") is the heading of the
// first column. Lists `keys` with their nested keys, or all keys if `keys` is empty.
std::string option_markdown(const nlohmann::ordered_json& schema,
                            const std::string& what,
                            const std::vector<std::string>& keys = {});

}  // namespace tenon
