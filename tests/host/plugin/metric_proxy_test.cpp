// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/metric_proxy.hpp"

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

// What the fake describes; tests change it.
tenon_metric_state_spec state;
tenon_metric_info metric_info;
const char* metrics[] = {"accuracy", "error"};

void describe_well() {
  state = {sizeof(state), "correct", nullptr, 0, TENON_F64, TENON_REDUCE_SUM, 0};
  metric_info = {sizeof(metric_info), TENON_PERIOD_RUN, 0, nullptr, 0, &state, 1, metrics, 2};
}

tenon_metric metric_table() {
  describe_well();
  tenon_metric table{};
  table.struct_size = sizeof(table);
  table.describe = [](void*, tenon_metric_info* out) -> tenon_status* {
    *out = metric_info;
    return nullptr;
  };
  table.update = [](void*, const tenon_exec*, const tenon_metric_update_args*) -> tenon_status* {
    return nullptr;
  };
  table.merge = [](void*, const tenon_exec*, const tenon_metric_merge_args*) -> tenon_status* {
    return nullptr;
  };
  table.compute =
      [](void*, const tenon_exec*, const tenon_metric_compute_args* args) -> tenon_status* {
    args->out_values[0] = 0.25;
    args->out_values[1] = 0.75;
    return nullptr;
  };
  return table;
}

}  // namespace

TEST_CASE("a metric says what it keeps and what figures it gives", "[plugin]") {
  const tenon_metric good = metric_table();
  const FakeComponent fake("metric", TENON_METRIC_ID, &good);
  const MetricProxy metric(fake.make());
  CHECK(metric.info().periods == TENON_PERIOD_RUN);
  REQUIRE(metric.info().states.size() == 1);
  CHECK(metric.info().states[0].name == "correct");
  CHECK(metric.info().states[0].dtype == TENON_F64);
  CHECK((metric.info().metrics == std::vector<std::string>{"accuracy", "error"}));
  CHECK((metric.compute(tenon_exec{}, nullptr) == std::vector<double>{0.25, 0.75}));
}

TEST_CASE("a metric that lacks a function is refused by the function's name", "[plugin]") {
  tenon_metric bad = metric_table();
  const FakeComponent fake("metric", TENON_METRIC_ID, &bad);
  bad.merge = nullptr;  // no state needs it
  CHECK(proxy_error<MetricProxy>(fake).empty());
  state.reduce = TENON_REDUCE_OWN;
  CHECK(proxy_error<MetricProxy>(fake) == missing_function("metric", "merge"));
  bad.compute = nullptr;
  CHECK(proxy_error<MetricProxy>(fake) == missing_function("metric", "compute"));
  bad.update = nullptr;
  CHECK(proxy_error<MetricProxy>(fake) == missing_function("metric", "update"));
  bad.describe = nullptr;
  CHECK(proxy_error<MetricProxy>(fake) == missing_function("metric", "describe"));
}

TEST_CASE("a metric that describes itself wrongly is refused", "[plugin]") {
  const tenon_metric odd = metric_table();
  const FakeComponent fake("metric", TENON_METRIC_ID, &odd);
  const auto refused = [&](const char* reason) {
    CHECK_THAT(proxy_error<MetricProxy>(fake), contains_text(reason));
    describe_well();
  };
  metric_info.periods = 8;
  refused("describe returned periods 8");
  metric_info.states_ref = nullptr;
  refused("1 states at a null pointer");
  metric_info.num_metrics = 0;
  refused("describe returned no metric");
  const char* const twice[] = {"a", "a"};
  metric_info.metrics_ref = twice;
  refused("metric \"a\" is declared twice");
  const char* const unnamed[] = {"a", nullptr};
  metric_info.metrics_ref = unnamed;
  refused("metric 1 has no name");
  state.name = "Correct";
  refused("state \"Correct\": a state name consists of a-z, 0-9 and '_'");
  const tenon_metric_state_spec both[] = {state, state};
  metric_info.states_ref = both;
  metric_info.num_states = 2;
  refused("state \"correct\" is declared twice");
  state.dtype = TENON_CLASS_FLOAT;
  refused("has the unknown dtype");
  state.reduce = 9;
  refused("has reduce 9");
  state.init = 1;
  refused("is reduced by SUM, so it must start with 0");
  state.ndim = 1;
  refused("has 1 axes at a null pointer");
  const int64_t sizes[] = {0};
  state.shape = sizes;
  state.ndim = 1;
  refused("has an axis without a size");
  state.reduce = TENON_REDUCE_CONCAT;
  refused("is reduced by CONCAT, so its first size must be 0");
  CHECK(proxy_error<MetricProxy>(fake).empty());
}
