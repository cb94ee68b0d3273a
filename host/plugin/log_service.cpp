// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/log_service.hpp"

#include "host/error/plugin_text.hpp"
#include "host/log/log.hpp"
#include "host/plugin/plugin_host.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <string>

namespace tenon {
namespace {

LogLevel level_of(uint32_t level) noexcept {
  switch (level) {
    case TENON_LOG_DEBUG:
      return LogLevel::kDebug;
    case TENON_LOG_INFO:
      return LogLevel::kInfo;
    case TENON_LOG_WARN:
      return LogLevel::kWarning;
    case TENON_LOG_ERROR:
    default:  // a level of a later SDK, which adds only more urgent levels
      return LogLevel::kError;
  }
}

// Lines that a plugin may write in one second. More would fill the disk, and hide those of others.
constexpr int64_t kMostLines = 200;

// Counts the lines of one plugin in the current second.
struct LineCount {
  std::chrono::steady_clock::time_point began;
  int64_t lines = 0;
};

// Returns true if the plugin may write a line now. Reports the lines that it dropped.
bool takes_line(const tenon_host* host) {
  static std::mutex mutex;
  static auto* const counts = new std::map<const tenon_host*, LineCount>;  // used until the end
  int64_t dropped = 0;
  bool is_first_dropped = false;
  {
    const std::lock_guard lock(mutex);
    LineCount& count = (*counts)[host];
    const auto now = std::chrono::steady_clock::now();
    if (now - count.began >= std::chrono::seconds(1)) {
      dropped = std::max<int64_t>(count.lines - kMostLines, 0);
      count = {now, 0};
    }
    is_first_dropped = ++count.lines == kMostLines + 1;
    if (count.lines > kMostLines && !is_first_dropped) {
      return false;
    }
  }
  if (dropped > 0) {
    log_warning(formatted("{}: {} lines were dropped", plugin_of(host).id, dropped));
  }
  if (is_first_dropped) {
    log_warning(formatted("{}: more than {} lines in one second; the rest of them is dropped",
                          plugin_of(host).id,
                          kMostLines));
  }
  return !is_first_dropped;
}

void write(const tenon_host* host, uint32_t level, const char* message) {
  if (host == nullptr || message == nullptr || !is_logged(level_of(level))) {
    return;
  }
  try {
    if (!takes_line(host)) {
      return;
    }
    log(level_of(level), plugin_of(host).id + ": " + plugin_text(message));
  } catch (const std::exception&) {  // out of memory for the text
    log(level_of(level), "a line of a plugin is lost: no memory is left");
  }
}

}  // namespace

const tenon_log_api* log_service() noexcept {
  static constexpr tenon_log_api kApi = {.struct_size = sizeof(tenon_log_api), .write = write};
  return &kApi;
}

}  // namespace tenon
