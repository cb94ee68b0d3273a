// SPDX-License-Identifier: Apache-2.0
#include "host/cli/quantity.hpp"

#include "host/terminal/usage_error.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

namespace tenon {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0;
constexpr std::array kByteUnits = {Unit{"B", 1},
                                   Unit{"kB", 1e3},
                                   Unit{"MB", 1e6},
                                   Unit{"GB", 1e9},
                                   Unit{"TB", 1e12},
                                   Unit{"KiB", kKi},
                                   Unit{"MiB", kKi* kKi},
                                   Unit{"GiB", kKi* kKi* kKi},
                                   Unit{"TiB", kKi* kKi* kKi* kKi}};

// Reads a number above 0 with an optional unit of `units`.
template <std::size_t N>
double quantity(std::string_view option,
                const std::string& text,
                const std::array<Unit, N>& units,
                const std::string& expected) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, number);
  double factor = failed == std::errc() && stop == end ? 1 : 0;
  for (const Unit& unit : units) {
    if (failed == std::errc() && std::string_view(stop, end) == unit.name) {
      factor = unit.factor;
    }
  }
  if (factor == 0 || !std::isfinite(number * factor) || number <= 0) {
    fail_value(option, text, expected);
  }
  return number * factor;
}

}  // namespace

double read_bytes(std::string_view option, const std::string& text) {
  return quantity(option,
                  text,
                  kByteUnits,
                  "a number of bytes above 0, plain or with one of the units B, kB, MB, GB, TB, "
                  "KiB, MiB, GiB and TiB, as in 80GiB or 50e9");
}

std::int64_t read_whole_bytes(std::string_view option,
                              const std::string& text,
                              std::string_view owner) {
  constexpr double kMost = 9e18;
  const double bytes = read_bytes(option, text);
  if (bytes >= kMost) {
    fail_usage("--" + std::string(option) + " is " + in_quotes(text) + "; no " +
               std::string(owner) + " has that many bytes");
  }
  return static_cast<std::int64_t>(bytes);
}

double read_flops(std::string_view option, const std::string& text) {
  return quantity(option,
                  text,
                  std::array{Unit{"G", 1e9}, Unit{"T", 1e12}, Unit{"P", 1e15}},
                  "operations per second above 0, as in 400e12 or 400T");
}

double read_seconds(std::string_view option, const std::string& text) {
  return quantity(option,
                  text,
                  std::array{Unit{"s", 1}, Unit{"ms", 1e-3}, Unit{"us", 1e-6}},
                  "a time above 0 in seconds, as in 5us or 5e-6");
}

}  // namespace tenon
