// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/trace_span.hpp"

namespace tenon {
namespace {

std::shared_mutex& traced_work() {
  static std::shared_mutex mutex;
  return mutex;
}

}  // namespace

std::shared_lock<std::shared_mutex> begin_traced_work() {
  return std::shared_lock(traced_work());
}

std::unique_lock<std::shared_mutex> pause_traced_work() {
  return std::unique_lock(traced_work());
}

void TraceSpan::begin(const char* what, std::string_view name) {
  std::string text(what);
  if (!name.empty()) {
    text.append(" ").append(name);
  }
  record_.emplace(at::RecordScope::USER_SCOPE);
  if (record_->isActive()) {
    record_->before(std::move(text));
  }
}

}  // namespace tenon
