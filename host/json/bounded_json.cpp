// SPDX-License-Identifier: Apache-2.0
#include "host/json/bounded_json.hpp"

#include "host/json/json_builder.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <limits>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxQuoted = 100;  // bytes of a text in a message

[[noreturn]] void refuse_depth() {
  throw BadJson(formatted("it is nested more than {} levels deep", kMaxFileJsonDepth));
}

// A value for messages, without the contents of lists and objects.
std::string shown_value(const json& value) {
  return value.is_structured() ? value.type_name() : quoted_start(value.dump());
}

[[noreturn]] void refuse_syntax(std::size_t position) {
  // The parser's own message quotes the text that it read, which may be the whole file.
  throw BadJson(formatted("it is not valid JSON at byte {}", position));
}

// Builds the value.
class BoundedBuilder final : public JsonBuilder {
 public:
  json take() && { return std::move(root_); }

  bool key(string_t& name) override {
    if (open_.back()->contains(name)) {
      throw BadJson("it has the key " + quoted_start(name) + " twice in one object");
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    refuse_syntax(position);
  }

 private:
  json* put(json value) override {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[std::move(key_)] = std::move(value));
  }

  bool open(json container) override {
    if (open_.size() == kMaxFileJsonDepth) {
      refuse_depth();
    }
    open_.push_back(put(std::move(container)));
    return true;
  }

  bool close() override {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<json*> open_;  // stable: nothing is added to a parent while its child is open
  std::string key_;
};

// Checks the form, and builds nothing.
class FormCheck final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return depth_ > 0; }
  bool boolean(bool) override { return depth_ > 0; }
  bool number_integer(number_integer_t) override { return depth_ > 0; }
  bool number_unsigned(number_unsigned_t) override { return depth_ > 0; }
  bool number_float(number_float_t, const string_t&) override { return depth_ > 0; }
  bool string(string_t&) override { return depth_ > 0; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return ++depth_ <= kMaxFileJsonDepth; }
  bool start_array(std::size_t) override { return depth_ > 0 && ++depth_ <= kMaxFileJsonDepth; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  bool close() {
    --depth_;
    return true;
  }

  std::size_t depth_ = 0;
};

}  // namespace

json parse_bounded_json(std::string_view text) {
  BoundedBuilder builder;
  json::sax_parse(text.begin(), text.end(), &builder);
  return std::move(builder).take();
}

bool is_json_object(std::string_view text) noexcept {
  try {
    FormCheck check;
    return json::sax_parse(text.begin(), text.end(), &check);
  } catch (const std::exception&) {  // out of memory
    return false;
  }
}

std::uint64_t unsigned_of(const json& value) {
  if (!value.is_number_unsigned()) {
    throw BadJson(shown_value(value) + " is not a whole number of 0 to 2^64 - 1");
  }
  return value.get<std::uint64_t>();
}

std::int64_t integer_of(const json& value) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<std::uint64_t>() > kMost)) {
    throw BadJson(shown_value(value) + " is not a whole number of 64 bits");
  }
  return value.get<std::int64_t>();
}

std::string quoted_start(std::string_view text) {
  if (text.size() <= kMaxQuoted) {
    return "'" + std::string(text) + "'";
  }
  return formatted("'{}...' ({} bytes)", text.substr(0, kMaxQuoted), text.size());
}

}  // namespace tenon
