// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/run_file.hpp"

#include "host/io/regular_file.hpp"
#include "host/json/bounded_json.hpp"

#include <nlohmann/json.hpp>

namespace tenon {

nlohmann::json read_run_json(const std::string& file) {
  const FileText in = read_file_text(file, kMaxRunFile);
  if (in.is_missing) {
    return {};
  }
  try {
    return parse_bounded_json(in.text);
  } catch (const BadJson&) {
    return nlohmann::json::value_t::discarded;
  }
}

}  // namespace tenon
