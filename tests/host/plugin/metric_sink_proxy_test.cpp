// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/metric_sink_proxy.hpp"

#include "host/error/status.hpp"

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

std::string calls;

tenon_metric_sink metric_sink_table() {
  calls.clear();
  tenon_metric_sink table{};
  table.struct_size = sizeof(table);
  table.open = [](void*, const char* run_dir) -> tenon_status* {
    calls += "open " + std::string(run_dir);
    return nullptr;
  };
  table.write = [](void*, const tenon_metric_record* record) -> tenon_status* {
    calls += " write " + std::to_string(record->step);
    return nullptr;
  };
  table.resume = [](void*, uint64_t step, uint64_t records_of_step) -> tenon_status* {
    calls += " resume " + std::to_string(step) + " " + std::to_string(records_of_step);
    return nullptr;
  };
  table.flush = [](void*) -> tenon_status* {
    return make_status(nullptr, TENON_IO, "my.disk", "the disk is full", "", 0);
  };
  return table;
}

}  // namespace

TEST_CASE("a sink is opened, written to and flushed", "[plugin]") {
  const tenon_metric_sink good = metric_sink_table();
  const FakeComponent fake("metric_sink", TENON_METRIC_SINK_ID, &good);
  const MetricSinkProxy sink(fake.make());
  sink.open("runs/one");
  tenon_metric_record record{};
  record.step = 5;
  sink.write(record);
  CHECK(calls == "open runs/one write 5");
  CHECK_THROWS_WITH(sink.flush(), contains_text("the disk is full [my.disk]"));
}

TEST_CASE("a sink that lacks a function is refused by the function's name", "[plugin]") {
  tenon_metric_sink bad = metric_sink_table();
  const FakeComponent fake("metric_sink", TENON_METRIC_SINK_ID, &bad);
  bad.flush = nullptr;
  CHECK(proxy_error<MetricSinkProxy>(fake) == missing_function("metric_sink", "flush"));
  bad.write = nullptr;
  CHECK(proxy_error<MetricSinkProxy>(fake) == missing_function("metric_sink", "write"));
  bad.open = nullptr;
  CHECK(proxy_error<MetricSinkProxy>(fake) == missing_function("metric_sink", "open"));
}

TEST_CASE("a sink goes on from a step, and one that cannot keeps what it has", "[plugin]") {
  const tenon_metric_sink good = metric_sink_table();
  const FakeComponent fake("metric_sink", TENON_METRIC_SINK_ID, &good);
  MetricSinkProxy(fake.make()).resume(7, 2);
  CHECK(calls == " resume 7 2");
  tenon_metric_sink null = metric_sink_table();
  null.resume = nullptr;
  const FakeComponent without("metric_sink", TENON_METRIC_SINK_ID, &null);
  MetricSinkProxy(without.make()).resume(7, 2);
  CHECK(calls.empty());
  tenon_metric_sink early = metric_sink_table();  // of a header that had no such slot
  early.struct_size = offsetof(tenon_metric_sink, resume);
  const FakeComponent older("metric_sink", TENON_METRIC_SINK_ID, &early);
  MetricSinkProxy(older.make()).resume(7, 2);
  CHECK(calls.empty());
}
