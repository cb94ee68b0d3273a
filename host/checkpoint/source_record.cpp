// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/source_record.hpp"

#include "host/error/error.hpp"
#include "host/error/utf8.hpp"
#include "host/io/checksum.hpp"
#include "host/json/bounded_json.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

constexpr std::size_t kMostFiles = 2048;  // of a record; an entry of a state has at most 1 MiB

// A name for a record: valid UTF-8, and short. The hash keeps long names apart.
std::string short_name(const std::string& name) {
  constexpr std::size_t kMostBytes = 160;
  constexpr std::size_t kKept = 120;
  return as_utf8(name.size() <= kMostBytes
                     ? name
                     : xxh128_text(name).substr(0, 16) + "..." + name.substr(name.size() - kKept));
}

// Number of bytes of the folder, with its slash, that all names share.
std::size_t common_folder(const std::vector<RecordedFile>& files) {
  std::string_view common = files.front().name;
  for (const RecordedFile& file : files) {
    const auto [a, b] = std::ranges::mismatch(common, file.name);
    common = common.substr(0, static_cast<std::size_t>(a - common.begin()));
  }
  const std::size_t slash = common.rfind('/');
  return slash == std::string_view::npos ? 0 : slash + 1;
}

std::string_view form_of(std::string_view hash) {
  return hash.substr(0, std::min(hash.find(':'), hash.size()));
}

// One entry for several consecutive files. Unknown sizes and hashes stay unknown.
RecordedFile combined(const std::vector<RecordedFile>& files, std::size_t begin, std::size_t end) {
  RecordedFile all{.name = files[begin].name + " ... " + files[end - 1].name, .bytes = 0};
  std::string text;
  for (std::size_t i = begin; i < end; ++i) {
    const RecordedFile& file = files[i];
    text += formatted("{} {}\n", file.bytes, file.hash);
    all.bytes = file.bytes < 0 || all.bytes < 0 ? -1 : all.bytes + file.bytes;
    all.name_counts = all.name_counts || file.name_counts;
  }
  all.hash =
      formatted("{} files, {}:{}", end - begin, form_of(files[begin].hash), xxh128_text(text));
  return all;
}

bool has_other_content(const RecordedFile& then, const RecordedFile& now) {
  return (then.bytes >= 0 && now.bytes >= 0 && then.bytes != now.bytes) ||
         (!then.hash.empty() && form_of(then.hash) == form_of(now.hash) && then.hash != now.hash);
}

using Files = std::vector<RecordedFile>;

// Names of files that `among` lacks, at most three.
std::string names_missing(const Files& files, const Files& among) {
  constexpr std::size_t kMostNames = 3;
  std::vector<std::string_view> known;
  for (const RecordedFile& file : among) {
    known.push_back(file.name);
  }
  std::ranges::sort(known);
  std::string names;
  std::size_t count = 0;
  for (const RecordedFile& file : files) {
    if (!std::ranges::binary_search(known, file.name) && ++count <= kMostNames) {
      names += (names.empty() ? "" : ", ") + file.name;
    }
  }
  return count > kMostNames ? names + formatted(" and {} more", count - kMostNames) : names;
}

std::string count_difference(const Files& then, const Files& now) {
  std::string text = counted(now.size(), "file") + formatted(" (expected {}", then.size());
  const std::string added = names_missing(now, then);
  const std::string gone = names_missing(then, now);
  text += added.empty() ? "" : "; new: " + added;
  text += gone.empty() ? "" : "; missing: " + gone;
  return text + ")";
}

// True if both have the same files, by size and hash, in another order.
bool is_reordered(const Files& then, const Files& now) {
  const auto contents = [](const Files& files) {
    std::vector<std::pair<std::int64_t, std::string_view>> all;
    for (const RecordedFile& file : files) {
      all.emplace_back(file.bytes, file.hash);
    }
    std::ranges::sort(all);
    return all;
  };
  return contents(then) == contents(now);
}

}  // namespace

void shorten(SourceRecord& record) {
  Files& files = record.files;
  if (files.empty()) {
    return;
  }
  const std::size_t folder = common_folder(files);
  for (RecordedFile& file : files) {
    file.name = short_name(file.name.substr(folder));
  }
  if (files.size() > kMostFiles) {
    Files groups;
    for (std::size_t i = 0; i < kMostFiles; ++i) {
      groups.push_back(
          combined(files, files.size() * i / kMostFiles, files.size() * (i + 1) / kMostFiles));
    }
    files = std::move(groups);
  }
}

std::string record_difference(const SourceRecord& then, const SourceRecord& now) {
  if (then.files.size() != now.files.size()) {
    return "the data has " + count_difference(then.files, now.files);
  }
  for (std::size_t i = 0; i < now.files.size(); ++i) {
    const RecordedFile& was = then.files[i];
    const RecordedFile& is = now.files[i];
    if (has_other_content(was, is)) {
      if (is_reordered(then.files, now.files)) {
        return formatted("the files are in another order (file {} is {}, expected {})",
                         i + 1,
                         is.name,
                         was.name);
      }
      const std::string before = was.name == is.name ? "" : " as " + was.name;
      return was.bytes != is.bytes
                 ? formatted(
                       "{} has {} bytes (expected {}{})", is.name, is.bytes, was.bytes, before)
                 : formatted("{} has other content (same size, hash {}, expected {}{})",
                             is.name,
                             is.hash,
                             was.hash,
                             before);
    }
    if (is.name_counts && was.name != is.name) {
      return formatted("{} has another name (expected {})", is.name, was.name);
    }
  }
  return "";
}

json record_json(const SourceRecord& record) {
  json files = json::array();
  for (const RecordedFile& file : record.files) {
    files.push_back({file.name, file.bytes, file.hash});
  }
  return {{"place", record.place}, {"files", std::move(files)}};
}

SourceRecord record_of(const json& value) {
  SourceRecord record{.place = value.at("place").get<std::string>(), .files = {}};
  for (const json& file : value.at("files")) {
    record.files.push_back({.name = file.at(0).get<std::string>(),
                            .bytes = integer_of(file.at(1)),
                            .hash = file.at(2).get<std::string>()});
  }
  return record;
}

std::string record_text(const SourceRecord& record) {
  return record_json(record).dump(-1, ' ', false, json::error_handler_t::replace);
}

SourceRecord record_of(const std::string& text) {
  const auto fail = [](const char* why) {
    return Error("checkpoint.damaged", std::string("the record of the data's files: ") + why);
  };
  try {
    return record_of(parse_bounded_json(text));
  } catch (const json::exception& error) {
    throw fail(error.what());
  } catch (const BadJson& error) {
    throw fail(error.what());
  }
}

}  // namespace tenon
