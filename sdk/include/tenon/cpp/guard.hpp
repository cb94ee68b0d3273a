// SPDX-License-Identifier: Apache-2.0
//
// Converts errors at the boundary: exceptions become statuses on the way out, statuses become
// exceptions on the way in. No other file of the wrapper catches exceptions or releases statuses.
//
// All exceptions are caught inside the plugin, so host and plugin need not share a C++ runtime. An
// exception that crosses the boundary ends the process.
#ifndef TENON_CPP_GUARD_HPP
#define TENON_CPP_GUARD_HPP

#include <tenon/cpp/namespace.hpp>
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

TENON_NAMESPACE_BEGIN

/* An error: thrown by plugins, and by the wrapper if a call to the host fails. */
class Error : public std::exception {
 public:
  /* `code` is a TENON_* code of status.h. `id` is a stable name of the error ("focal.bad_gamma").
   * `file` and `line` locate it in the source; "" and 0 if unknown. */
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

/* The host that loaded this library; null before the entry point was called. It serves calls that
 * have no instance, for example with a null `self`. Two plugins never share it, because the symbols
 * of the wrapper are hidden. */
struct PluginHost {
  static const tenon_host*& get() noexcept {
    static const tenon_host* host = nullptr;
    return host;
  }
};

/* Returns the status service; null only without a host.
 *
 * Threads  [any] */
inline const tenon_status_api* status_api(const tenon_host* host) noexcept {
  if (host == nullptr || host->get_interface == nullptr) {
    return nullptr;
  }
  return static_cast<const tenon_status_api*>(host->get_interface(host, TENON_STATUS_ID));
}

/* Creates a status; null only if there is no host.
 *
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

/* Returns true if the message of a libtorch error reports an allocation failure. The CPU allocator
 * of libtorch throws the same type as for other errors, so only the message tells them apart.
 *
 * Threads  [any] */
inline bool says_out_of_memory(std::string_view what) noexcept {
  return what.find("DefaultCPUAllocator: not enough memory") != std::string_view::npos ||
         what.find("DefaultCPUAllocator: can't allocate memory") != std::string_view::npos;
}

/* Runs `body`, which returns nothing or a status, and converts exceptions to a status. Every
 * function that the host may call is one guard.
 *
 * Errors   Error gives its code, std::bad_alloc TENON_OUT_OF_MEMORY, any other exception
 *          TENON_INTERNAL
 * Threads  [any]
 * Owner    the caller of the guarded function receives the status */
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

/* Throws an Error with the contents of `status_own` and releases it; does nothing if it is null.
 *
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

/* Throws an Error. Use TENON_CHECK or TENON_FAIL. */
[[noreturn]] inline void fail_at(
    uint32_t code, const char* id, const std::string& message, const char* file, int32_t line) {
  throw Error(code, id, message, file, line);
}

TENON_NAMESPACE_END

/* Throws TENON_INVALID with the source location if `condition` is false. The remaining arguments
 * form the message: TENON_CHECK(n > 0, "n is ", n, " (expected a positive number)"). */
#define TENON_CHECK(condition, ...)                                                    \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      ::tenon::fail_at(                                                                \
          TENON_INVALID, "invalid", ::tenon::concat(__VA_ARGS__), __FILE__, __LINE__); \
    }                                                                                  \
  } while (false)

/* Throws an error with a code of status.h: TENON_FAIL(TENON_IO, "text.read", "cannot read ", path).
 */
#define TENON_FAIL(code, id, ...) \
  ::tenon::fail_at(code, id, ::tenon::concat(__VA_ARGS__), __FILE__, __LINE__)

#endif
