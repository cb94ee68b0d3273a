// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/metric_book.hpp"

#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"
#include "host/text/formatted.hpp"
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

// A line of a state, or of a message of another rank: "NAME NUMBER NUMBER ...".
struct MetricLine {
  std::string name;
  std::vector<double> numbers;
};

// Reads the line at `begin`, which must have `count` numbers, and moves `begin` behind it.
// Errors  `error_id`
MetricLine take_line(const std::string& text, size_t& begin, size_t count, const char* error_id) {
  const size_t end = std::min(text.find('\n', begin), text.size());
  const std::string whole = text.substr(begin, end - begin);
  const size_t space = std::min(whole.find(' '), whole.size());
  MetricLine line{whole.substr(0, space), {}};
  const char* at = whole.c_str() + space;
  while (*at == ' ') {
    char* after = nullptr;
    line.numbers.push_back(std::strtod(at, &after));
    if (after == at) {
      break;
    }
    at = after;
  }
  if (end == text.size() || at != whole.c_str() + whole.size() || line.numbers.size() != count ||
      !is_legal_metric_name(line.name)) {
    throw Error(error_id,
                formatted("metrics since the last record: '{}' is no line of a name and {} numbers",
                          printable_line(whole.substr(0, 120)),
                          count));
  }
  begin = end + 1;
  return line;
}

}  // namespace

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
    const MetricLine line = take_line(text, begin, 3, "distributed.failed");
    const double kind = line.numbers[0];
    const double sum = line.numbers[1];
    const double weight = line.numbers[2];
    Metric& f = metric(line.name);
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
  }
}

void MetricBook::share(Group& ranks, std::string_view prefix) {
  if (ranks.size() == 1) {
    return;
  }
  read_tensors();
  const std::vector<std::string> all = ranks.gather_texts(to_text(prefix), "metrics");
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
// recorded value, and that value. Numbers are bit-exact. Equal runs write equal lines.
void MetricBook::snapshot(StateTree& tree, const std::string& prefix) const {
  tree.set_version(prefix, kStateVersion);
  std::string lines;
  for (size_t i = 0; i < metrics_.size(); ++i) {
    // Measured metrics keep their place in records, but not their values.
    Metric f = metrics_[i];
    if (is_measured_metric(f.name)) {
      f = Metric();
      f.name = metrics_[i].name;
      f.is_value = true;
    }
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
    const MetricLine line = take_line(lines, begin, 7, "state.bad_value");
    if (index_.contains(line.name)) {
      throw Error("state.bad_value",
                  "metrics since the last record: '" + line.name + "' is there twice");
    }
    const std::vector<double>& numbers = line.numbers;
    Metric& f = metric(line.name);
    f.is_used = numbers[0] != 0;
    f.is_value = numbers[1] != 0;
    f.of_ranks = numbers[2] == 0 ? OfRanks::kFirst : OfRanks::kLargest;
    f.sum = numbers[3];
    f.weight = numbers[4];
    f.last = numbers[5] != 0 ? std::optional(numbers[6]) : std::nullopt;
    const auto get = [&](const char* what) {
      const std::string name = state_path(prefix, what + std::to_string(metrics_.size() - 1));
      return tree.find(name) != nullptr ? tree.get_tensor(name) : at::Tensor();
    };
    f.tensor_sum = get("sums/");
    f.tensor_weight = get("weights/");
  }
}

}  // namespace tenon
