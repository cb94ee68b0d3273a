// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/metric_sink_proxy.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

tenon::MetricSinkProxy make_sink(const std::string& options = "{}") {
  return tenon::MetricSinkProxy(tenon::make_component("metric_sink", "jsonl", options));
}

void write(const tenon::MetricSinkProxy& sink,
           uint64_t step,
           const std::vector<std::pair<const char*, double>>& figures) {
  std::vector<const char*> names;
  std::vector<double> values;
  for (const auto& [name, value] : figures) {
    names.push_back(name);
    values.push_back(value);
  }
  tenon_metric_record record{};
  record.struct_size = sizeof record;
  record.step = step;
  record.unix_seconds = 1763719200.25;
  record.names = names.data();
  record.values = values.data();
  record.count = names.size();
  sink.write(record);
}

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("jsonl writes a line of JSON for a record, step and time first", "[plugins]") {
  const tenon::ScratchFolder folder;
  const auto sink = make_sink();
  sink.open(folder.path().string());
  write(sink, 10, {{"loss", 4.125}, {"lr", 0.001}, {"eval/loss", 2000}});
  write(sink, 20, {});
  const auto lines = lines_of(folder.path() / "metrics.jsonl");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == R"({"step":10,"time":1763719200.25,"loss":4.125,"lr":0.001,"eval/loss":2000})");
  CHECK(lines[1] == R"({"step":20,"time":1763719200.25})");
}

TEST_CASE("jsonl keeps every bit of a figure, and writes null for what JSON lacks", "[plugins]") {
  const tenon::ScratchFolder folder;
  const auto sink = make_sink();
  sink.open(folder.path().string());
  const std::vector<double> values = {1.0 / 3.0,
                                      std::numeric_limits<double>::denorm_min(),
                                      -std::numeric_limits<double>::max(),
                                      1e21};
  for (const double value : values) {
    write(sink, 1, {{"x", value}});
  }
  write(sink, 2, {{"x", std::nan("")}});
  write(sink, 3, {{"x", std::numeric_limits<double>::infinity()}});
  const auto lines = lines_of(folder.path() / "metrics.jsonl");
  REQUIRE(lines.size() == values.size() + 2);
  for (size_t i = 0; i < values.size(); ++i) {
    const double back = nlohmann::json::parse(lines[i])["x"].get<double>();
    CHECK(std::memcmp(&back, &values[i], sizeof back) == 0);
  }
  CHECK(nlohmann::json::parse(lines[values.size()])["x"].is_null());
  CHECK(nlohmann::json::parse(lines[values.size() + 1])["x"].is_null());
}

TEST_CASE("jsonl adds to a file that is there, of the name it is given", "[plugins]") {
  const tenon::ScratchFolder folder;
  folder.write("more.jsonl", "{\"step\":1}\n");
  const auto sink = make_sink(R"({"path": "more.jsonl"})");
  sink.open(folder.path().string());
  write(sink, 2, {{"loss", 1}});
  const auto lines = lines_of(folder.path() / "more.jsonl");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "{\"step\":1}");
  CHECK(nlohmann::json::parse(lines[1])["step"] == 2);
}

TEST_CASE("jsonl says which file it cannot open or write", "[plugins]") {
  CHECK_THAT(tenon::error_of([] { make_sink().open("/nowhere/at/all"); }),
             tenon::contains_text("/nowhere/at/all/metrics.jsonl: No such file"));
  const auto sink = make_sink(R"({"path": "/dev/full"})");
  sink.open("/");
  CHECK_THAT(tenon::error_of([&] { write(sink, 1, {}); }),
             tenon::contains_text("cannot write to /dev/full: No space left"));
}
