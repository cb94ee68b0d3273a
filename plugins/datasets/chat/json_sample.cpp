// SPDX-License-Identifier: Apache-2.0
#include "json_sample.hpp"

#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/options.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace tenon {

void fail_sample(const char* id, const std::string& message) {
  throw Error(TENON_INVALID, id, message);
}

namespace {

// Returns the number of bytes of the character at text[0]; 0 if it is invalid.
//
// Source   Unicode Standard 15.0, table 3-7
size_t utf8_size(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto is_tail = [&](size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return i < text.size() && at(i) >= low && at(i) <= high;
  };
  const unsigned char lead = at(0);
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xc2 && lead <= 0xdf) {
    return is_tail(1) ? 2 : 0;
  }
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool is_valid =
        is_tail(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf) && is_tail(2);
    return is_valid ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool is_valid = is_tail(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf) &&
                          is_tail(2) && is_tail(3);
    return is_valid ? 4 : 0;
  }
  return 0;
}

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
      place(Json(std::forward<Value>(value)));
    }
    return true;
  }
  // Puts a value where it belongs; null if it is skipped.
  Json* place(Json value) {
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
    if (Json* const placed = place(std::move(empty))) {
      open_.push_back(placed);
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

size_t invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t size = utf8_size(text.substr(at));
    if (size == 0) {
      return at;
    }
    at += size;
  }
  return std::string_view::npos;
}

bool is_ignored(const IgnoredKeys& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

Json parse_sample(std::string_view text, const IgnoredKeys& ignored) {
  if (const size_t at = invalid_utf8(text); at != std::string_view::npos) {
    fail_sample("chat.not_utf8",
                concat("not UTF-8 at byte ", at + 1, " of the sample; convert the file to UTF-8"));
  }
  Json sample = parsed(text, ignored);
  if (!sample.is_object()) {
    fail_sample("chat.not_json",
                concat("the sample is ",
                       sample.is_array() ? "a list" : sample.type_name(),
                       ", expected a JSON object"));
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
