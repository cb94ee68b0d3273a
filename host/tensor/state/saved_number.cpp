// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/state/saved_number.hpp"

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <cmath>

namespace tenon {
namespace {

template <class Number>
[[noreturn]] void fail_value(std::string_view name, Number found, std::string_view expected) {
  throw Error("state.bad_value",
              formatted("saved state: '{}' is {} (expected {}); resume from another checkpoint",
                        name,
                        found,
                        expected));
}

}  // namespace

void fail_saved_value(std::string_view name, double found, std::string_view expected) {
  fail_value(name, found, expected);
}

void fail_saved_value(std::string_view name, int64_t found, std::string_view expected) {
  fail_value(name, found, expected);
}

uint64_t saved_count(const StateTree& tree, std::string_view name) {
  const int64_t value = tree.get_int(name);
  if (value < 0) {
    fail_saved_value(name, value, "a count of at least 0");
  }
  return static_cast<uint64_t>(value);
}

int64_t saved_signed_count(const StateTree& tree, std::string_view name) {
  return static_cast<int64_t>(saved_count(tree, name));
}

bool saved_flag(const StateTree& tree, std::string_view name) {
  const int64_t value = tree.get_int(name);
  if (value != 0 && value != 1) {
    fail_saved_value(name, value, "0 or 1");
  }
  return value == 1;
}

double saved_amount(const StateTree& tree, std::string_view name) {
  const double value = tree.get_double(name);
  if (!std::isfinite(value) || value < 0) {
    fail_saved_value(name, value, "a finite number of at least 0");
  }
  return value;
}

}  // namespace tenon
