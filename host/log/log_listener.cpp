// SPDX-License-Identifier: Apache-2.0
#include "host/log/log_listener.hpp"

#include <mutex>
#include <shared_mutex>
#include <utility>

namespace tenon {
namespace {

thread_local bool is_passing = false;  // this thread is in the listener

struct Passing {
  Passing() { is_passing = true; }
  ~Passing() { is_passing = false; }
  Passing(const Passing&) = delete;
  Passing& operator=(const Passing&) = delete;
};

struct CurrentListener {
  std::shared_mutex mutex;
  LogListener call;
};

// Never destroyed: a plugin's thread may log while the process exits.
CurrentListener& the_listener() {
  static auto* const listener = new CurrentListener;
  return *listener;
}

}  // namespace

void set_log_listener(LogListener listener) {
  CurrentListener& current = the_listener();
  const std::unique_lock lock(current.mutex);
  current.call = std::move(listener);
}

void pass_to_log_listener(LoggedKind kind, std::string_view text) {
  if (is_passing) {
    return;
  }
  CurrentListener& current = the_listener();
  const std::shared_lock lock(current.mutex);
  if (current.call) {
    const Passing passing;
    current.call(kind, text);
  }
}

}  // namespace tenon
