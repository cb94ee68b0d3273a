// SPDX-License-Identifier: Apache-2.0
//
// The fields of an object that belong to the saved state of the loop, one line each:
//
//   class StepCounter final : public WithStateFields<StepCounter> {
//    public:
//     template <class Self, class Fields>
//     static void describe(Self& self, Fields& f) {
//       f.field("steps", self.steps_);
//       f.field("windows", self.windows_, kKeptOnRollBack);
//     }
//
// Saving, loading and rolling back all derive from these lines.
// Invariant: a field has one name and one rule, wherever it is saved or loaded.
// Threads: the train thread.
#pragma once

#include "host/tensor/state/saved_number.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

// Rules of a field; combined with |.
inline constexpr uint32_t kRolledBack = 0;  // a rollback loads the saved value
// A rollback keeps the current value: the position in the data, and records of past events.
inline constexpr uint32_t kKeptOnRollBack = 1;
// Each rank has its own value. If the number of ranks has changed, the tree lacks the value, and
// the field keeps its current value.
inline constexpr uint32_t kOwnOfRank = 2;
// A signed or floating-point value that is finite and not negative. Unsigned values always are.
inline constexpr uint32_t kNotNegative = 4;

// Checkpoints of earlier releases lack the value; the field then keeps its current value.
inline constexpr uint32_t kOptional = 8;

// The fields that a load replaces.
enum class FieldsToLoad { kAll, kRolledBack };

// "eval/loss 0x1.8p+1\n", one line per metric, exact to the bit.
std::string metrics_text(const std::map<std::string, double>& metrics);
// Errors  state.bad_value if a line has another form
std::map<std::string, double> metrics_of_text(const std::string& text);

// Writes fields to a tree.
class FieldWriter {
 public:
  static constexpr bool kIsLoading = false;

  FieldWriter(StateTree& tree, std::string prefix) : tree_(tree), prefix_(std::move(prefix)) {}

  template <std::integral T>
  void field(std::string_view name, T value, uint32_t rules = kRolledBack) {
    tree_.put_int(path(name), static_cast<int64_t>(value), scope(rules));
  }
  void field(std::string_view name, double value, uint32_t rules = kRolledBack) {
    tree_.put_double(path(name), value, scope(rules));
  }
  void field(std::string_view name, const std::string& value, uint32_t rules = kRolledBack) {
    tree_.put_bytes(path(name), value, scope(rules));
  }
  void field(std::string_view name,
             const std::map<std::string, double>& value,
             uint32_t rules = kRolledBack) {
    field(name, metrics_text(value), rules);
  }
  // Skips an undefined tensor.
  void field(std::string_view name, const at::Tensor& value, uint32_t rules = kRolledBack) {
    if (value.defined()) {
      tree_.put_tensor(path(name), value, StateTree::Copy::kYes, scope(rules));
    }
  }

  // A value that is not a member: `get()` returns it, and `set(value)` replaces it.
  template <class Get, class Set>
  void computed(std::string_view name, Get get, Set, uint32_t rules = kRolledBack) {
    field(name, get(), rules);
  }
  // The elements of a vector, as NAME/0, NAME/1...; `each(fields, element)` describes one. If the
  // name is empty, they are stored directly below the prefix.
  template <class List, class Each>
  void list(std::string_view name, const List& elements, Each each, uint32_t = kRolledBack) {
    for (size_t i = 0; i < elements.size(); ++i) {
      FieldWriter fields(tree_, state_path(path(name), std::to_string(i)));
      each(fields, elements[i]);
    }
  }
  // State without fields: `put(tree, path)` writes it, and `get(tree, path)` reads it.
  template <class Put, class Get>
  void custom(std::string_view name, Put put, Get, uint32_t = kRolledBack) {
    put(tree_, path(name));
  }

 private:
  std::string path(std::string_view name) const {
    return name.empty() ? prefix_ : state_path(prefix_, name);
  }
  static uint32_t scope(uint32_t rules) {
    return (rules & kOwnOfRank) != 0 ? TENON_STATE_PER_RANK : TENON_STATE_REPLICATED;
  }

  StateTree& tree_;
  std::string prefix_;
};

// Reads fields from a tree.
// Errors  state.missing_entry, state.wrong_type; state.bad_value if a number is out of range
class FieldReader {
 public:
  static constexpr bool kIsLoading = true;

  FieldReader(const StateTree& tree, std::string prefix, FieldsToLoad which)
      : tree_(tree), prefix_(std::move(prefix)), which_(which) {}

  template <std::integral T>
  void field(std::string_view name, T& value, uint32_t rules = kRolledBack) {
    if (!is_loaded(name, rules)) {
      return;
    }
    if constexpr (std::same_as<T, bool>) {
      value = saved_flag(tree_, path(name));
    } else if ((rules & kNotNegative) != 0 || std::unsigned_integral<T>) {
      value = static_cast<T>(saved_count(tree_, path(name)));
    } else {
      value = saved_number<T>(tree_, path(name));
    }
  }
  void field(std::string_view name, double& value, uint32_t rules = kRolledBack) {
    if (is_loaded(name, rules)) {
      value = (rules & kNotNegative) != 0 ? saved_amount(tree_, path(name))
                                          : tree_.get_double(path(name));
    }
  }
  void field(std::string_view name, std::string& value, uint32_t rules = kRolledBack) {
    if (is_loaded(name, rules)) {
      value = tree_.get_bytes(path(name));
    }
  }
  void field(std::string_view name,
             std::map<std::string, double>& value,
             uint32_t rules = kRolledBack) {
    if (is_loaded(name, rules)) {
      value = metrics_of_text(tree_.get_bytes(path(name)));
    }
  }
  void field(std::string_view name, at::Tensor& value, uint32_t rules = kRolledBack) {
    if (is_wanted(rules)) {
      value = tree_.find(path(name)) != nullptr ? tree_.get_tensor(path(name)) : at::Tensor();
    }
  }

  template <class Get, class Set>
  void computed(std::string_view name, Get get, Set set, uint32_t rules = kRolledBack) {
    if (is_loaded(name, rules)) {
      auto value = get();
      field(name, value, rules);
      set(value);
    }
  }
  template <class List, class Each>
  void list(std::string_view name, List& elements, Each each, uint32_t rules = kRolledBack) {
    if (!is_wanted(rules)) {
      return;
    }
    elements.clear();
    for (size_t i = 0;; ++i) {
      const std::string element = state_path(path(name), std::to_string(i));
      if (!tree_.has_subtree(element)) {
        return;
      }
      FieldReader fields(tree_, element, FieldsToLoad::kAll);
      each(fields, elements.emplace_back());
    }
  }
  template <class Put, class Get>
  void custom(std::string_view name, Put, Get get, uint32_t rules = kRolledBack) {
    if (is_wanted(rules)) {
      get(tree_, path(name));
    }
  }

 private:
  std::string path(std::string_view name) const {
    return name.empty() ? prefix_ : state_path(prefix_, name);
  }
  bool is_wanted(uint32_t rules) const {
    return which_ == FieldsToLoad::kAll || (rules & kKeptOnRollBack) == 0;
  }
  bool is_loaded(std::string_view name, uint32_t rules) const {
    return is_wanted(rules) &&
           ((rules & (kOwnOfRank | kOptional)) == 0 || tree_.find(path(name)) != nullptr);
  }

  const StateTree& tree_;
  std::string prefix_;
  FieldsToLoad which_;
};

// An object with fields in the saved state of the loop.
class HasStateFields {
 public:
  HasStateFields() = default;
  virtual ~HasStateFields() = default;
  HasStateFields(const HasStateFields&) = delete;
  HasStateFields& operator=(const HasStateFields&) = delete;

  virtual void put_fields(StateTree& tree, const std::string& prefix) const = 0;
  // Errors  as FieldReader
  virtual void get_fields(const StateTree& tree,
                          const std::string& prefix,
                          FieldsToLoad which = FieldsToLoad::kAll) = 0;
};

// Implements HasStateFields with Owner::describe.
template <class Owner>
class WithStateFields : public HasStateFields {
 public:
  void put_fields(StateTree& tree, const std::string& prefix) const final {
    FieldWriter fields(tree, prefix);
    Owner::describe(static_cast<const Owner&>(*this), fields);
  }
  void get_fields(const StateTree& tree,
                  const std::string& prefix,
                  FieldsToLoad which = FieldsToLoad::kAll) final {
    FieldReader fields(tree, prefix, which);
    Owner::describe(static_cast<Owner&>(*this), fields);
  }
};

}  // namespace tenon
