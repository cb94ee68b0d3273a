// SPDX-License-Identifier: Apache-2.0
#include "host/train/same_data.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/tensor/dtype.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tenon {
namespace {

std::string fields_text(const DataSourceInfo& info) {
  std::string text;
  for (const FieldInfo& field : *info.schema) {
    text += (text.empty() ? "" : ", ") + field.name + " " + dtype_name(field.dtype) + " [";
    for (size_t i = 0; i < field.axes.size(); ++i) {
      const Axis& axis = field.axes[i];
      text += (i > 0 ? " " : "") + axis.name + (axis.size >= 0 ? std::to_string(axis.size) : "");
    }
    text += "]";
  }
  return text.empty() ? "none" : text;
}

// Returns the metadata of a source as lines: "samples: 120".
std::vector<std::string> metadata_of(DataSource& source) {
  const DataSourceInfo& info = source.info();
  std::vector<std::string> metadata = {
      std::string("style: ") + (info.style == DatasetStyle::kMap ? "map" : "stream"),
      std::string("windows: ") + (info.has_windows ? "yes" : "no"),
      "fields: " + fields_text(info)};
  if (info.style == DatasetStyle::kStream) {
    metadata.push_back(formatted("shards: {}", info.num_shards));
  } else if (!info.has_windows) {
    metadata.push_back(formatted("samples: {}", source.size(nullptr)));
  }
  if (source.packed() != nullptr && !info.has_windows) {
    metadata.push_back(
        formatted("fingerprint of the lengths: {}", source.length_summary(nullptr).fingerprint));
  }
  for (const MixPartInfo& part : source.parts()) {
    metadata.push_back("samples of " + part.name + ": " +
                       (part.size.has_value() ? std::to_string(*part.size) : "unknown"));
  }
  return metadata;
}

[[noreturn]] void refuse(const DataSource& source,
                         const std::string& here,
                         const std::string& there,
                         size_t rank) {
  throw Error("data.differs",
              formatted("{} is not the same on all ranks: rank 0 has {}, rank {} has {}; give all "
                        "ranks the same files and options",
                        source.name(),
                        here,
                        rank,
                        there));
}

// A rank's metadata of the next window, as numbers for a collective.
using WindowMetadata = std::array<int64_t, 7>;
constexpr size_t kAnswer = 0;
constexpr size_t kNumber = 1;
constexpr size_t kId = 2;
constexpr size_t kSamples = 3;   // -1: unknown
constexpr size_t kAskAgain = 4;  // milliseconds
constexpr size_t kGivesUp = 5;
constexpr size_t kLengths = 6;  // fingerprint, with packing

enum Answer : int64_t { kNone, kHas, kNotYet };

// Longest time between two checks for signals and for answers of other ranks.
constexpr std::chrono::milliseconds kLongestPause{50};

std::string window_text(const WindowMetadata& metadata) {
  std::string text = formatted(
      "window number {} with id {}", metadata[kNumber], static_cast<uint64_t>(metadata[kId]));
  if (metadata[kSamples] >= 0) {
    text += formatted(" and {} samples", metadata[kSamples]);
  }
  if (metadata[kLengths] != 0) {
    text += formatted(", whose lengths have the fingerprint {}",
                      static_cast<uint64_t>(metadata[kLengths]));
  }
  return text;
}

}  // namespace

void check_same_sources(std::span<DataSource* const> sources, Group& ranks) {
  if (ranks.size() == 1) {
    return;
  }
  for (DataSource* const source : sources) {
    std::string mine;
    for (const std::string& fact : metadata_of(*source)) {
      mine += fact + "\n";
    }
    const std::vector<std::string> all = ranks.gather_texts(mine, "what a dataset has");
    const auto first = lines_of(all.front());
    for (size_t rank = 1; rank < all.size(); ++rank) {
      const auto other = lines_of(all[rank]);
      for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
        const std::string here(i < first.size() ? first[i] : "nothing");
        const std::string there(i < other.size() ? other[i] : "nothing");
        if (here != there) {
          refuse(*source, here, there, rank);
        }
      }
    }
  }
}

namespace {

// Opens the next window on this rank, and waits if the dataset has no window yet.
class WindowSearch {
 public:
  WindowSearch(DataStream& data, const std::function<bool()>& gives_up)
      : data_(data), gives_up_(gives_up) {
    ask();
  }

  WindowMetadata metadata() const {
    WindowMetadata metadata{};
    if (data_.has_window()) {
      metadata[kAnswer] = kHas;
      metadata[kNumber] = data_.window_number();
      metadata[kId] = data_.window().has_value() ? static_cast<int64_t>(data_.window()->id()) : 0;
      metadata[kSamples] = data_.loader().num_samples().value_or(-1);
      metadata[kLengths] = static_cast<int64_t>(data_.loader().lengths_fingerprint());
    } else if (data_.ask_again().has_value() && gives_up_ != nullptr) {
      metadata[kAnswer] = kNotYet;
      metadata[kAskAgain] = data_.ask_again()->count();
    }
    metadata[kGivesUp] = gives_up_ != nullptr && gives_up_() ? 1 : 0;
    return metadata;
  }

  // Pauses, then asks the dataset again if that is due.
  void pause(std::chrono::milliseconds longest) {
    std::this_thread::sleep_for(std::min(longest, kLongestPause));
    if (!data_.has_window() && std::chrono::steady_clock::now() >= ask_at_) {
      ask();
    }
  }

 private:
  void ask() {
    data_.next_window();
    if (const auto again = data_.ask_again()) {
      ask_at_ = std::chrono::steady_clock::now() + *again;
    }
  }

  DataStream& data_;
  const std::function<bool()>& gives_up_;
  std::chrono::steady_clock::time_point ask_at_;
};

}  // namespace

NextWindow next_window_together(DataStream& data,
                                Group& ranks,
                                const std::function<bool()>& gives_up) {
  const uint32_t num_ranks = ranks.size();
  WindowSearch search(data, gives_up);
  std::vector<WindowMetadata> all(num_ranks);
  for (bool is_reported = false;; is_reported = true) {
    all[0] = search.metadata();
    if (num_ranks > 1) {
      const WindowMetadata mine = all[0];
      const auto gathering = ranks.start_gather(std::as_bytes(std::span(mine)), "windows");
      const std::span<const std::byte> bytes = gathering->wait();
      std::memcpy(all.data(), bytes.data(), bytes.size());
    }
    const auto num_with = [&all](Answer answer) {
      return static_cast<uint32_t>(std::ranges::count_if(
          all, [answer](const WindowMetadata& metadata) { return metadata[kAnswer] == answer; }));
    };
    if (num_with(kNone) > 0) {
      if (num_with(kHas) > 0 && ranks.rank() == 0 && !data.has_reached_limit()) {
        log_warning(
            formatted("{}: the epoch ends for all ranks where one has no more windows; {} of {} "
                      "ranks had another one, which is skipped",
                      data.source().name(),
                      num_with(kHas),
                      num_ranks));
      }
      return NextWindow::kEnd;
    }
    if (num_with(kNotYet) == 0) {
      break;
    }
    if (std::ranges::any_of(
            all, [](const WindowMetadata& metadata) { return metadata[kGivesUp] != 0; })) {
      if (data.has_window()) {
        data.take_back_window();
      }
      return NextWindow::kGivenUp;
    }
    int64_t pause = kLongestPause.count();
    for (const WindowMetadata& metadata : all) {
      pause = metadata[kAnswer] == kNotYet ? std::min(pause, metadata[kAskAgain]) : pause;
    }
    if (!is_reported && ranks.rank() == 0) {
      log_info("waiting for the next window of " + data.source().name());
    }
    search.pause(std::chrono::milliseconds(pause));
  }
  for (size_t rank = 1; rank < all.size(); ++rank) {
    WindowMetadata first = all.front();
    WindowMetadata other = all[rank];
    first[kGivesUp] = other[kGivesUp] = 0;
    if (other != first) {
      refuse(data.source(), window_text(first), window_text(other), rank);
    }
  }
  return NextWindow::kOpen;
}

}  // namespace tenon
