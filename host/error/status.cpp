// SPDX-License-Identifier: Apache-2.0

#include "host/error/status.hpp"

#include "host/error/plugin_text.hpp"

#include <algorithm>
#include <memory>
#include <new>

struct tenon_status {
  uint32_t code = TENON_OK;
  int32_t line = 0;
  const tenon_host* host = nullptr;
  std::string id;
  std::string message;
  std::string file;
};

namespace tenon {
namespace {

// Replaces a status that cannot be allocated. Never destroyed, because a plugin may hold it while
// the process ends.
tenon_status* out_of_memory_status() {
  static tenon_status* const status =
      new tenon_status{TENON_OUT_OF_MEMORY,
                       0,
                       nullptr,
                       "host.out_of_memory",
                       "no memory is left, not even for the error message",
                       ""};
  return status;
}
// Made at program start, because its strings need memory too.
[[maybe_unused]] const tenon_status* const made_at_start = out_of_memory_status();

std::string text_of(const char* text) {
  return text != nullptr ? text : "";
}

// `make` of the service: makes the status of a plugin. Without memory for the checked text, the
// status reports that.
tenon_status* service_make(const tenon_host* host,
                           uint32_t code,
                           const char* id,
                           const char* message,
                           const char* file,
                           int32_t line) {
  try {
    return make_status(host,
                       code,
                       plugin_text(text_of(id)).c_str(),
                       plugin_text(text_of(message)).c_str(),
                       plugin_text(text_of(file)).c_str(),
                       line);
  } catch (const std::exception&) {
    return out_of_memory_status();
  }
}

}  // namespace

tenon_status* make_status(const tenon_host* host,
                          uint32_t code,
                          const char* id,
                          const char* message,
                          const char* file,
                          int32_t line) noexcept {
  try {
    auto status = std::make_unique<tenon_status>();
    // A status object never has TENON_OK: requesting it is a bug of the caller.
    status->code = code == TENON_OK ? static_cast<uint32_t>(TENON_INTERNAL) : code;
    status->line = line;
    status->host = host;
    status->id = text_of(id);
    status->message = text_of(message);
    status->file = text_of(file);
    return status.release();
  } catch (const std::exception&) {
    return out_of_memory_status();
  }
}

void release(tenon_status* status_own) noexcept {
  if (status_own != out_of_memory_status()) {
    delete status_own;
  }
}

StatusText take(tenon_status* status_own) {
  if (status_own == nullptr) {
    return {};
  }
  const std::unique_ptr<tenon_status, decltype(&release)> owner(status_own, release);
  return {.code = status_own->code,
          .id = status_own->id,
          .message = status_own->message,
          .file = status_own->file,
          .line = status_own->line,
          .host = status_own->host};
}

void throw_if_failed(tenon_status* status_own) {
  const StatusText text = take(status_own);
  if (!text.ok()) {
    throw Error(text.id, text.message);
  }
}

tenon_status* status_of_current_exception(const tenon_host* host) noexcept {
  try {
    throw;
  } catch (const StatusError& error) {
    return make_status(host, error.code(), error.id().c_str(), error.message().c_str());
  } catch (const Error& error) {
    return make_status(host, TENON_INVALID, error.id().c_str(), error.message().c_str());
  } catch (const std::bad_alloc&) {
    return make_status(host, TENON_OUT_OF_MEMORY, "host.out_of_memory", "no memory is left");
  } catch (const std::exception& error) {
    try {
      const std::string message(what_without_backtrace(error.what()));
      return make_status(host, TENON_INTERNAL, "host.internal", message.c_str());
    } catch (const std::bad_alloc&) {
      return out_of_memory_status();
    }
  } catch (...) {
    return make_status(
        host, TENON_INTERNAL, "host.internal", "an exception that is no std::exception");
  }
}

std::string_view what_without_backtrace(std::string_view what) noexcept {
  // Some messages, such as the CPU allocator's, lack the line "Exception raised from".
  return what.substr(0, std::min(what.find("\nException raised from"), what.find("\nframe #0: ")));
}

const tenon_status_api* status_service() noexcept {
  static constexpr tenon_status_api kApi = {
      .struct_size = sizeof(tenon_status_api),
      .make = service_make,
      .release = release,
      .code = [](const tenon_status* status) -> uint32_t {
        return status != nullptr ? status->code : static_cast<uint32_t>(TENON_OK);
      },
      .id = [](const tenon_status* status) { return status != nullptr ? status->id.c_str() : ""; },
      .message =
          [](const tenon_status* status) {
            return status != nullptr ? status->message.c_str() : "";
          },
      .file =
          [](const tenon_status* status) { return status != nullptr ? status->file.c_str() : ""; },
      .line = [](const tenon_status* status) -> int32_t {
        return status != nullptr ? status->line : 0;
      },
  };
  return &kApi;
}

}  // namespace tenon
