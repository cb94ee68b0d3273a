// SPDX-License-Identifier: Apache-2.0
//
// Builds messages from a pattern: formatted("step {} of {}", 3, 10) is "step 3 of 10".
// Not for numbers that need a width or a precision: use std::snprintf or a function of this folder.
// Why not a library: g++ 12 lacks std::format, and spdlog's fmt and libtorch's fmt cannot be seen
// by one file.
// Threads: any.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

namespace tenon {

// A pattern with one "{}" for each argument. The compiler rejects any other number; a brace that
// is not part of "{}" stands for itself.
template <class... Args>
class FormatPattern {
 public:
  // Implicit, so that a literal can be passed to formatted().
  template <std::convertible_to<std::string_view> Text>
  consteval FormatPattern(const Text& text)
      : text_(text) {  // NOLINT(google-explicit-constructor): see above
    std::size_t num_places = 0;
    for (std::size_t at = text_.find("{}"); at != std::string_view::npos;
         at = text_.find("{}", at + 2)) {
      ++num_places;
    }
    if (num_places != sizeof...(Args)) {
      throw "the pattern needs one {} for each argument";
    }
  }

  constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

// Appends one argument. Floating-point numbers get the fewest digits that read back as the same
// number.
template <class Value>
void append_text(std::string& out, const Value& value) {
  if constexpr (std::convertible_to<const Value&, std::string_view>) {
    out.append(std::string_view(value));
  } else if constexpr (std::same_as<Value, char>) {
    out.push_back(value);
  } else {
    static_assert(std::is_arithmetic_v<Value> && !std::same_as<Value, bool>,
                  "formatted() takes texts and numbers");
    char digits[32];
    const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value);
    out.append(digits, error == std::errc() ? end : digits);
  }
}

template <class... Args>
std::string formatted(FormatPattern<std::type_identity_t<Args>...> pattern, const Args&... args) {
  std::string out;
  std::string_view rest = pattern.text();
  [[maybe_unused]] const auto append_next = [&](const auto& value) {
    const std::size_t at = rest.find("{}");
    out.append(rest.substr(0, at));
    append_text(out, value);
    rest.remove_prefix(at + 2);
  };
  (append_next(args), ...);
  return out.append(rest);
}

}  // namespace tenon
