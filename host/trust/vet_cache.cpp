// SPDX-License-Identifier: Apache-2.0

#include "host/trust/vet_cache.hpp"

#include "host/io/checksum.hpp"
#include "host/io/content_hash.hpp"
#include "host/io/private_file.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"
#include "host/trust/elf/elf_notes.hpp"
#include "host/trust/private_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <elf.h>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 5;

// A developer's host changes with each build, so only the newest entries of a file are kept.
constexpr std::size_t kMaxHostsPerFile = 4;

// Ids of verdicts that depend only on the file. Errors of the dynamic linker or of the plugin's
// entry may be temporary, and are cheap to check again.
constexpr std::array<std::string_view, 6> kLasting = {"",
                                                      "plugin.abi_mismatch",
                                                      "plugin.bad_schema",
                                                      "plugin.components_differ",
                                                      "plugin.crashed",
                                                      "plugin.missing_interface"};

// A wrong entry, for example after a fault of the disk, could refuse a plugin at each start.
std::string checksum_of(const nlohmann::json& entries) {
  Checksum sum;
  const std::string text = entries.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  sum.add(std::as_bytes(std::span(text)));
  return xxh3_text(sum.value());
}

// Once: the file is also read before it is replaced.
void warn_of_corrupt(const std::string& file, const std::string& why) {
  static std::atomic<bool> is_reported = false;
  if (!is_reported.exchange(true)) {
    log_warning("the vet cache " + file + " is corrupt (" + why +
                "); all plugins are checked again");
  }
}

std::string canonical(const std::string& file) {
  std::error_code failed;
  const std::string path = fs::canonical(file, failed).string();
  return failed ? file : path;
}

// " (cached since 2026-03-01 09:30:00 UTC; pass ...)".
std::string cached_text(int64_t unix_seconds) {
  const std::time_t since = unix_seconds;
  std::tm utc{};
  char time[32] = "";
  if (gmtime_r(&since, &utc) != nullptr) {
    std::strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S UTC", &utc);
  }
  return formatted(" (cached since {}; pass --no-vet-cache to check the plugin again)", time);
}

}  // namespace

std::string host_build_id() {
  const std::string program = "/proc/self/exe";
  for (const ElfNote& note : read_elf_notes(program).notes) {
    if (note.owner == "GNU" && note.type == NT_GNU_BUILD_ID) {
      static constexpr char kDigits[] = "0123456789abcdef";
      std::string id;
      for (const char byte : note.content) {
        id += kDigits[static_cast<unsigned char>(byte) >> 4];
        id += kDigits[static_cast<unsigned char>(byte) & 15];
      }
      return id;
    }
  }
  const FileStamp stamp = file_stamp(program).value_or(FileStamp{});
  return formatted("{}.{}", stamp.size, stamp.modified_ns);
}

VetCache::VetCache(std::string file, std::string host)
    : file_(std::move(file)), host_(std::move(host)) {
  if (!file_.empty()) {
    entries_ = read(file_);
  }
}

VetCache::Entries VetCache::read(const std::string& file) {
  constexpr uint64_t kMaxBytes = uint64_t{16} << 20;
  // A frame in the backtrace of an entry in the list in the object; deeper values are not built.
  constexpr int kMaxDepth = 4;
  const std::optional<nlohmann::json> content =
      read_private_json("the vet cache", file, kMaxBytes, kMaxDepth);
  if (!content.has_value()) {
    return {};
  }
  const nlohmann::json& json = *content;
  Entries entries;
  try {
    if (json.at("format") != kFormat) {
      return {};  // of another release
    }
    if (json.at("checksum") != checksum_of(json.at("entries"))) {
      warn_of_corrupt(file, "its checksum does not match");
      return {};
    }
    for (const nlohmann::json& one : json.at("entries")) {
      Entry entry{.host = one.at("host"),
                  .file = one.at("file"),
                  .stamp = {.device = one.at("device"),
                            .inode = one.at("inode"),
                            .size = one.at("size"),
                            .modified_ns = one.at("modified_ns"),
                            .changed_ns = one.at("changed_ns")},
                  .hash = one.at("hash"),
                  .unix_seconds = one.at("unix_seconds"),
                  .verdict = {.id = one.at("id"),
                              .message = one.at("message"),
                              .details = one.at("details"),
                              .signal = one.at("signal"),
                              .backtrace = one.at("backtrace")}};
      entries.emplace(one.at("path"), std::move(entry));
    }
  } catch (const nlohmann::json::exception& problem) {
    warn_of_corrupt(file, problem.what());
    return {};
  }
  return entries;
}

VetCache::Entry* VetCache::entry_of(const std::string& path) {
  const auto [begin, end] = entries_.equal_range(path);
  const auto found =
      std::find_if(begin, end, [&](const auto& item) { return item.second.host == host_; });
  return found != end ? &found->second : nullptr;
}

std::optional<Verdict> VetCache::find(const std::string& plugin) {
  Entry* const entry = entry_of(canonical(plugin));
  const std::optional<FileStamp> stamp = file_stamp(plugin);
  if (entry == nullptr || !stamp) {
    return std::nullopt;
  }
  if (entry->stamp != *stamp) {
    if (entry->stamp.size != stamp->size || content_hash(plugin) != entry->hash) {
      return std::nullopt;
    }
    entry->stamp = *stamp;
    is_changed_ = true;
  }
  Verdict verdict = entry->verdict;
  verdict.hash = entry->hash;
  if (verdict.message.starts_with(entry->file)) {  // use the current path
    verdict.message.replace(0, entry->file.size(), plugin);
  }
  if (!verdict.is_good()) {
    verdict.message += cached_text(entry->unix_seconds);
  }
  return verdict;
}

void VetCache::store(const std::string& plugin, const FileStamp& stamp, const Verdict& verdict) {
  const std::optional<std::string> hash =
      verdict.hash.empty() ? content_hash(plugin) : verdict.hash;
  // If the file has changed since, the verdict does not apply to it.
  if (file_.empty() || !hash || file_stamp(plugin) != stamp || !verdict.is_lasting ||
      std::ranges::find(kLasting, verdict.id) == kLasting.end()) {
    return;
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Entry fresh{.host = host_,
              .file = plugin,
              .stamp = stamp,
              .hash = *hash,
              .unix_seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
              .verdict = verdict};
  const std::string path = canonical(plugin);
  if (Entry* const known = entry_of(path)) {
    *known = std::move(fresh);
  } else {
    entries_.emplace(path, std::move(fresh));
  }
  is_changed_ = true;
}

void VetCache::save() {
  if (file_.empty() || !is_changed_) {
    return;
  }
  for (auto& [path, entry] : read(file_)) {
    const std::string& host = entry.host;
    const auto [begin, end] = entries_.equal_range(path);
    if (std::none_of(begin, end, [&host](const auto& item) { return item.second.host == host; })) {
      entries_.emplace(path, std::move(entry));
    }
  }

  nlohmann::json all = nlohmann::json::array();
  for (auto begin = entries_.begin(); begin != entries_.end();) {
    const auto end = entries_.upper_bound(begin->first);
    std::vector<const Entry*> of_file;
    for (auto item = begin; item != end; ++item) {
      of_file.push_back(&item->second);
    }
    std::ranges::sort(of_file, std::ranges::greater(), &Entry::unix_seconds);
    of_file.resize(std::min(of_file.size(), kMaxHostsPerFile));
    if (!file_stamp(begin->first)) {
      of_file.clear();  // the file no longer exists
    }
    for (const Entry* const entry : of_file) {
      all.push_back({{"path", begin->first},
                     {"host", entry->host},
                     {"file", entry->file},
                     {"device", entry->stamp.device},
                     {"inode", entry->stamp.inode},
                     {"size", entry->stamp.size},
                     {"modified_ns", entry->stamp.modified_ns},
                     {"changed_ns", entry->stamp.changed_ns},
                     {"hash", entry->hash},
                     {"unix_seconds", entry->unix_seconds},
                     {"id", entry->verdict.id},
                     {"message", entry->verdict.message},
                     {"details", entry->verdict.details},
                     {"signal", entry->verdict.signal},
                     {"backtrace", entry->verdict.backtrace}});
    }
    begin = end;
  }
  const std::string sum = checksum_of(all);
  const nlohmann::json json = {{"format", kFormat}, {"checksum", sum}, {"entries", std::move(all)}};
  // Paths and the output of plugins may not be valid UTF-8.
  const std::string text =
      json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";

  if (const std::string problem = write_private_file(file_, text); !problem.empty()) {
    log_debug("the vet cache " + file_ + " cannot be written: " + problem);
    return;
  }
  is_changed_ = false;
}

}  // namespace tenon
