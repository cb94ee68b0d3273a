// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/metrics_service.hpp"

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/tensor/handle.hpp"

#include <utility>

namespace tenon {
namespace {

MetricBook* book_in_use = nullptr;

std::string& prefix_in_use() {
  static std::string prefix;
  return prefix;
}

// Discards metrics outside of a run, since that is no error of the plugin.
template <class Body>
tenon_status* with_book(const tenon_host* host, const void* a, const void* b, Body body) {
  return guard(host, [&] {
    if (a == nullptr || b == nullptr) {
      throw Error("metrics.bad_name", "add_metric: name or value is null");
    }
    if (book_in_use != nullptr) {
      body(*book_in_use);
    }
  });
}

// Returns the whole name of a plugin's metric.
std::string checked(const char* name) {
  check_plugin_metric(name);
  return prefix_in_use() + name;
}

tenon_status* add(const tenon_host* host, const char* name, double sum, double weight) {
  return with_book(
      host, name, name, [&](MetricBook& book) { book.add(checked(name), sum, weight); });
}

tenon_status* add_tensor(const tenon_host* host,
                         const char* name,
                         const tenon_tensor* sum,
                         const tenon_tensor* weight) {
  return with_book(host, name, sum, [&](MetricBook& book) {
    if (weight == nullptr || tensor_of(sum).numel() != 1 || tensor_of(weight).numel() != 1) {
      throw Error("metrics.bad_name",
                  std::string("metric '") + name + "': sum and weight must be scalars");
    }
    book.add_tensor(checked(name), tensor_of(sum), tensor_of(weight));
  });
}

}  // namespace

const tenon_metrics_api* metrics_service() {
  static const tenon_metrics_api api = {sizeof(tenon_metrics_api), &add, &add_tensor};
  return &api;
}

MetricsInUse::MetricsInUse(MetricBook& book) : before_(book_in_use) {
  book_in_use = &book;
}
MetricsInUse::~MetricsInUse() {
  book_in_use = before_;
}

MetricPrefix::MetricPrefix(std::string prefix) {
  prefix_in_use() = std::move(prefix);
}
MetricPrefix::~MetricPrefix() {
  prefix_in_use().clear();
}

}  // namespace tenon
