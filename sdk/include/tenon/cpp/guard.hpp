// SPDX-License-Identifier: Apache-2.0
//
// The two turns at the boundary: an exception becomes a status on the way out, a status becomes an
// exception on the way in. No other file of the wrapper catches or releases either.
//
// Everything is caught inside the plugin, so that it does not matter whether host and plugin share
// a C++ runtime: an exception that leaves one for the other ends the process.
#ifndef TENON_CPP_GUARD_HPP
#define TENON_CPP_GUARD_HPP

#include <tenon/cpp/text.hpp>
#include <tenon/host.h>
#include <tenon/status.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#define TENON_HIDDEN __attribute__((visibility("hidden")))

namespace tenon {

/* What a plugin throws, and what a failed call of the host becomes. */
class Error : public std::exception {
 public:
  /* `code` is a TENON_* code of status.h, `id` a stable name for the mistake ("focal.bad_gamma").
   * `file` lives as long as the process; null where there is none. */
  Error(uint32_t code, std::string id, std::string message, std::string file = {}, int32_t line = 0)
      : code_(code),
        id_(std::move(id)),
        message_(std::move(message)),
        file_(std::move(file)),
        line_(line) {}

  uint32_t code() const noexcept { return code_; }
  const char* id() const noexcept { return id_.c_str(); }
  const char* what() const noexcept override { return message_.c_str(); }
  const char* file() const noexcept { return file_.c_str(); }
  int32_t line() const noexcept { return line_; }

 private:
  uint32_t code_;
  std::string id_;
  std::string message_;
  std::string file_;
  int32_t line_;
};

/* The host that loaded this library; null before the entry was called. It serves calls that have no
 * instance to ask, as those with a null `self`. One for each library: hidden, so that two plugins
 * never share it. */
struct TENON_HIDDEN PluginHost {
  static const tenon_host*& get() noexcept {
    static const tenon_host* host = nullptr;
    return host;
  }
};

/* The status service; null if the host has none, which no host of this ABI lacks.
 * Threads [any] */
inline const tenon_status_api* status_api(const tenon_host* host) noexcept {
  if (host == nullptr || host->get_interface == nullptr) {
    return nullptr;
  }
  return static_cast<const tenon_status_api*>(host->get_interface(host, TENON_STATUS_ID));
}

/* Makes a status; null only if there is no host to make it.
 * Threads  [any]
 * Owner    the caller, who returns it */
inline tenon_status* make_status(const tenon_host* host,
                                 uint32_t code,
                                 const char* id,
                                 const char* message,
                                 const char* file = "",
                                 int32_t line = 0) noexcept {
  if (host == nullptr) {
    host = PluginHost::get();
  }
  const tenon_status_api* api = status_api(host);
  return api == nullptr ? nullptr : api->make(host, code, id, message, file, line);
}

/* True of the text of a libtorch error that says there was no memory. Its CPU allocator throws
 * what it throws for each other mistake, so that the text is all there is to go by.
 * Threads [any] */
inline bool says_out_of_memory(std::string_view what) noexcept {
  return what.find("DefaultCPUAllocator: not enough memory") != std::string_view::npos ||
         what.find("DefaultCPUAllocator: can't allocate memory") != std::string_view::npos;
}

/* Runs `body`, which returns nothing or a status, and turns what it throws into a status. Every
 * function that the host may call is one guard. Threads  [any] Owner    the caller of the guarded
 * function gets the status */
template <class Body>
tenon_status* guard(const tenon_host* host, Body&& body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(std::forward<Body>(body)())>) {
      std::forward<Body>(body)();
      return nullptr;
    } else {
      return std::forward<Body>(body)();
    }
  } catch (const Error& e) {
    return make_status(host, e.code(), e.id(), e.what(), e.file(), e.line());
  } catch (const std::bad_alloc&) {
    return make_status(host, TENON_OUT_OF_MEMORY, "out_of_memory", "out of memory");
  } catch (const std::exception& e) {
    return says_out_of_memory(e.what())
               ? make_status(host, TENON_OUT_OF_MEMORY, "out_of_memory", e.what())
               : make_status(host, TENON_INTERNAL, "internal", e.what());
  } catch (...) {
    return make_status(host, TENON_INTERNAL, "internal", "an exception that is no std::exception");
  }
}

/* Throws what `status_own` says, and releases it; does nothing on success.
 * Threads  [any]
 * Owner    takes the status */
inline void check(const tenon_host* host, tenon_status* status_own) {
  if (status_own == nullptr) {
    return;
  }
  const tenon_status_api* api = status_api(host);
  if (api == nullptr) {
    throw Error(TENON_INTERNAL,
                "internal",
                "a call of the host failed, and the host has no status service");
  }
  const std::unique_ptr<tenon_status, void (*)(tenon_status*)> status(status_own, api->release);
  throw Error(api->code(status_own),
              api->id(status_own),
              api->message(status_own),
              api->file(status_own),
              api->line(status_own));
}

[[noreturn]] inline void fail_at(
    uint32_t code, const char* id, const std::string& message, const char* file, int32_t line) {
  throw Error(code, id, message, file, line);
}

}  // namespace tenon

/* Throws TENON_INVALID with the place in the source unless `condition` holds. What follows the
 * condition is put together into the message: TENON_CHECK(n > 0, "n is ", n, "; it must be
 * positive"). */
#define TENON_CHECK(condition, ...)                                                    \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      ::tenon::fail_at(                                                                \
          TENON_INVALID, "invalid", ::tenon::concat(__VA_ARGS__), __FILE__, __LINE__); \
    }                                                                                  \
  } while (false)

/* Throws with a code of status.h: TENON_FAIL(TENON_IO, "text.read", "cannot read ", path). */
#define TENON_FAIL(code, id, ...) \
  ::tenon::fail_at(code, id, ::tenon::concat(__VA_ARGS__), __FILE__, __LINE__)

#endif
