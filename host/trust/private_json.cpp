// SPDX-License-Identifier: Apache-2.0
#include "host/trust/private_json.hpp"

#include "host/io/private_file.hpp"
#include "host/log/log.hpp"

namespace tenon {

std::optional<nlohmann::json> read_private_json(const std::string& what,
                                                const std::string& file,
                                                uint64_t max_bytes,
                                                int max_depth) {
  const FileText in = read_private_file(file, max_bytes);
  if (in.text.empty()) {
    if (!in.problem.empty() && !in.is_missing) {
      log_debug(what + " " + file + " is ignored: " + in.problem);
    }
    return std::nullopt;
  }
  const auto is_shallow = [max_depth](int depth,
                                      nlohmann::json::parse_event_t,
                                      const nlohmann::json&) { return depth <= max_depth; };
  return nlohmann::json::parse(in.text, is_shallow, /*allow_exceptions=*/false);
}

}  // namespace tenon
