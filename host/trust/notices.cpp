// SPDX-License-Identifier: Apache-2.0
#include "host/trust/notices.hpp"

#include "host/io/private_file.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"
#include "host/trust/private_json.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr int kNoticeFormat = 1;
constexpr uint64_t kMaxNoticeBytes = uint64_t{1} << 20;
constexpr std::size_t kMaxNotices = 1000;

std::string file_state_of(const Notice& notice) {
  if (!notice.stamp) {
    return "";
  }
  const FileStamp& stamp = *notice.stamp;
  return formatted(
      "{}.{}.{}.{}.{}", stamp.device, stamp.inode, stamp.size, stamp.modified_ns, stamp.changed_ns);
}

std::string absolute_path(const std::string& path) {
  std::error_code failed;
  const std::string found = fs::absolute(path, failed).lexically_normal().string();
  return failed ? path : found;
}

}  // namespace

std::string default_notice_file() {
  const std::string folder = user_cache_folder();
  return folder.empty() ? folder : folder + "/notices.json";
}

Notices::Notices(std::string file) : file_(std::move(file)) {
  if (!file_.empty()) {
    entries_ = read(file_);
  }
}

Notices::Entries Notices::read(const std::string& file) {
  constexpr int kMaxDepth = 3;  // an entry in the list in the object; deeper values are not built
  const std::optional<nlohmann::json> content =
      read_private_json("the list of notices", file, kMaxNoticeBytes, kMaxDepth);
  if (!content.has_value()) {
    return {};
  }
  const nlohmann::json& json = *content;
  Entries entries;
  try {
    if (json.at("format") != kNoticeFormat) {
      return {};
    }
    for (const nlohmann::json& one : json.at("notices")) {
      entries.emplace(std::pair(one.at("path").get<std::string>(), one.at("text")),
                      one.at("state"));
    }
  } catch (const nlohmann::json::exception& problem) {
    log_debug("the list of notices " + file + " is ignored: " + problem.what());
    return {};
  }
  return entries;
}

bool Notices::is_new(const Notice& notice) {
  const std::string state = file_state_of(notice);
  const auto [entry, is_added] =
      entries_.emplace(std::pair(absolute_path(notice.path), notice.text), state);
  if (!is_added && entry->second == state) {
    return false;
  }
  entry->second = state;
  is_changed_ = true;
  return true;
}

void Notices::save() {
  if (file_.empty() || !is_changed_) {
    return;
  }
  entries_.merge(read(file_));
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [key, state] : entries_) {
    std::error_code ignored;  // an inaccessible file counts as missing
    if (all.size() < kMaxNotices && fs::exists(fs::symlink_status(key.first, ignored))) {
      all.push_back({{"path", key.first}, {"text", key.second}, {"state", state}});
    }
  }
  const nlohmann::json json = {{"format", kNoticeFormat}, {"notices", std::move(all)}};
  // Paths may not be valid UTF-8.
  const std::string text =
      json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (const std::string problem = write_private_file(file_, text); !problem.empty()) {
    log_debug("the list of notices " + file_ + " cannot be written: " + problem);
    return;
  }
  is_changed_ = false;
}

}  // namespace tenon
