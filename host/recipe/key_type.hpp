// SPDX-License-Identifier: Apache-2.0
//
// For each C++ type of a key: its JSON Schema, the JSON of its default, and how to read it.
// Sections are also such types (section.hpp).
#pragma once

#include "host/json/json_path.hpp"
#include "host/recipe/bound_keys.hpp"
#include "host/recipe/component_use.hpp"
#include "host/recipe/recipe_key.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tenon {

// A value of a complete recipe, and its place. What is read is added to `keys`.
struct KeyValue {
  const nlohmann::json& value;
  const std::string& pointer;
  BoundKeys& keys;
};

// Functions of a key's type:
// schema(key): returns the JSON Schema, without the key's doc and default.
// json(key, value): returns `value` as the JSON of a default, or no_preset().
// read(key, at, out): sets `out` from a value that the schema allows. Null leaves `out` unchanged.
//   Parts that have a problem are not read.
// visit(value, f): calls `f` for each component in `value`.
template <class T>
struct KeyType;

struct PlainKeyType {
  template <class T>
  static void visit(T&, const ComponentFill&) {}
};

template <>
struct KeyType<bool> : PlainKeyType {
  static KeySchema schema(const RecipeKey&) { return {{"type", "boolean"}}; }
  static KeySchema json(const RecipeKey&, bool value) { return value; }
  static void read(const RecipeKey&, const KeyValue& at, bool& out) { out = at.value.get<bool>(); }
};

template <std::integral T>
struct KeyType<T> : PlainKeyType {
  static KeySchema schema(const RecipeKey& key) {
    return with_keywords({{"type", "integer"}}, key.item_keywords());
  }
  static KeySchema json(const RecipeKey&, T value) { return value; }
  static void read(const RecipeKey&, const KeyValue& at, T& out) {
    if (!at.value.is_null()) {
      out = at.value.get<T>();
    }
  }
};

template <>
struct KeyType<double> : PlainKeyType {
  static KeySchema schema(const RecipeKey& key) {
    return with_keywords({{"type", "number"}}, key.item_keywords());
  }
  static KeySchema json(const RecipeKey&, double value) {  // 60 rather than 60.0
    return value == std::floor(value) ? KeySchema(static_cast<std::int64_t>(value))
                                      : KeySchema(value);
  }
  static void read(const RecipeKey&, const KeyValue& at, double& out) {
    out = at.value.get<double>();
  }
};

template <>
struct KeyType<std::string> : PlainKeyType {
  static KeySchema schema(const RecipeKey& key) {
    // A list of choices already implies strings.
    return key.item_keywords().contains("enum")
               ? key.item_keywords()
               : with_keywords({{"type", "string"}}, key.item_keywords());
  }
  static KeySchema json(const RecipeKey& key, const std::string& value) {
    return key.is_nullable() && value.empty() ? KeySchema(nullptr) : KeySchema(value);
  }
  static void read(const RecipeKey&, const KeyValue& at, std::string& out) {
    if (!at.value.is_null()) {
      out = at.value.get<std::string>();
    }
  }
};

// A text, or a number.
template <class Number>
struct KeyType<std::variant<std::string, Number>> : PlainKeyType {
  using Value = std::variant<std::string, Number>;
  static KeySchema schema(const RecipeKey& key) {
    const char* const number = std::integral<Number> ? "integer" : "number";
    return with_keywords({{"type", {"string", number}}}, key.item_keywords());
  }
  static KeySchema json(const RecipeKey&, const Value& value) {
    return std::visit([](const auto& one) { return KeySchema(one); }, value);
  }
  static void read(const RecipeKey&, const KeyValue& at, Value& out) {
    if (at.value.is_string()) {
      out = at.value.template get<std::string>();
    } else {
      out = at.value.template get<Number>();
    }
  }
};

template <>
struct KeyType<InputMap> : PlainKeyType {
  static KeySchema schema(const RecipeKey& key) {
    return {{"type", "object"},
            {"additionalProperties", with_keywords({{"type", "string"}}, key.item_keywords())}};
  }
  static KeySchema json(const RecipeKey&, const InputMap&) { return KeySchema::object(); }
  static void read(const RecipeKey&, const KeyValue& at, InputMap& out) {
    for (const auto& [name, value] : at.value.items()) {
      if (value.is_string()) {
        out[name] = value.get<std::string>();
      }
    }
  }
};

// Reads the type of a component. The checks of components fill in the rest, except for a component
// without a type, whose kind stays "".
inline void read_use(const std::string& kind, const KeyValue& at, ComponentUse& out) {
  out.pointer = at.pointer;
  out.place = at.keys.place(at.pointer).text();
  const auto type = at.value.is_object() ? at.value.find("type") : at.value.end();
  if (type != at.value.end() && type->is_string()) {
    out.kind = kind;
    out.type = type->get<std::string>();
  }
}

inline void visit_use(ComponentUse& use, const ComponentFill& f) {
  if (!use.kind.empty()) {
    f(use);
  }
}

template <>
struct KeyType<ComponentUse> {
  static KeySchema schema(const RecipeKey& key) {
    SectionSchema made({.doc = "", .slot = key.kind(), .rules = nullptr});
    RecipeKey type("type");
    type.doc(kTypeDoc).required();
    made.add(type, {{"type", "string"}, {"minLength", 1}}, no_preset());
    RecipeKey options("options");
    options.doc(kOptionsDoc);
    made.add(options, {{"type", "object"}}, KeySchema::object());
    return made.take();
  }
  static KeySchema json(const RecipeKey&, const ComponentUse&) { return no_preset(); }
  static void read(const RecipeKey& key, const KeyValue& at, ComponentUse& out) {
    read_use(key.kind(), at, out);
  }
  static void visit(ComponentUse& use, const ComponentFill& f) { visit_use(use, f); }
};

template <class T>
struct KeyType<std::optional<T>> {
  static KeySchema schema(const RecipeKey& key) {
    KeySchema schema = KeyType<T>::schema(key);
    if (key.is_optional()) {
      make_nullable(schema);
    }
    return schema;
  }
  static KeySchema json(const RecipeKey& key, const std::optional<T>& value) {
    return value ? KeyType<T>::json(key, *value) : KeySchema(nullptr);
  }
  static void read(const RecipeKey& key, const KeyValue& at, std::optional<T>& out) {
    out.reset();
    if (!at.value.is_null()) {
      KeyType<T>::read(key, at, out.emplace());
    }
  }
  static void visit(std::optional<T>& value, const ComponentFill& f) {
    if (value) {
      KeyType<T>::visit(*value, f);
    }
  }
};

template <class T>
struct KeyType<std::vector<T>> {
  static KeySchema schema(const RecipeKey& key) {
    return list_schema(key, KeyType<T>::schema(key));
  }
  static KeySchema json(const RecipeKey& key, const std::vector<T>& values) {
    KeySchema list = KeySchema::array();
    for (const T& value : values) {
      list.push_back(KeyType<T>::json(key, value));
    }
    return list;
  }
  static void read(const RecipeKey& key, const KeyValue& at, std::vector<T>& out) {
    out.clear();
    if (!at.value.is_array()) {
      KeyType<T>::read(key, at, out.emplace_back());
    }
    for (std::size_t i = 0; at.value.is_array() && i < at.value.size(); ++i) {
      const std::string pointer = join_pointer(at.pointer, i);
      T& entry = out.emplace_back();
      at.keys.add(pointer, at.value[i]);
      if (!at.keys.has_problem(pointer)) {
        KeyType<T>::read(key, {at.value[i], pointer, at.keys}, entry);
      }
    }
  }
  static void visit(std::vector<T>& values, const ComponentFill& f) {
    for (T& value : values) {
      KeyType<T>::visit(value, f);
    }
  }
};

// Sizes such as "8GiB" and "1.5 GB", or numbers of bytes.
KeySchema size_schema();
std::int64_t bytes_of(const nlohmann::json& size);

// ---- types of members ----

// The type of a choice's values: the value type of an optional, or the type itself.
template <class T>
struct ChosenTypeOf {
  using type = T;
};
template <class T>
struct ChosenTypeOf<std::optional<T>> {
  using type = T;
};
template <class T>
using ChosenType = typename ChosenTypeOf<T>::type;

// The type of a list's entries, or the type itself.
template <class T>
struct EntryTypeOf {
  using type = T;
};
template <class T>
struct EntryTypeOf<std::vector<T>> {
  using type = T;
};
template <class T>
using EntryType = typename EntryTypeOf<T>::type;

template <class T>
inline constexpr bool is_list = !std::is_same_v<T, EntryType<T>>;

template <class T>
EntryType<T>& entry_to_fill(T& member) {
  if constexpr (is_list<T>) {
    return member.emplace_back();
  } else {
    return member;
  }
}

inline bool has_text(const nlohmann::json& list, const char* text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace tenon
