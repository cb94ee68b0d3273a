// SPDX-License-Identifier: Apache-2.0
#include "json_node.hpp"

#include <algorithm>
#include <cmath>

#include "utf8.hpp"

namespace tenon {
namespace {

std::string escaped(const std::string& key) {
  std::string out;
  for (const char c : key) {
    out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return out;
}

// Bounds the memory: a value takes up to 100 times the bytes of its text. The largest files have
// about 3 million values. Keys and the ends of arrays and objects count as values. Scans the text
// before it is parsed, because a callback of the parser takes quadratic time for arrays of objects.
void check_extent(const std::string& text, const std::string& file, const char* id) {
  constexpr size_t kMostValues = 20'000'000;
  constexpr int64_t kMostDepth = 512;
  size_t num_values = 1;
  int64_t depth = 0;
  bool is_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      is_text = !is_text;
    } else if (is_text) {
      i += c == '\\' ? 1 : 0;
    } else if (c == '[' || c == '{') {
      ++num_values;
      ++depth;
    } else if (c == ']' || c == '}') {
      ++num_values;
      --depth;
    } else if (c == ',' || c == ':') {
      ++num_values;
    }
    if (num_values > kMostValues || depth > kMostDepth) {
      TENON_FAIL(TENON_INVALID,
                 id,
                 file,
                 depth > kMostDepth ? " is nested too deeply (expected at most "
                                    : " has too many values (expected at most ",
                 depth > kMostDepth ? static_cast<size_t>(kMostDepth) : kMostValues,
                 ")");
    }
  }
}

}  // namespace

JsonNode JsonNode::member(const std::string& key, const nlohmann::json& value) const {
  return {value, file_, id_, pointer_ + "/" + escaped(key)};
}

std::optional<JsonNode> JsonNode::find(const char* key) const {
  object();
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) {
    return std::nullopt;
  }
  return member(key, *found);
}

JsonNode JsonNode::at(const char* key) const {
  std::optional<JsonNode> found = find(key);
  if (!found) {
    fail("has no \"", key, "\"");
  }
  return *found;
}

JsonNode JsonNode::at(size_t index) const {
  return {(*value_)[index], file_, id_, pointer_ + "/" + std::to_string(index)};
}

size_t JsonNode::array_size() const {
  if (!value_->is_array()) {
    fail("is ", kind(), " (expected an array)");
  }
  return value_->size();
}

const nlohmann::json& JsonNode::object() const {
  if (!value_->is_object()) {
    fail("is ", kind(), " (expected an object)");
  }
  return *value_;
}

std::string JsonNode::string() const {
  if (!value_->is_string()) {
    fail("is ", kind(), " (expected a string)");
  }
  return value_->get<std::string>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) {
    fail("is ", kind(), " (expected true or false)");
  }
  return value_->get<bool>();
}

int64_t JsonNode::integer(int64_t low, int64_t high) const {
  if (!value_->is_number_integer()) {
    fail("is ", kind(), " ", value_->dump(), " (expected an integer)");
  }
  const bool is_large = value_->is_number_unsigned() && value_->get<uint64_t>() > INT64_MAX;
  const int64_t value = is_large ? INT64_MAX : value_->get<int64_t>();
  if (value < low || value > high) {
    fail("is ", value_->dump(), " (expected ", low, " to ", high, ")");
  }
  return value;
}

double JsonNode::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>())) {
    fail("is ", kind(), " (expected a finite number)");
  }
  return value_->get<double>();
}

char32_t JsonNode::code_point() const {
  const std::string text = string();
  if (text.empty() || utf8_size(static_cast<unsigned char>(text[0])) != text.size()) {
    fail("is \"", text, "\" (expected one character)");
  }
  return utf8_read(text.data());
}

std::string JsonNode::string_or(const char* key, const std::string& otherwise) const {
  const std::optional<JsonNode> found = find(key);
  return found ? found->string() : otherwise;
}

bool JsonNode::boolean_or(const char* key, bool otherwise) const {
  const std::optional<JsonNode> found = find(key);
  return found ? found->boolean() : otherwise;
}

void JsonNode::allow_only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : object().items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      member(key, value).fail("is unknown; remove it, or use a version of Tenon that knows it");
    }
  }
}

nlohmann::json parse_json(const std::string& text, const std::string& file, const char* id) {
  if (text.rfind("version https://git-lfs", 0) == 0) {
    TENON_FAIL(TENON_INVALID,
               id,
               file,
               " is a pointer of Git LFS, not the file; fetch it by: git lfs pull");
  }
  check_extent(text, file, id);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    TENON_FAIL(TENON_INVALID, id, file, " is not JSON: ", e.what());
  }
}

std::optional<std::string> base64_bytes(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int num_bits = 0;
  while (!text.empty() && text.back() == '=') {
    text.remove_suffix(1);
  }
  for (const char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0) {
      return std::nullopt;
    }
    bits = bits << 6 | static_cast<uint32_t>(value);
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      out += static_cast<char>(bits >> num_bits & 0xFF);
    }
  }
  return out;
}

std::string not_supported(const std::string& name, std::initializer_list<std::string_view> known) {
  std::string out = "is \"" + name + "\", which is not supported (expected one of ";
  bool is_first = true;
  for (const std::string_view one : known) {
    out += (is_first ? "" : ", ") + std::string(one);
    is_first = false;
  }
  return out + ")";
}

}  // namespace tenon
