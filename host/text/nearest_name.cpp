// SPDX-License-Identifier: Apache-2.0

#include "host/text/nearest_name.hpp"

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

constexpr std::size_t kMaxNames = 3;

// Longer names are not compared: they are not typing errors, and the cost of edit_distance is the
// product of both lengths.
constexpr std::size_t kMaxLength = 100;

std::string folded(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    } else if (c == '-') {
      c = '_';
    }
  }
  return result;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table are enough: a swap looks two rows back.
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::vector<std::string> nearest_names(std::string_view written,
                                       std::span<const std::string> names) {
  if (written.empty() || written.size() > kMaxLength) {
    return {};
  }
  const std::string wanted = folded(written);
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& name : names) {
    if (name.size() > kMaxLength) {
      continue;
    }
    const std::string candidate = folded(name);
    const std::size_t distance = edit_distance(wanted, candidate);
    const std::size_t limit = std::max<std::size_t>(1, std::max(wanted.size(), name.size()) / 3);
    const bool is_prefix = wanted.size() >= 3 && candidate.starts_with(wanted);
    // If the distance could equal the length, every one-letter name would match every other.
    if (is_prefix || (distance <= limit && distance < std::max(wanted.size(), name.size()))) {
      near.emplace_back(is_prefix ? std::min(distance, limit) : distance, name);
    }
  }
  std::ranges::stable_sort(near, {}, &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> result;
  for (const auto& [distance, name] : near) {
    // Distant names are no help beside a very close one.
    if (result.size() < kMaxNames && distance <= near.front().first + 1) {
      result.push_back(name);
    }
  }
  return result;
}

std::string did_you_mean(std::string_view written, std::span<const std::string> names) {
  const std::vector<std::string> near = nearest_names(written, names);
  if (near.empty()) {
    return {};
  }
  std::string text = "did you mean ";
  for (std::size_t i = 0; i < near.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == near.size() ? " or " : ", ") + ("\"" + near[i] + "\"");
  }
  return text + "?";
}

}  // namespace tenon
