// SPDX-License-Identifier: Apache-2.0
//
// Reads numbers of a state tree that only an invalid tree has out of range: counts, flags, amounts.
// Threads: those of StateTree.
#pragma once

#include "host/tensor/state/state_tree.hpp"

#include <cstdint>
#include <string_view>
#include <utility>

namespace tenon {

// Throws state.bad_value for the entry `name`. `expected` is a noun phrase.
[[noreturn]] void fail_saved_value(std::string_view name, double found, std::string_view expected);
[[noreturn]] void fail_saved_value(std::string_view name, int64_t found, std::string_view expected);

// Returns an integer that a type can hold.
//
// Errors  those of StateTree::get_int; state.bad_value
template <class T>
T saved_number(const StateTree& tree, std::string_view name) {
  const int64_t value = tree.get_int(name);
  if (!std::in_range<T>(value)) {
    fail_saved_value(name, value, "a number in range");
  }
  return static_cast<T>(value);
}

// Returns an integer that is not negative.
//
// Errors  as saved_number()
uint64_t saved_count(const StateTree& tree, std::string_view name);
int64_t saved_signed_count(const StateTree& tree, std::string_view name);

// Returns 0 or 1 as a truth value.
//
// Errors  as saved_number()
bool saved_flag(const StateTree& tree, std::string_view name);

// Returns a finite number that is not negative, such as a time.
//
// Errors  those of StateTree::get_double; state.bad_value
double saved_amount(const StateTree& tree, std::string_view name);

}  // namespace tenon
