// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/sink_list.hpp"

#include "host/error/status.hpp"
#include "host/journal/journal.hpp"
#include "host/log/log.hpp"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
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

// A sink that notes all of each record, and refuses those of some steps.
struct Kept {
  std::vector<std::string> records = {};
  std::vector<double> times = {};
  uint64_t refused_step = 0;
};

const tenon_metric_sink& keeping() {
  static tenon_metric_sink table = noting();
  table.open = [](void*, const char*) -> tenon_status* { return nullptr; };
  table.write = [](void* self, const tenon_metric_record* record) -> tenon_status* {
    Kept& kept = *static_cast<Kept*>(self);
    if (record->step == kept.refused_step) {
      return make_status(nullptr, TENON_IO, "test.full", "no space");
    }
    std::string text = std::to_string(record->step) + " " + record->window_label;
    for (size_t i = 0; i < record->count; ++i) {
      text += " " + std::string(record->names[i]) + "=" + std::to_string(record->values[i]);
    }
    kept.records.push_back(text);
    kept.times.push_back(record->unix_seconds);
    return nullptr;
  };
  table.flush = [](void* self) -> tenon_status* {
    static_cast<Kept*>(self)->records.push_back("flush");
    return nullptr;
  };
  return table;
}

SinkList keeping_sinks(Kept& kept) {
  std::vector<MetricSinkProxy> proxies;
  proxies.emplace_back(made_instance("metric_sink", TENON_METRIC_SINK_ID, &keeping(), &kept));
  return SinkList(std::move(proxies));
}

// Notes the times of stamps.
struct Times {
  template <class Entry>
  void read(const Stamp& stamp, const Entry&) {
    seconds.push_back(std::chrono::duration<double>(stamp.time.time_since_epoch()).count());
  }
  std::vector<double> seconds;
};

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

TEST_CASE("sinks get the same records from the journal as from calls", "[metrics]") {
  set_up_log({.terminal = false});
  Kept from_calls{.refused_step = 13};
  Kept from_journal{.refused_step = 13};
  SinkList called = keeping_sinks(from_calls);
  SinkList reading = keeping_sinks(from_journal);
  Journal journal(1, 0);
  Times times;
  const auto a = journal.subscribe(reading, "sinks");
  const auto b = journal.subscribe_prompt(times, "times");
  std::mt19937 random(7);
  std::vector<double> times_of_records;
  for (uint64_t step = 1; step <= 60; ++step) {
    MetricRecord record = record_of(step);
    record.window = random() % 3 == 0 ? "w" + std::to_string(step) : "";
    for (uint32_t i = random() % 4; i > 0; --i) {
      record.values.emplace_back("m" + std::to_string(i), random() % 1000 / 8.0);
    }
    const RunState state{.step = step};
    journal.add(StepBegan{state});
    if (random() % 2 == 0) {
      called.write(record);
      journal.add(MetricsRecorded{.record = record});
    } else {
      called.write(record);
      journal.add(EvaluationRecorded{.record = record, .family = "eval/", .line = "a line"});
    }
    if (step != 13) {
      times_of_records.push_back(times.seconds.back());
    }
    journal.add(WarningLogged{"w"});
    REQUIRE(reading.num_of_step(step) == called.num_of_step(step));
  }
  called.flush();
  journal.add(LoopEnded{.state = {.step = 60}});
  CHECK(from_journal.records.size() == 60);  // 59, and the flush
  CHECK(from_journal.records == from_calls.records);
  CHECK(from_journal.times == times_of_records);
  CHECK(reading.num_lost() == 1);
  CHECK(called.num_lost() == 1);
  CHECK(journal.num_failures() == 0);  // the list counts those of its sinks
}

}  // namespace tenon
