// SPDX-License-Identifier: Apache-2.0
#include "host/error/credentials.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace tenon {
namespace {

constexpr std::string_view kHidden = "***";

// Ends of a URI in prose, in quotes and in JSON.
constexpr std::string_view kEnds = " \t\r\n\"'`<>\\";

constexpr std::array<std::string_view, 6> kSecretNames = {
    "key", "secret", "token", "password", "credential", "signature"};

bool is_secret_name(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(
      lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(kSecretNames, [&lower](std::string_view word) {
    return lower.find(word) != std::string::npos;
  });
}

// "region=eu&secret_key=***".
std::string without_secret_values(std::string_view query) {
  std::string result;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find_first_of("&;"), query.size());
    const std::string_view part = query.substr(0, end);
    const std::size_t equals = part.find('=');
    if (equals != std::string_view::npos && is_secret_name(part.substr(0, equals))) {
      result.append(part.substr(0, equals + 1)).append(kHidden);
    } else {
      result += part;
    }
    result += query.substr(end, 1);
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return result;
}

// `uri` starts behind "://".
std::string without_credentials(std::string_view uri) {
  std::string result;
  const std::string_view authority = uri.substr(0, uri.find_first_of("/?#"));
  const std::size_t at = uri.rfind('@');
  if (at != std::string_view::npos && authority.find_first_of(":@") != std::string_view::npos) {
    result.append(kHidden).append("@");
    uri.remove_prefix(at + 1);
  }
  const std::size_t query = std::min(uri.find('?'), uri.size());
  result += uri.substr(0, query);
  if (query < uri.size()) {
    result += "?" + without_secret_values(uri.substr(query + 1));
  }
  return result;
}

}  // namespace

std::string hide_credentials(std::string_view text) {
  constexpr std::string_view kStart = "://";
  std::string result;
  for (std::size_t at = text.find(kStart); at != std::string_view::npos; at = text.find(kStart)) {
    result += text.substr(0, at + kStart.size());
    text.remove_prefix(at + kStart.size());
    const std::string_view uri = text.substr(0, text.find_first_of(kEnds));
    // A list of URIs without spaces: the next one starts at its own scheme.
    result += without_credentials(uri.substr(0, uri.find(kStart)));
    text.remove_prefix(std::min(uri.find(kStart), uri.size()));
  }
  return result.append(text);
}

}  // namespace tenon
