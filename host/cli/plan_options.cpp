// SPDX-License-Identifier: Apache-2.0

#include "host/cli/plan_options.hpp"

#include "host/error/error.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

namespace tenon {
namespace {

[[noreturn]] void refuse(std::string_view option, const std::string& text, const std::string& why) {
  throw Error("usage.bad_option", "--" + std::string(option) + " is \"" + text + "\"; " + why);
}

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

// A number above 0, with a unit of `units` or without one.
template <std::size_t N>
double quantity(std::string_view option,
                const std::string& text,
                const std::array<Unit, N>& units,
                const std::string& takes) {
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
    refuse(option, text, "it is " + takes);
  }
  return number * factor;
}

std::int64_t whole(std::string_view option,
                   const std::string& text,
                   std::int64_t most,
                   const std::string& takes) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc() || stop != end || number < 1 || number > most) {
    refuse(option, text, "it is " + takes);
  }
  return number;
}

}  // namespace

double read_bytes(std::string_view option, const std::string& text) {
  return quantity(option, text, kByteUnits, "a number of bytes above 0, as in 80GiB or 50e9");
}

PlanRequest read_plan_request(const PlanWords& words) {
  PlanRequest request;
  request.ranks = whole("plan",
                        words.ranks,
                        kMostPlannedRanks,
                        "a number of ranks from 1 to " + std::to_string(kMostPlannedRanks));
  if (!words.ranks_per_node.empty()) {
    request.ranks_per_node =
        whole("ranks-per-node",
              words.ranks_per_node,
              kMostPlannedRanks,
              "a number of ranks from 1 to " + std::to_string(kMostPlannedRanks));
  }
  if (!words.flops.empty()) {
    request.flops = quantity("flops",
                             words.flops,
                             std::array{Unit{"G", 1e9}, Unit{"T", 1e12}, Unit{"P", 1e15}},
                             "a number of operations a second above 0, as in 400e12 or 400T");
  }
  if (!words.memory.empty()) {
    const double size = read_bytes("memory", words.memory);
    if (size >= 9e18) {
      refuse("memory", words.memory, "no machine has that many bytes");
    }
    request.memory = static_cast<std::int64_t>(size);
  }
  const std::array bandwidths = {
      std::pair("bandwidth-node", std::pair(&words.bandwidth_node, &request.bandwidth_node)),
      std::pair("bandwidth-network",
                std::pair(&words.bandwidth_network, &request.bandwidth_network)),
      std::pair("bandwidth-host", std::pair(&words.bandwidth_host, &request.bandwidth_host))};
  for (const auto& [option, places] : bandwidths) {
    if (!places.first->empty()) {
      *places.second = read_bytes(option, *places.first);
    }
  }
  if (!words.latency.empty()) {
    request.latency = quantity("latency",
                               words.latency,
                               std::array{Unit{"s", 1}, Unit{"ms", 1e-3}, Unit{"us", 1e-6}},
                               "a time above 0 in seconds, as in 5us or 5e-6");
  }
  return request;
}

}  // namespace tenon
