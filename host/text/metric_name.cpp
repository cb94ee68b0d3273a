// SPDX-License-Identifier: Apache-2.0
#include "host/text/metric_name.hpp"

#include <algorithm>
#include <array>

namespace tenon {
namespace {

constexpr std::array<std::string_view, 9> kHostFolders = {
    "aux", "data", "eval", "hfu", "loss", "mfu", "next", "tables", "test"};
constexpr std::array<std::string_view, 11> kHostMetrics = {"data_wait_seconds",
                                                           "flops_per_second",
                                                           "grad_norm",
                                                           "loss",
                                                           "loss_scale",
                                                           "lr",
                                                           "non_finite_steps",
                                                           "roll_backs",
                                                           "samples_per_second",
                                                           "step_seconds",
                                                           "tokens_per_second"};

constexpr std::array<std::string_view, 2> kMeasuredFolders = {"hfu", "mfu"};
constexpr std::array<std::string_view, 8> kMeasuredMetrics = {"data_wait_seconds",
                                                              "flops_per_second",
                                                              "gpu/allocated_bytes",
                                                              "gpu/peak_bytes",
                                                              "gpu/reserved_bytes",
                                                              "samples_per_second",
                                                              "step_seconds",
                                                              "tokens_per_second"};

std::string_view folder_of(std::string_view name) {
  return name.substr(0, name.find('/'));
}

}  // namespace

bool is_legal_metric_name(std::string_view name) {
  return !name.empty() && name.size() <= 100 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '/' || c == '.' || c == '-';
  });
}

bool is_host_metric(std::string_view name) {
  return std::ranges::find(kHostFolders, folder_of(name)) != kHostFolders.end() ||
         std::ranges::find(kHostMetrics, name) != kHostMetrics.end();
}

bool is_measured_metric(std::string_view name) {
  return std::ranges::find(kMeasuredFolders, folder_of(name)) != kMeasuredFolders.end() ||
         std::ranges::find(kMeasuredMetrics, name) != kMeasuredMetrics.end();
}

}  // namespace tenon
