// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/metric_book.hpp"

#include "host/error/error.hpp"
#include "host/text/metric_name.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace tenon {
namespace {

constexpr uint32_t kStateVersion = 1;

}  // namespace

const double* MetricRecord::find(std::string_view name) const {
  const auto found =
      std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == name; });
  return found != values.end() ? &found->second : nullptr;
}

void check_plugin_metric(std::string_view name) {
  if (is_host_metric(name)) {
    throw Error("metrics.bad_name",
                "a plugin cannot add the metric '" + std::string(name) +
                    "', because the host has one of this name; choose another name");
  }
}

MetricBook::Metric& MetricBook::metric(std::string_view name) {
  const auto found = index_.find(std::string(name));
  if (found != index_.end()) {
    return metrics_[found->second];
  }
  if (!is_legal_metric_name(name)) {
    throw Error("metrics.bad_name",
                "a metric cannot be named '" + std::string(name.substr(0, 120)) +
                    "'; use 1 to 100 letters, digits, '_', '/', '.' and '-'");
  }
  index_.emplace(name, metrics_.size());
  metrics_.push_back({});
  metrics_.back().name = name;
  return metrics_.back();
}

void MetricBook::add(std::string_view name, double sum, double weight) {
  Metric& f = metric(name);
  f.is_used = true;
  f.is_value = false;
  f.sum += sum;
  f.weight += weight;
}

void MetricBook::add_tensor(std::string_view name,
                            const at::Tensor& sum,
                            const at::Tensor& weight) {
  Metric& f = metric(name);
  f.is_used = true;
  f.is_value = false;
  const auto add_to = [this](double& total, at::Tensor& pending, const at::Tensor& part) {
    if (part.is_cpu() && reading_ == Reading::kAtOnce) {
      total += part.item<double>();  // nothing to wait for
      return;
    }
    const at::Tensor value = part.detach().reshape({}).to(at::kDouble);
    pending = pending.defined() ? pending + value : value;
  };
  add_to(f.sum, f.tensor_sum, sum);
  add_to(f.weight, f.tensor_weight, weight);
}

void MetricBook::set(std::string_view name, double value, OfRanks of_ranks) {
  Metric& f = metric(name);
  f.is_used = true;
  f.is_value = true;
  f.of_ranks = of_ranks;
  f.tensor_sum.reset();
  f.tensor_weight.reset();
  f.sum = value;
}

std::optional<double> MetricBook::last(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found != index_.end() ? metrics_[found->second].last : std::nullopt;
}

// Copies all metrics from the device at once, and so waits only once.
void MetricBook::read_tensors() {
  std::vector<at::Tensor> tensors;
  std::vector<double*> totals;
  const auto take = [&](at::Tensor& pending, double& total) {
    if (pending.defined()) {
      tensors.push_back(std::move(pending));
      totals.push_back(&total);
      pending.reset();
    }
  };
  for (Metric& f : metrics_) {
    take(f.tensor_sum, f.sum);
    take(f.tensor_weight, f.weight);
  }
  if (tensors.empty()) {
    return;
  }
  // stack() requires one device, and some totals may be on the CPU.
  const auto on_device =
      std::ranges::find_if(tensors, [](const at::Tensor& t) { return !t.is_cpu(); });
  const at::Device device = on_device != tensors.end() ? on_device->device() : at::kCPU;
  for (at::Tensor& tensor : tensors) {
    tensor = tensor.to(device, tensor.scalar_type(), /*non_blocking=*/true);
  }
  const at::Tensor values = at::stack(tensors).to(at::kCPU);
  const double* const value = values.const_data_ptr<double>();
  for (size_t i = 0; i < totals.size(); ++i) {
    *totals[i] += value[i];
  }
}

double MetricBook::mean(std::string_view name) {
  read_tensors();
  const auto found = index_.find(std::string(name));
  if (found == index_.end()) {
    return 0;
  }
  const Metric& f = metrics_[found->second];
  return f.weight != 0 ? f.sum / f.weight : 0;
}

// Writes one line per metric: name; kind (0: sum, 1: value of the first rank, 2: largest value);
// sum and weight, bit-exact.
std::string MetricBook::to_text(std::string_view prefix) const {
  std::string text;
  for (const Metric& f : metrics_) {
    if (!f.is_used || !std::string_view(f.name).starts_with(prefix)) {
      continue;
    }
    const int kind = !f.is_value ? 0 : f.of_ranks == OfRanks::kFirst ? 1 : 2;
    char numbers[80];
    std::snprintf(numbers, sizeof(numbers), " %d %a %a\n", kind, f.sum, f.weight);
    text += f.name + numbers;
  }
  return text;
}

void MetricBook::take_text(const std::string& text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const size_t space = text.find(' ', begin);
    char* after = nullptr;
    const long kind = std::strtol(text.c_str() + space + 1, &after, 10);
    const double sum = std::strtod(after, &after);
    const double weight = std::strtod(after, &after);
    Metric& f = metric(std::string_view(text).substr(begin, space - begin));
    if (!f.is_used) {
      f.is_used = true;
      f.is_value = kind != 0;
      f.of_ranks = kind == 2 ? OfRanks::kLargest : OfRanks::kFirst;
      f.sum = sum;
      f.weight = weight;
    } else if (f.is_value) {
      f.sum = f.of_ranks == OfRanks::kLargest ? std::max(f.sum, sum) : f.sum;
    } else if (kind == 0) {
      f.sum += sum;
      f.weight += weight;
    }
    begin = end + 1;
  }
}

void MetricBook::share(Collective& collective, std::string_view prefix) {
  if (collective.world_size() == 1) {
    return;
  }
  read_tensors();
  const std::vector<std::string> all = collective.gather_texts(to_text(prefix), "figures");
  for (Metric& f : metrics_) {
    if (std::string_view(f.name).starts_with(prefix)) {
      f.is_used = false;
    }
  }
  for (const std::string& text : all) {
    take_text(text);
  }
}

MetricRecord MetricBook::close(uint64_t step, std::string_view prefix) {
  read_tensors();
  MetricRecord record;
  record.step = step;
  for (Metric& f : metrics_) {
    if (!f.is_used || !std::string_view(f.name).starts_with(prefix)) {
      continue;
    }
    double value = f.sum;
    bool is_known = true;
    if (!f.is_value) {
      is_known = f.weight != 0;
      value = is_known ? f.sum / f.weight : 0;
    }
    if (is_known) {
      f.last = value;
      record.values.emplace_back(f.name, value);
    }
    f.is_used = false;
    f.sum = 0;
    f.weight = 0;
  }
  return record;
}

// Writes one line per metric: name, is_used, is_value, of_ranks, sum, weight, whether it has a last
// recorded value, and that value. Numbers are bit-exact.
void MetricBook::snapshot(StateTree& tree, const std::string& prefix) const {
  tree.set_version(prefix, kStateVersion);
  std::string lines;
  for (size_t i = 0; i < metrics_.size(); ++i) {
    const Metric& f = metrics_[i];
    char numbers[128];
    std::snprintf(numbers,
                  sizeof(numbers),
                  " %d %d %d %a %a %d %a\n",
                  f.is_used ? 1 : 0,
                  f.is_value ? 1 : 0,
                  f.of_ranks == OfRanks::kFirst ? 0 : 1,
                  f.sum,
                  f.weight,
                  f.last.has_value() ? 1 : 0,
                  f.last.value_or(0));
    lines += f.name + numbers;
    const auto put = [&](const char* what, const at::Tensor& pending) {
      if (pending.defined()) {
        tree.put_tensor(state_path(prefix, what + std::to_string(i)),
                        pending,
                        StateTree::Copy::kNo,
                        TENON_STATE_PER_RANK);
      }
    };
    put("sums/", f.tensor_sum);
    put("weights/", f.tensor_weight);
  }
  tree.put_bytes(state_path(prefix, "figures"), lines, TENON_STATE_PER_RANK);
}

void MetricBook::load(const StateTree& tree, const std::string& prefix) {
  metrics_.clear();
  index_.clear();
  if (tree.find(state_path(prefix, "figures")) == nullptr) {
    return;  // the number of ranks changed
  }
  const std::string& lines = tree.get_bytes(state_path(prefix, "figures"));
  for (size_t begin = 0; begin < lines.size();) {
    const size_t space = lines.find(' ', begin);
    Metric& f = metric(std::string_view(lines).substr(begin, space - begin));
    char* at = nullptr;
    f.is_used = std::strtol(lines.c_str() + space, &at, 10) != 0;
    f.is_value = std::strtol(at, &at, 10) != 0;
    f.of_ranks = std::strtol(at, &at, 10) == 0 ? OfRanks::kFirst : OfRanks::kLargest;
    f.sum = std::strtod(at, &at);
    f.weight = std::strtod(at, &at);
    const bool has_last = std::strtol(at, &at, 10) != 0;
    const double last = std::strtod(at, &at);
    f.last = has_last ? std::optional(last) : std::nullopt;
    const auto get = [&](const char* what) {
      const std::string name = state_path(prefix, what + std::to_string(metrics_.size() - 1));
      return tree.find(name) != nullptr ? tree.get_tensor(name) : at::Tensor();
    };
    f.tensor_sum = get("sums/");
    f.tensor_weight = get("weights/");
    begin = lines.find('\n', begin) + 1;
  }
}

}  // namespace tenon
