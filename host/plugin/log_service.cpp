// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/log_service.hpp"

#include "host/error/plugin_text.hpp"
#include "host/log/log.hpp"
#include "host/plugin/plugin_host.hpp"

#include <exception>
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

void write(const tenon_host* host, uint32_t level, const char* message) {
  if (host == nullptr || message == nullptr || !is_logged(level_of(level))) {
    return;
  }
  try {
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
