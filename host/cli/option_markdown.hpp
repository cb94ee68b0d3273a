// SPDX-License-Identifier: Apache-2.0
//
// The keys of a JSON Schema as a Markdown table, for pages: `--describe ... --markdown`.
// The table of component_text() is for terminals.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

// The table, with `what` ("option", "key") as the heading of its first column; "" if the schema has
// no keys. Lists `keys` with their nested keys, or all keys if `keys` is empty.
std::string option_markdown(const nlohmann::ordered_json& schema,
                            const std::string& what,
                            const std::vector<std::string>& keys = {});

}  // namespace tenon
