// SPDX-License-Identifier: Apache-2.0
//
// The JSON type that the template engine is compiled with, in place of its own json.h, which needs
// a tensor library. The host converts JSON to values of the engine itself (template_values.hpp).
#pragma once

#include <nlohmann/json.hpp>

using common_json = nlohmann::ordered_json;
