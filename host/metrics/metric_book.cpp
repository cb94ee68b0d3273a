// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/metric_book.hpp"

#include "host/error/error.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>

namespace tenon {

const double* MetricRecord::find(std::string_view name) const {
  const auto found =
      std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == name; });
  return found != values.end() ? &found->second : nullptr;
}

bool is_legal_metric_name(std::string_view name) {
  const auto is_legal = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '/' || c == '.' || c == '-';
  };
  return !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), is_legal);
}

MetricBook::Figure& MetricBook::figure(std::string_view name) {
  const auto found = index_.find(std::string(name));
  if (found != index_.end()) {
    return figures_[found->second];
  }
  if (!is_legal_metric_name(name)) {
    throw Error("metrics.bad_name",
                "a figure cannot be called '" + std::string(name.substr(0, 120)) +
                    "': use 1 to 100 of letters, digits, '_', '/', '.', '-'");
  }
  index_.emplace(name, figures_.size());
  figures_.push_back({});
  figures_.back().name = name;
  return figures_.back();
}

void MetricBook::add(std::string_view name, double sum, double weight) {
  Figure& f = figure(name);
  f.is_used = true;
  f.is_value = false;
  f.sum += sum;
  f.weight += weight;
}

void MetricBook::add_tensor(std::string_view name,
                            const at::Tensor& sum,
                            const at::Tensor& weight) {
  if (sum.is_cpu() && weight.is_cpu()) {
    add(name, sum.item<double>(), weight.item<double>());  // nothing to wait for
    return;
  }
  Figure& f = figure(name);
  f.is_used = true;
  f.is_value = false;
  const auto add_to = [](at::Tensor& total, const at::Tensor& part) {
    const at::Tensor value = part.detach().reshape({}).to(at::kDouble);
    total = total.defined() ? total + value : value;
  };
  add_to(f.tensor_sum, sum);
  add_to(f.tensor_weight, weight);
}

void MetricBook::set(std::string_view name, double value) {
  Figure& f = figure(name);
  f.is_used = true;
  f.is_value = true;
  f.sum = value;
}

std::optional<double> MetricBook::last(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found != index_.end() ? figures_[found->second].last : std::nullopt;
}

double MetricBook::Figure::total_sum() const {
  return sum + (tensor_sum.defined() ? tensor_sum.item<double>() : 0);
}

double MetricBook::Figure::total_weight() const {
  return weight + (tensor_weight.defined() ? tensor_weight.item<double>() : 0);
}

double MetricBook::mean(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  if (found == index_.end()) {
    return 0;
  }
  const double weight = figures_[found->second].total_weight();
  return weight != 0 ? figures_[found->second].total_sum() / weight : 0;
}

MetricRecord MetricBook::close(uint64_t step, std::string_view prefix) {
  MetricRecord record;
  record.step = step;
  for (Figure& f : figures_) {
    if (!f.is_used || !std::string_view(f.name).starts_with(prefix)) {
      continue;
    }
    double value = f.sum;
    bool is_known = true;
    if (!f.is_value) {
      const double weight = f.total_weight();
      is_known = weight != 0;
      value = is_known ? f.total_sum() / weight : 0;
    }
    if (is_known) {
      f.last = value;
      record.values.emplace_back(f.name, value);
    }
    f.is_used = false;
    f.sum = 0;
    f.weight = 0;
    f.tensor_sum.reset();
    f.tensor_weight.reset();
  }
  return record;
}

}  // namespace tenon
