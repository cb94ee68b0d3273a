// SPDX-License-Identifier: Apache-2.0
//
// Concatenates values to one line of text, for messages and logs. It has no formatting of width or
// precision.
#ifndef TENON_CPP_TEXT_HPP
#define TENON_CPP_TEXT_HPP

#include <tenon/cpp/namespace.hpp>

#include <sstream>
#include <string>

TENON_NAMESPACE_BEGIN

/* Concatenates the parts as `operator<<` writes them.
 *
 * Threads  [any] */
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (void)(out << ... << parts);
  return out.str();
}

inline std::string concat(const char* text) {
  return text == nullptr ? std::string() : text;
}
inline std::string concat(const std::string& text) {
  return text;
}

TENON_NAMESPACE_END

#endif
