// SPDX-License-Identifier: Apache-2.0
//
// A value of a JSON file that knows its file and JSON pointer, so that each error names them.
// Threads: any, for reading.
#pragma once

#include <tenon/cpp/guard.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tenon {

class JsonNode {
 public:
  // `id` is the id of the errors, and lives on.
  JsonNode(const nlohmann::json& value, std::string file, const char* id, std::string pointer = "")
      : value_(&value), file_(std::move(file)), id_(id), pointer_(std::move(pointer)) {}

  const nlohmann::json& value() const { return *value_; }
  // "tokenizer.json: /model/type"
  std::string name() const { return file_ + ": " + (pointer_.empty() ? "/" : pointer_); }

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    TENON_FAIL(TENON_INVALID, id_, name(), " ", parts...);
  }

  // A member that must exist.
  JsonNode at(const char* key) const;
  // A member; nothing if it does not exist or is null.
  std::optional<JsonNode> find(const char* key) const;
  // An element of an array, or a member by its position.
  JsonNode at(size_t index) const;
  JsonNode member(const std::string& key, const nlohmann::json& value) const;

  size_t array_size() const;  // fails if it is no array
  const nlohmann::json& object() const;
  std::string string() const;
  bool boolean() const;
  int64_t integer(int64_t low, int64_t high) const;
  double number() const;
  char32_t code_point() const;  // of a string with one

  std::string string_or(const char* key, const std::string& otherwise) const;
  bool boolean_or(const char* key, bool otherwise) const;

  // Fails if there is a member with another name.
  void allow_only(std::initializer_list<std::string_view> keys) const;

 private:
  const char* kind() const { return value_->type_name(); }

  const nlohmann::json* value_;
  std::string file_;
  const char* id_;
  std::string pointer_;
};

// Parses a file's text. `id` is the id of the error.
nlohmann::json parse_json(const std::string& text, const std::string& file, const char* id);

// Bytes of a base64 text; nothing if it is none.
std::optional<std::string> base64_bytes(std::string_view text);

// A name that is not in a list: `"Foo", which is not supported (expected one of a, b)`.
std::string not_supported(const std::string& name, std::initializer_list<std::string_view> known);

}  // namespace tenon
