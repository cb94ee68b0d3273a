// SPDX-License-Identifier: Apache-2.0
#include "json_sample.hpp"

#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include "../../tokenizers/engine/utf8.hpp"

namespace tenon {

void fail_sample(const char* id, const std::string& message) {
  throw Error(TENON_INVALID, id, message);
}

namespace {

// Builds a value from what the parser of nlohmann::json finds. The parser itself does not recurse.
class ValueBuilder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  ValueBuilder(Json& root, const IgnoredKeys& ignored) : root_(root), ignored_(ignored) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(number_integer_t value) { return add(value); }
  bool number_unsigned(number_unsigned_t value) { return add(value); }
  bool number_float(number_float_t value, const string_t& text) {
    if (skipped_ == 0 && !is_skipping_ && text.find_first_of(".eE") == string_t::npos) {
      fail_sample("chat.not_json",
                  "the whole number " + text + " does not fit into 64 bits; write it as a string");
    }
    return add(value);
  }
  bool string(string_t& value) { return add(std::move(value)); }
  bool binary(binary_t&) { return false; }
  bool start_object(size_t) { return start(Json::object()); }
  bool start_array(size_t) { return start(Json::array()); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }
  bool key(string_t& name) {
    if (skipped_ == 0) {
      is_skipping_ = open_.size() == 1 && is_ignored(ignored_, name);
      key_ = std::move(name);
    }
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& error) {
    const std::string what = error.what();
    const size_t colon = what.find(": ");
    fail_sample("chat.not_json",
                concat("not valid JSON at byte ",
                       at,
                       " of the sample: ",
                       colon == std::string::npos ? what : what.substr(colon + 2)));
  }

 private:
  template <class Value>
  bool add(Value&& value) {
    if (skipped_ == 0) {
      insert(Json(std::forward<Value>(value)));
    }
    return true;
  }
  // Puts a value where it belongs; null if it is skipped.
  Json* insert(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (is_skipping_) {
      is_skipping_ = false;
      return nullptr;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    Json& member = parent[key_];
    member = std::move(value);
    return &member;
  }
  bool start(Json empty) {
    if (skipped_ > 0) {
      ++skipped_;
      return true;
    }
    if (open_.size() == kMaxJsonDepth) {
      fail_sample(
          "chat.not_json",
          concat("the JSON is nested more than ", kMaxJsonDepth, " deep, which is not supported"));
    }
    if (Json* const inserted = insert(std::move(empty))) {
      open_.push_back(inserted);
    } else {
      skipped_ = 1;
    }
    return true;
  }
  bool end() {
    if (skipped_ > 0) {
      --skipped_;
    } else {
      open_.pop_back();
    }
    return true;
  }

  Json& root_;
  const IgnoredKeys& ignored_;
  std::vector<Json*> open_;  // only the last one grows, so that the others stay where they are
  std::string key_;
  bool is_skipping_ = false;  // the next value is that of an ignored key
  size_t skipped_ = 0;        // open lists and objects of an ignored key
};

Json parsed(std::string_view text, const IgnoredKeys& ignored) {
  Json value;
  ValueBuilder builder(value, ignored);
  (void)Json::sax_parse(text.begin(), text.end(), &builder);
  return value;
}

}  // namespace

const char* type_words(const Json& value) {
  return value.is_null()      ? "null"
         : value.is_boolean() ? "a boolean"
         : value.is_number()  ? "a number"
         : value.is_string()  ? "a string"
         : value.is_array()   ? "a list"
                              : "an object";
}

bool is_ignored(const IgnoredKeys& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

Json parse_sample(std::string_view text, const IgnoredKeys& ignored) {
  if (const size_t at = invalid_utf8(text); at != kNoOffset) {
    fail_sample("chat.not_utf8",
                concat("not UTF-8 at byte ", at + 1, " of the sample; convert the file to UTF-8"));
  }
  Json sample = parsed(text, ignored);
  if (!sample.is_object()) {
    fail_sample("chat.not_json",
                concat("the sample is ", type_words(sample), ", expected a JSON object"));
  }
  return sample;
}

Json parse_inner(std::string_view text, const std::string& what) {
  try {
    return parsed(text, {});
  } catch (const Error& error) {
    throw Error(TENON_INVALID, "chat.bad_sample", what + ": " + error.what());
  }
}

}  // namespace tenon
