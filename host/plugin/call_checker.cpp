// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/call_checker.hpp"

#include <atomic>

namespace tenon {
namespace {

constinit std::atomic<CallChecker*> checker_in_use = nullptr;

}  // namespace

const char* const kBrokenRule = "broke a rule";

CallChecker* call_checker() noexcept {
  return checker_in_use.load(std::memory_order_acquire);
}

void set_call_checker(CallChecker* checker) noexcept {
  checker_in_use.store(checker, std::memory_order_release);
}

}  // namespace tenon
