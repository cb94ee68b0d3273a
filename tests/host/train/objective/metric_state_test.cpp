// SPDX-License-Identifier: Apache-2.0
#include "host/train/objective/metric_state.hpp"

#include "host/tensor/handle.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

using Numbers = std::vector<double>;

MetricProxy four_states(const std::string& options = "{}") {
  return MetricProxy(make_component("metric", "four_states", options));
}

void take(MetricState& state, const MetricProxy& metric, const Numbers& numbers) {
  const at::Tensor x = at::tensor(numbers, at::kDouble);
  const tenon_tensor* const input = borrow(x);
  state.update(make_exec(metric.instance()), &input, 1, at::kCPU);
}

MetricState state_of(const MetricProxy& metric, const std::vector<Numbers>& batches) {
  MetricState state(metric);
  for (const Numbers& batch : batches) {
    take(state, metric, batch);
  }
  return state;
}

}  // namespace

TEST_CASE("a metric gathers over batches what it declared", "[train]") {
  const MetricProxy metric = four_states();
  MetricState state = state_of(metric, {{3, 9, 1}, {4}});
  CHECK(state.compute(make_exec(metric.instance())) == Numbers{17, 9, 4, 9, 3, 4});
  state.reset();
  const auto empty = state.compute(make_exec(metric.instance()));
  CHECK(empty[0] == 0);
  CHECK(empty[1] == -1e15);
  CHECK(empty[2] == 0);
  CHECK(std::isnan(empty[3]));
  // The metric's own reset comes after the states have their first values.
  CHECK(empty[4] == -1);
  take(state, metric, {5});
  CHECK(state.compute(make_exec(metric.instance()))[0] == 5);
}

TEST_CASE("two stretches of the data become what one has", "[train]") {
  const MetricProxy metric = four_states();
  const tenon_exec exec = make_exec(metric.instance());
  const Numbers whole = state_of(metric, {{3, 9}, {1}, {4, 2}}).compute(exec);
  MetricState merged(metric);
  merged.merge(exec, state_of(metric, {}));
  merged.merge(exec, state_of(metric, {{3, 9}}));
  const MetricState rest = state_of(metric, {{1}, {4, 2}});
  merged.merge(exec, rest);
  merged.merge(exec, MetricState(metric));
  CHECK(merged.compute(exec) == whole);
  // What was merged from is left as it was.
  MetricState copy(metric);
  copy.merge(exec, rest);
  take(copy, metric, {100});
  MetricState again(metric);
  again.merge(exec, rest);
  CHECK(again.compute(exec) == Numbers{7, 4, 3, 4, 1, 2});
}

TEST_CASE("ranks merge states in their order, also where one has no data", "[train]") {
  const std::vector<std::vector<Numbers>> given = {{{3, 0.1}}, {}, {{1}, {4, 1e-9, 8}}};
  std::vector<Numbers> got(given.size());
  run_ranks(3, [&](RankGroups& ranks) {
    Group& collective = ranks.all();
    const MetricProxy metric = four_states();
    MetricState state = state_of(metric, given[collective.rank()]);
    state.merge_ranks(make_exec(metric.instance()), collective);
    got[collective.rank()] = state.compute(make_exec(metric.instance()));
  });
  const Numbers want = {3 + 0.1 + (1 + 4 + 1e-9 + 8), 8, 6, 0.1, 3, 8};
  for (const Numbers& metrics : got) {
    REQUIRE(metrics.size() == want.size());
    CHECK(metrics[0] == Approx(want[0]).epsilon(1e-15));
    CHECK(Numbers(metrics.begin() + 1, metrics.end()) == Numbers(want.begin() + 1, want.end()));
  }
}

TEST_CASE("rows for a state that takes none are refused", "[train]") {
  const MetricProxy metric = four_states(R"({"wrong_rows": true})");
  CHECK_THAT(error_of([&] {
               state_of(metric, {{3, 9}});
             }),
             contains_text("update appended [3] of Double to state \"total\", which is not "
                           "reduced by CONCAT"));
}

}  // namespace tenon
