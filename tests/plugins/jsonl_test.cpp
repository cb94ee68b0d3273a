// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/metric_sink_proxy.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

tenon::MetricSinkProxy make_sink(const std::string& options = "{}") {
  return tenon::MetricSinkProxy(tenon::make_component("metric_sink", "jsonl", options));
}

void write(const tenon::MetricSinkProxy& sink,
           uint64_t step,
           const std::vector<std::pair<const char*, double>>& metrics) {
  std::vector<const char*> names;
  std::vector<double> values;
  for (const auto& [name, value] : metrics) {
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

}  // namespace

TEST_CASE("jsonl writes a line of JSON for a record, step and time first", "[plugins]") {
  const tenon::ScratchFolder folder;
  const auto sink = make_sink();
  sink.open(folder.path().string());
  write(sink, 10, {{"loss", 4.125}, {"lr", 0.001}, {"eval/loss", 2000}});
  write(sink, 20, {});
  const auto lines = tenon::file_lines(folder.path() / "metrics.jsonl");
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
  const auto lines = tenon::file_lines(folder.path() / "metrics.jsonl");
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
  const auto lines = tenon::file_lines(folder.path() / "more.jsonl");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "{\"step\":1}");
  CHECK(nlohmann::json::parse(lines[1])["step"] == 2);
}

namespace {

// What is left of `before` when a run goes on from a step, and how many of its records count.
std::string left_of(const std::string& before, uint64_t step, uint64_t records_of_step) {
  const tenon::ScratchFolder folder;
  folder.write("metrics.jsonl", before);
  const auto sink = make_sink();
  sink.open(folder.path().string());
  sink.resume(step, records_of_step);
  std::string left;
  for (const std::string& line : tenon::file_lines(folder.path() / "metrics.jsonl")) {
    left += line + "\n";
  }
  // What is written now stands behind it.
  write(sink, step + 1, {});
  const auto lines = tenon::file_lines(folder.path() / "metrics.jsonl");
  CHECK(nlohmann::json::parse(lines.back())["step"] == step + 1);
  return left;
}

}  // namespace

TEST_CASE("jsonl drops what a run that goes on will write again", "[plugins]") {
  const std::string two = "{\"step\":1,\"time\":5}\n{\"step\":2,\"time\":6}\n";
  const std::string four = two + "{\"step\":4,\"time\":7}\n";
  CHECK(left_of(four, 4, 1) == four);
  CHECK(left_of(four, 3, 0) == two);
  CHECK(left_of(four, 2, 1) == two);
  CHECK(left_of(four, 9, 0) == four);
  CHECK(left_of(four, 0, 0).empty());
  CHECK(left_of("", 3, 0).empty());
}

TEST_CASE("jsonl keeps as many records of the step as were there when it was saved", "[plugins]") {
  const std::string first = "{\"step\":1}\n{\"step\":2,\"loss\":3}\n";
  const std::string all = first + "{\"step\":2,\"eval/loss\":3}\n{\"step\":3}\n";
  CHECK(left_of(all, 2, 1) == first);
  CHECK(left_of(all, 2, 2) == first + "{\"step\":2,\"eval/loss\":3}\n");
  CHECK(left_of(all, 2, 0) == "{\"step\":1}\n");
  CHECK(left_of(all, 2, 7) == first + "{\"step\":2,\"eval/loss\":3}\n");  // some were lost
}

TEST_CASE("jsonl drops half a line, and leaves what it has not written", "[plugins]") {
  CHECK(left_of("{\"step\":1}\n{\"step\":2,\"lo", 5, 0) == "{\"step\":1}\n");
  CHECK(left_of("{\"st", 5, 0).empty());
  const std::string other = "{\"step\":90}\nnot mine\n";
  CHECK(left_of(other + "{\"step\":7}\n", 3, 0) == other);
  // An earlier run in one file with this one.
  const std::string both = "{\"step\":90}\n{\"step\":1}\n{\"step\":2}\n";
  CHECK(left_of(both, 1, 1) == "{\"step\":90}\n{\"step\":1}\n");
  CHECK(left_of(both, 0, 0) == "{\"step\":90}\n");
  CHECK(left_of("{\"step\":\"x\"}\n", 0, 0) == "{\"step\":\"x\"}\n");
  CHECK(left_of("\n\n", 0, 0) == "\n\n");
}

TEST_CASE("jsonl cuts files that are longer than it reads at once", "[plugins]") {
  const std::string filler(1000, 'x');
  std::string kept;
  std::string all;
  for (int step = 1; step <= 400; ++step) {
    all += "{\"step\":" + std::to_string(step) + ",\"note\":\"" + filler + "\"}\n";
    kept = step == 123 ? all : kept;
  }
  CHECK(left_of(all, 123, 1) == kept);
  const std::string huge = "{\"step\":1,\"note\":\"" + std::string(200000, 'y') + "\"}\n";
  CHECK(left_of(huge + huge, 1, 1) == huge);
}

TEST_CASE("jsonl drops zeros at the end, and refuses to search a file of them", "[plugins]") {
  CHECK(left_of("{\"step\":1}\n" + std::string(20 << 20, '\0'), 5, 0) == "{\"step\":1}\n");
  const tenon::ScratchFolder folder;
  const auto file = folder.write("metrics.jsonl", "{\"step\":1}\n");
  std::filesystem::resize_file(file, std::uintmax_t{1} << 40);  // sparse
  const auto sink = make_sink();
  sink.open(folder.path().string());
  CHECK_THAT(tenon::error_of([&] { sink.resume(1, 1); }),
             tenon::contains_text("metrics.jsonl: a line has more than 33554432 bytes"));
  CHECK(std::filesystem::file_size(file) == std::uintmax_t{1} << 40);
}

TEST_CASE("jsonl has nothing to drop in a device", "[plugins]") {
  const auto sink = make_sink(R"({"path": "/dev/null"})");
  sink.open("/");
  sink.resume(3, 0);
  write(sink, 4, {});
}

TEST_CASE("jsonl says which file it cannot open or write", "[plugins]") {
  CHECK_THAT(tenon::error_of([] { make_sink().open("/nowhere/at/all"); }),
             tenon::contains_text("/nowhere/at/all/metrics.jsonl: No such file"));
  const auto sink = make_sink(R"({"path": "/dev/full"})");
  sink.open("/");
  CHECK_THAT(tenon::error_of([&] { write(sink, 1, {}); }),
             tenon::contains_text("cannot write to /dev/full: No space left"));
}

TEST_CASE("jsonl reports that its file was removed", "[plugins]") {
  const tenon::ScratchFolder folder;
  const auto sink = make_sink();
  sink.open(folder.path().string());
  write(sink, 1, {});
  std::filesystem::rename(folder.path() / "metrics.jsonl", folder.path() / "old.jsonl");
  write(sink, 2, {});  // into the renamed file
  std::filesystem::remove(folder.path() / "old.jsonl");
  CHECK_THAT(tenon::error_of([&] { write(sink, 3, {}); }),
             tenon::contains_text("metrics.jsonl: it was removed while it was open"));
}

TEST_CASE("jsonl refuses a FIFO, and waits for no reader", "[plugins]") {
  const tenon::ScratchFolder folder;
  REQUIRE(::mkfifo((folder.path() / "metrics.jsonl").c_str(), 0600) == 0);
  CHECK_THAT(tenon::error_of([&] { make_sink().open(folder.path().string()); }),
             tenon::contains_text("metrics.jsonl: it is a FIFO or a socket, not a regular file"));
}
