// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/sink_list.hpp"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"

namespace tenon {
namespace {

// A sink that notes its calls.
const tenon_metric_sink& noting() {
  static tenon_metric_sink table{};
  table.struct_size = sizeof(table);
  table.open = [](void* self, const char*) -> tenon_status* {
    *static_cast<std::string*>(self) += "open ";
    return nullptr;
  };
  table.write = [](void* self, const tenon_metric_record* record) -> tenon_status* {
    *static_cast<std::string*>(self) += std::to_string(record->step) + " ";
    return nullptr;
  };
  table.flush = [](void*) -> tenon_status* { return nullptr; };
  table.resume = [](void* self, uint64_t step, uint64_t records_of_step) -> tenon_status* {
    *static_cast<std::string*>(self) +=
        "resume " + std::to_string(step) + ":" + std::to_string(records_of_step) + " ";
    return nullptr;
  };
  return table;
}

MetricRecord record_of(uint64_t step) {
  MetricRecord record;
  record.step = step;
  return record;
}

}  // namespace

TEST_CASE("sinks are told what to drop, after they are opened", "[metrics]") {
  std::string calls;
  std::vector<MetricSinkProxy> proxies;
  proxies.emplace_back(made_instance("metric_sink", TENON_METRIC_SINK_ID, &noting(), &calls));
  SinkList sinks(std::move(proxies));
  sinks.open("run");
  sinks.resume(7, 2);
  sinks.write(record_of(8));
  CHECK(calls == "open resume 7:2 8 ");
}

TEST_CASE("records of a step are counted, with those before a resume at it", "[metrics]") {
  SinkList sinks({});
  CHECK(sinks.num_of_step(0) == 0);
  sinks.write(record_of(0));
  CHECK(sinks.num_of_step(0) == 1);
  CHECK(sinks.num_of_step(5) == 0);
  sinks.write(record_of(5));
  sinks.write(record_of(5));
  CHECK(sinks.num_of_step(5) == 2);
  CHECK(sinks.num_of_step(0) == 0);
  sinks.resume(5, 1);
  CHECK(sinks.num_of_step(5) == 1);
  sinks.write(record_of(5));
  CHECK(sinks.num_of_step(5) == 2);
}

}  // namespace tenon
