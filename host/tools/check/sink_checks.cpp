// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/metric_sink_proxy.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/subject.hpp"
#include "host/tools/check/temporary_folder.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr double kUnixSeconds = 1700000000.25;
constexpr std::size_t kLongestName = 100;  // metrics.h

// A record as the host writes it.
struct SinkRecord {
  uint64_t step = 1;
  std::vector<std::pair<std::string, double>> metrics = {{"loss", 0.5}, {"lr", 1e-3}};
  std::string label = {};
};

// A sink that is open, and its run folder.
class SinkTrial {
 public:
  SinkTrial(Subject& subject,
            const CheckedComponent& checked,
            ComponentInstance instance,
            const fs::path& folder)
      : subject_(subject), name_(checked.name()), sink_(std::move(instance)) {
    subject.note("open of " + name_);
    sink_.open(folder.string());
  }

  const std::string& name() const { return name_; }

  void write(const SinkRecord& record) {
    subject_.note("write of " + name_);
    std::vector<const char*> names;
    std::vector<double> values;
    for (const auto& [name, value] : record.metrics) {
      names.push_back(name.c_str());
      values.push_back(value);
    }
    tenon_metric_record abi{};
    abi.struct_size = sizeof(abi);
    abi.step = record.step;
    abi.unix_seconds = kUnixSeconds + static_cast<double>(record.step);
    abi.names = names.data();
    abi.values = values.data();
    abi.count = names.size();
    abi.window_label = record.label.c_str();
    sink_.write(abi);
  }
  void flush() {
    subject_.note("flush of " + name_);
    sink_.flush();
  }
  void resume(uint64_t step, uint64_t records_of_step) {
    subject_.note("resume of " + name_);
    sink_.resume(step, records_of_step);
  }

 private:
  Subject& subject_;
  std::string name_;
  MetricSinkProxy sink_;
};

// Records that a run can have, and that are easily forgotten.
std::vector<std::pair<std::string, SinkRecord>> unusual_records() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<std::pair<std::string, SinkRecord>> records;
  records.push_back({"of the step 0", {.step = 0}});
  records.push_back({"that repeats a step", {.step = 0}});
  records.push_back({"with a NaN and infinite values",
                     {.step = 1,
                      .metrics = {{"loss", std::numeric_limits<double>::quiet_NaN()},
                                  {"grad_norm", kInfinity},
                                  {"eval/loss", -kInfinity}}}});
  records.push_back({"with very large and very small values",
                     {.step = 2,
                      .metrics = {{"a", std::numeric_limits<double>::max()},
                                  {"b", std::numeric_limits<double>::denorm_min()},
                                  {"c", -0.0}}}});
  records.push_back({"with unusual names",
                     {.step = 3,
                      .metrics = {{std::string(kLongestName, 'n'), 1},
                                  {"a/b/c.d-e_f/", 2},
                                  {"..", 3},
                                  {"-1", 4},
                                  {"/", 5}}}});
  records.push_back(
      {"with an unusual window", {.step = 4, .label = "2026-11-20/07 \"a\\b\"\n\t\xc3\xa9\x01"}});
  SinkRecord many{.step = 5, .metrics = {}};
  for (int i = 0; i < 500; ++i) {
    many.metrics.emplace_back(formatted("metric/{}", i), i);
  }
  records.push_back({"with 500 metrics", std::move(many)});
  records.push_back({"without a metric", {.step = 6, .metrics = {}}});
  records.push_back({"with another metric than before", {.step = 7, .metrics = {{"new", 1}}}});
  records.push_back({"of a late step", {.step = uint64_t{1} << 40}});
  return records;
}

}  // namespace

CheckResult check_sink_records(Subject& subject) {
  return subject.for_each_instance(
      "metric_sink",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        const TemporaryFolder folder;
        SinkTrial sink(subject, checked, std::move(instance), folder.path());
        findings.add_examined();
        sink.flush();
        for (const auto& [what, record] : unusual_records()) {
          try {
            sink.write(record);
            sink.flush();
          } catch (const Error& error) {
            findings.add_problem(checked.name() + " fails for a record " + what + ": " +
                                 error.message());
          }
        }
      });
}

CheckResult check_sink_resume(Subject& subject) {
  return subject.for_each_instance(
      "metric_sink",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        const TemporaryFolder folder;
        const auto write_steps = [](SinkTrial& sink, uint64_t first, uint64_t last) {
          for (uint64_t step = first; step <= last; ++step) {
            sink.write({.step = step});
          }
          sink.flush();
        };
        SinkTrial sink(subject, checked, std::move(instance), folder.path());
        findings.add_examined();
        write_steps(sink, 1, 6);
        sink.resume(4, 1);  // a rollback
        write_steps(sink, 5, 6);
        // A run that was stopped, and continues in another process.
        SinkTrial other(subject, checked, subject.create(checked), folder.path());
        other.resume(3, 0);
        write_steps(other, 3, 5);
        // Nothing was written yet.
        const TemporaryFolder empty;
        SinkTrial early(subject, checked, subject.create(checked), empty.path());
        early.resume(0, 0);
        write_steps(early, 1, 2);
      });
}

CheckResult check_sink_folder(Subject& subject) {
  return subject.for_each_instance(
      "metric_sink",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        findings.add_examined();
        const TemporaryFolder folder;
        // Below a file, where even the superuser can create nothing.
        const fs::path file = folder.path() / "file";
        std::ofstream(file) << "no folder";
        try {
          SinkTrial sink(subject, checked, std::move(instance), file / "run");
          sink.write({});
          sink.flush();
          findings.add_remark(checked.name() + " does not need the run folder");
        } catch (const PluginError& error) {
          findings.add_remark(error.message());
        }
      });
}

}  // namespace tenon
