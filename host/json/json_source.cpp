// SPDX-License-Identifier: Apache-2.0

#include "host/json/json_source.hpp"

#include "host/error/error.hpp"
#include "host/io/regular_file.hpp"
#include "host/json/json_builder.hpp"
#include "host/json/json_path.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

// A forward iterator that counts the characters that the parser has read. The parser reads one
// character at a time, and at most one ahead.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator() = default;
  CountingIterator(const char* at, std::size_t* num_read) : at_(at), num_read_(num_read) {}

  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*num_read_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_ = nullptr;
  std::size_t* num_read_ = nullptr;
};

class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') {
        starts_.push_back(i + 1);
      }
    }
  }

  int line_of(std::size_t offset) const {
    return static_cast<int>(std::ranges::upper_bound(starts_, offset) - starts_.begin());
  }

  int column_of(std::size_t offset) const {
    return static_cast<int>(offset - start_of(offset)) + 1;
  }

  // Returns the line of `offset` with a mark below the position, truncated to fit a terminal.
  std::string excerpt(std::size_t offset) const {
    constexpr std::size_t kAround = 40;
    const std::size_t start = start_of(offset);
    const std::size_t end = std::min(text_.find('\n', start), text_.size());
    const std::size_t from = offset > start + kAround ? offset - kAround : start;
    const std::size_t to = std::min(end, offset + kAround);
    std::string shown;
    for (const char c : text_.substr(from, to - from)) {
      const auto byte = static_cast<unsigned char>(c);
      shown += c == '\t' ? ' ' : byte < 0x20 || byte >= 0x7f ? '?' : c;
    }
    const std::string margin = formatted("    {} | ", line_of(offset));
    return margin + shown + "\n" + std::string(margin.size() - 2, ' ') + "| " +
           std::string(offset - from, ' ') + "^";
  }

 private:
  std::size_t start_of(std::size_t offset) const {
    return starts_[static_cast<std::size_t>(line_of(offset)) - 1];
  }

  std::string_view text_;
  std::vector<std::size_t> starts_ = {0};
};

// Returns the position of the comma, if the closing bracket at `offset` follows one. Comments and
// whitespace may be between them.
std::optional<std::size_t> comma_before(std::string_view text, std::size_t offset) {
  if (offset >= text.size() || (text[offset] != '}' && text[offset] != ']')) {
    return std::nullopt;
  }
  std::optional<std::size_t> last;  // last character outside whitespace and comments
  std::size_t i = 0;
  while (i < offset) {
    if (text[i] == '"') {
      last = i++;
      while (i < offset && text[i] != '"') {
        i += text[i] == '\\' ? 2 : 1;
      }
      ++i;
    } else if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      i = std::min(text.find("*/", i + 2), text.size()) + 2;
    } else {
      if (std::strchr(" \t\r\n", text[i]) == nullptr) {
        last = i;
      }
      ++i;
    }
  }
  return last && text[*last] == ',' ? last : std::nullopt;
}

// Returns the useful part of the parser's message: "while parsing object - unexpected ...".
std::string cleaned(std::string message) {
  constexpr std::string_view kStart = "syntax error ";
  const std::size_t start = message.find(kStart);
  if (start != std::string::npos) {
    message.erase(0, start + kStart.size());
  } else {  // "[json.exception.out_of_range.406] number overflow parsing '1e999'"
    message.erase(0, message.find("] ") == std::string::npos ? 0 : message.find("] ") + 2);
  }
  // The "last read" part can contain the whole file; the excerpt shows the position instead.
  const std::size_t read = message.find("; last read: '");
  if (read != std::string::npos) {
    const std::size_t expected = message.rfind("'; expected ");
    message.erase(read, expected == std::string::npos ? expected : expected + 1 - read);
  }
  if (message.starts_with("- ")) {
    message.erase(0, 2);
  }
  for (const std::string_view bracket : {"'}'", "']'"}) {
    const std::string end = "; expected " + std::string(bracket);
    if (message.ends_with(end)) {
      message.replace(
          message.size() - end.size(), end.size(), "; expected ',' or " + std::string(bracket));
    }
  }
  return message;
}

// "model:" or "steps: 3", as a line of YAML begins.
bool is_line_of_yaml(std::string_view line) {
  if (line.starts_with("---") || line.starts_with("%YAML")) {
    return true;
  }
  const std::size_t end =
      line.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
  return end != 0 && end != std::string_view::npos && line[end] == ':' &&
         (end + 1 == line.size() || line[end + 1] == ' ' || line[end + 1] == '\r');
}

// "[model]", which ends its line.
bool is_section_of_toml(std::string_view line) {
  const std::size_t end = line.find_last_not_of(" \t\r");
  const bool has_brackets =
      line.starts_with('[') && end != std::string_view::npos && end > 1 && line[end] == ']';
  constexpr std::string_view kOfName =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.[]";
  return has_brackets &&
         std::isalpha(static_cast<unsigned char>(line[line.find_first_not_of('[')])) &&
         line.substr(0, end).find_first_not_of(kOfName) == std::string_view::npos;
}

// Returns the first line that is neither empty nor a comment of YAML and TOML.
std::string_view first_line(std::string_view text) {
  while (!text.empty() && (text[0] == '#' || text[0] == '\n' || text[0] == '\r')) {
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  return text.substr(0, text.find('\n'));
}

// Recognizes texts that are no JSON as a whole, or that a word processor changed. Returns what they
// are and what to do; "" if nothing is known. `at` is the place of the first error.
std::string other_kind(std::string_view text, std::size_t at) {
  const auto begins = [text](std::string_view bytes) { return text.starts_with(bytes); };
  using namespace std::string_view_literals;
  if (begins("\xff\xfe") || begins("\xfe\xff") || begins("{\0"sv) || begins("\0{"sv)) {
    return "the file is UTF-16; save it as UTF-8";
  }
  if (begins("\x1f\x8b") || begins("PK\3\4") || begins("\x28\xb5\x2f\xfd")) {
    return "the file is compressed; unpack it";
  }
  if (begins("PAR1") || begins("\x89HDF") || begins("\x7f\x45LF")) {
    return "the file is binary; name the recipe";
  }
  constexpr std::string_view kQuotes[] = {"\xe2\x80\x9c",
                                          "\xe2\x80\x9d",
                                          "\xe2\x80\x9e",
                                          "\xe2\x80\x98",
                                          "\xe2\x80\x99",
                                          "\xc2\xab",
                                          "\xc2\xbb"};
  // The parser may be within the character.
  for (std::size_t from = at < 2 ? 0 : at - 2; from <= at && from < text.size(); ++from) {
    for (const std::string_view quote : kQuotes) {
      if (text.substr(from).starts_with(quote)) {
        return "typographic quotes; write the plain quote \"";
      }
    }
    for (const std::string_view space : {"\xc2\xa0", "\xe2\x80\x8b", "\xe3\x80\x80"}) {
      if (text.substr(from).starts_with(space)) {
        return "an invisible character that is no space of JSON; write a plain space";
      }
    }
  }
  // The parser fails within the first word of a file that is no JSON at all.
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  const bool is_other = first != std::string_view::npos && at >= first && text[first] != '{' &&
                        text[first] != '[' &&
                        text.substr(first, at - first).find('\n') == std::string_view::npos;
  const std::string_view whole = is_other ? text.substr(first) : std::string_view();
  if (is_line_of_yaml(first_line(whole))) {
    return "the file is YAML; write the recipe as JSON";
  }
  if (first != std::string_view::npos && is_section_of_toml(first_line(text.substr(first)))) {
    return "the file is TOML; write the recipe as JSON";
  }
  if (at < text.size() && text[at] == '#') {
    return "a comment begins with //, or is between /* and */";
  }
  if (at < text.size() && text[at] == '\'') {
    return "strings have double quotes in JSON";
  }
  if (whole.substr(0, whole.find('\n')).find(" = ") != std::string_view::npos) {
    return "the file is TOML or of another language; write the recipe as JSON";
  }
  return whole.starts_with("<") ? "the file is XML or HTML; write the recipe as JSON" : "";
}

// Builds the value and records places. It may throw through the parser, which has no state to clean
// up.
class Builder final : public JsonBuilder {
 public:
  Builder(std::string_view text, const std::string& file, const std::size_t& num_read)
      : text_(text), lines_(text), file_(file), num_read_(num_read) {}

  json take() && { return std::move(root_); }
  const PlaceMap& places() const { return places_; }

  bool key(string_t& name) override {
    const std::string pointer = join_pointer(open_.back().pointer, name);
    const int line = lines_.line_of(offset());
    if (open_.back().value->contains(name)) {
      fail("recipe.duplicate_key",
           offset(),
           formatted("{} stands twice, first in line {}; remove one of them",
                     pointer,
                     places_.at(pointer).number));
    }
    key_ = name;
    key_line_ = line;
    return true;
  }

  bool parse_error(std::size_t position,
                   const std::string&,
                   const json::exception& failure) override {
    // The parser also counts the end of the text as a character.
    const std::size_t at = std::min(position == 0 ? 0 : position - 1, text_.size());
    if (const auto comma = comma_before(text_, at)) {
      fail("recipe.syntax",
           *comma,
           std::string("trailing comma: JSON has no comma before '") + text_[at] + "'; remove it");
    }
    if (const std::string kind = other_kind(text_, at); !kind.empty()) {
      fail("recipe.syntax", at, "not JSON: " + kind);
    }
    fail("recipe.syntax",
         at,
         "not JSON: " + (text_.empty() ? "it is empty" : cleaned(failure.what())));
  }

 private:
  struct Open {
    json* value;  // stable: nothing is added to its parent while it is open
    std::string pointer;
  };

  std::size_t offset() const { return num_read_ == 0 ? 0 : num_read_ - 1; }

  [[noreturn]] void fail(const char* id, std::size_t offset, const std::string& message) const {
    throw Error(id,
                formatted("{}:{}:{}: {}\n{}",
                          file_,
                          lines_.line_of(offset),
                          lines_.column_of(offset),
                          message,
                          lines_.excerpt(offset)));
  }

  json* put(json value) override {
    if (++num_values_ > kMaxJsonValues) {
      fail("recipe.too_many_values",
           offset(),
           formatted("more than {} values in one recipe; name data files by a pattern",
                     kMaxJsonValues));
    }
    int line = lines_.line_of(offset());
    json* added = nullptr;
    if (open_.empty()) {
      pointer_.clear();
      root_ = std::move(value);
      added = &root_;
    } else if (open_.back().value->is_array()) {
      json& list = *open_.back().value;
      pointer_ = join_pointer(open_.back().pointer, list.size());
      list.push_back(std::move(value));
      added = &list.back();
    } else {
      line = key_line_;
      pointer_ = join_pointer(open_.back().pointer, key_);
      added = &((*open_.back().value)[key_] = std::move(value));
    }
    places_.set_shallow(pointer_,
                        Place{.origin = PlaceOrigin::kFile, .file = file_, .number = line});
    return added;
  }

  bool open(json container) override {
    if (open_.size() == kMaxJsonDepth) {
      fail(
          "recipe.too_deep", offset(), formatted("nested more than {} levels deep", kMaxJsonDepth));
    }
    json* const added = put(std::move(container));
    open_.push_back({added, pointer_});
    return true;
  }

  bool close() override {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  Lines lines_;
  const std::string& file_;
  const std::size_t& num_read_;
  json root_;
  PlaceMap places_;
  std::vector<Open> open_;
  std::string pointer_;  // of the last added value
  std::string key_;
  int key_line_ = 0;
  std::size_t num_values_ = 0;
};

}  // namespace

json parse_json(std::string_view text, const std::string& file, PlaceMap& places) {
  std::size_t num_read = 0;
  Builder builder(text, file, num_read);
  json::sax_parse(CountingIterator(text.data(), &num_read),
                  CountingIterator(text.data() + text.size(), &num_read),
                  &builder,
                  nlohmann::detail::input_format_t::json,
                  /*strict=*/true,
                  /*ignore_comments=*/true);
  places = builder.places();
  return std::move(builder).take();
}

json parse_json(std::string_view text, const std::string& name) {
  PlaceMap places;
  return parse_json(text, name, places);
}

std::string read_recipe_text(const std::string& path) {
  const auto unreadable = [&path](const std::string& why) {
    return Error("recipe.unreadable", "cannot read the recipe " + path + ": " + why);
  };
  FileText file = read_file_text(path, kMaxFileBytes);
  if (file.is_too_large) {
    throw unreadable("it is larger than 64 MiB");
  }
  if (!file.problem.empty()) {
    throw unreadable(file.problem);
  }
  return std::move(file.text);
}

}  // namespace tenon
