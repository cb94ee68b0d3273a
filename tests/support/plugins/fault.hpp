// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the plugin `faulty` have in common: at one place, from one call on, they fail,
// or give what they must not.
#ifndef TENON_TESTS_FAULT_HPP
#define TENON_TESTS_FAULT_HPP

#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/options.hpp>

#include <ATen/ATen.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

struct FaultOptions {
  std::string at;
  std::string how = "error";
  uint64_t calls_before = 0;
};

template <class O>
void bind_fault(tenon::OptionBinder<O>& binder) {
  binder.field("at", &O::at).doc("the call that goes wrong; empty: none");
  binder.field("how", &O::how)
      .doc(
          "error, exception, foreign, bad_alloc, huge, abort, segv, exit, kill, cut_mapping, or a "
          "result");
  binder.field("calls_before", &O::calls_before).doc("calls that go well");
}

class Fault {
 public:
  explicit Fault(FaultOptions options) : options_(std::move(options)) {}

  // Counts a call of `point`. Throws if this one is to fail; returns how its result is to be wrong,
  // and "" if it is not.
  std::string at(const char* point) {
    if (options_.at != point || calls_++ < options_.calls_before) {
      return "";
    }
    const std::string& how = options_.how;
    if (how == "error") {
      TENON_FAIL(TENON_INVALID, "faulty.asked", "asked to fail at ", point);
    } else if (how == "exception") {
      throw std::runtime_error(std::string("asked to throw at ") + point);
    } else if (how == "foreign") {
      throw 1;
    } else if (how == "bad_alloc") {
      throw std::bad_alloc();
    } else if (how == "huge") {
      at::empty({int64_t{1} << 45});
    } else if (how == "abort") {
      std::abort();
    } else if (how == "segv") {
      return *static_cast<const volatile char*>(nullptr) == 0 ? "" : "never";
    } else if (how == "exit") {
      std::exit(0);
    } else if (how == "kill") {
      raise(SIGKILL);
    } else if (how == "cut_mapping") {
      const int file = memfd_create("cut", 0);
      TENON_CHECK(ftruncate(file, 4096) == 0, "no file to map");
      const void* const bytes = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
      TENON_CHECK(ftruncate(file, 0) == 0, "the file cannot be cut");
      return *static_cast<const volatile char*>(bytes) == 0 ? "" : "never";
    }
    return how;
  }

 private:
  FaultOptions options_;
  uint64_t calls_ = 0;
};

#endif
