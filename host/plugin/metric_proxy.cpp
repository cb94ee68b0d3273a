// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/metric_proxy.hpp"

#include "host/plugin/interface_table.hpp"
#include "host/tensor/dtype.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

constexpr uint32_t kAllPeriods = TENON_PERIOD_STEP | TENON_PERIOD_WINDOW | TENON_PERIOD_RUN;

bool is_state_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

MetricStateSpec copy_state(const tenon_metric_state_spec& state,
                           const std::vector<MetricStateSpec>& others,
                           const ComponentIdentity& identity) {
  const std::string name = state.name != nullptr ? state.name : "";
  const std::string of = "state \"" + name + "\"";
  if (!is_state_name(name)) {
    identity.fail_result(of + ": a state name consists of a-z, 0-9 and '_'");
  }
  if (std::ranges::find(others, name, &MetricStateSpec::name) != others.end()) {
    identity.fail_result(of + " is declared twice");
  }
  if (!is_dtype(state.dtype)) {
    identity.fail_result(formatted("{} has the unknown dtype {}", of, state.dtype));
  }
  if (state.reduce > TENON_REDUCE_OWN) {
    identity.fail_result(
        formatted("{} has reduce {}, expected one of TENON_REDUCE_*", of, state.reduce));
  }
  if (state.shape == nullptr && state.ndim > 0) {
    identity.fail_result(formatted("{} has {} axes at a null pointer", of, state.ndim));
  }
  if (state.reduce == TENON_REDUCE_SUM && state.init != 0) {
    identity.fail_result(of + " is reduced by SUM, so it must start with 0");
  }
  const std::span shape(state.shape, state.ndim);
  const bool grows = state.reduce == TENON_REDUCE_CONCAT;
  if (grows && (shape.empty() || shape.front() != 0)) {
    identity.fail_result(of + " is reduced by CONCAT, so its first size must be 0");
  }
  if (std::ranges::any_of(shape.subspan(grows ? 1 : 0), [](int64_t size) { return size < 1; })) {
    identity.fail_result(of + " has an axis without a size");
  }
  return {.name = name,
          .shape = {shape.begin(), shape.end()},
          .dtype = state.dtype,
          .reduce = state.reduce,
          .init = state.init};
}

}  // namespace

MetricProxy::MetricProxy(ComponentInstance instance)
    : instance_(std::move(instance)), table_(table_of<tenon_metric>(instance_, TENON_METRIC_ID)) {
  const ComponentIdentity& identity = instance_.identity();
  TENON_REQUIRE(tenon_metric, table_, describe, TENON_METRIC_ID, identity);
  TENON_REQUIRE(tenon_metric, table_, update, TENON_METRIC_ID, identity);
  TENON_REQUIRE(tenon_metric, table_, compute, TENON_METRIC_ID, identity);
  has_reset_ = TENON_HAS(tenon_metric, table_, reset);

  const auto info =
      filled_by<tenon_metric_info>(instance_, "describe", [&](tenon_metric_info* out) {
        return table_->describe(instance_.self(), out);
      });
  if ((info.periods & ~kAllPeriods) != 0) {
    identity.fail_result(formatted(
        "describe returned periods {}, which has bits other than TENON_PERIOD_*", info.periods));
  }
  info_.periods = info.periods;
  info_.ports = copy_ports(info.ports_ref, info.num_ports, identity);
  if (info.num_states > 0 && info.states_ref == nullptr) {
    identity.fail_result(
        formatted("describe returned {} states at a null pointer", info.num_states));
  }
  for (std::size_t i = 0; i < info.num_states; ++i) {
    info_.states.push_back(
        copy_state(element_of(info.states_ref, i, identity), info_.states, identity));
    if (info_.states.back().reduce == TENON_REDUCE_OWN) {
      TENON_REQUIRE(tenon_metric, table_, merge, TENON_METRIC_ID, identity);
    }
  }
  if (info.num_metrics == 0 || info.metrics_ref == nullptr) {
    identity.fail_result("describe returned no metric");
  }
  for (std::size_t i = 0; i < info.num_metrics; ++i) {
    const char* const metric = info.metrics_ref[i];
    if (metric == nullptr || *metric == '\0') {
      identity.fail_result(formatted("metric {} has no name", i));
    }
    if (std::ranges::find(info_.metrics, metric) != info_.metrics.end()) {
      identity.fail_result("metric \"" + std::string(metric) + "\" is declared twice");
    }
    info_.metrics.emplace_back(metric);
  }
}

}  // namespace tenon
