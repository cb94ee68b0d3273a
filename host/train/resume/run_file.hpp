// SPDX-License-Identifier: Apache-2.0
//
// Reads the JSON files of a run folder, which a crash or another program may have left in any
// state. Threads: any.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace tenon {

inline constexpr uint64_t kMaxRunFile = uint64_t{64} << 20;  // bytes

// Returns null if there is no file, and a discarded value if the file cannot be read or is not
// JSON.
nlohmann::json read_run_json(const std::string& file);

}  // namespace tenon
