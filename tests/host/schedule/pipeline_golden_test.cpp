// SPDX-License-Identifier: Apache-2.0
//
// Generators and tables against PyTorch: tests/parity/pipeline_golden.py wrote the tables.
#include "host/schedule/check_schedule.hpp"
#include "host/schedule/generate_schedule.hpp"
#include "host/schedule/schedule_csv.hpp"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <set>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

nlohmann::json golden() {
  const char* const other = std::getenv("TENON_PIPELINE_GOLDEN");
  return nlohmann::json::parse(
      file_text(other != nullptr ? other : source_dir() / "tests/parity/pipeline_golden.json"));
}

PipelineSchedule generated(const nlohmann::json& golden_case) {
  return generate_schedule({golden_case.at("name"),
                            golden_case.at("ranks"),
                            golden_case.at("microbatches"),
                            golden_case.at("stages_per_rank")});
}

std::string csv_of(const nlohmann::json& golden_case, const std::string& line_end) {
  std::string csv;
  for (const std::string row : golden_case.at("rows")) {
    csv += row + line_end;
  }
  return csv;
}

PipelineSchedule only_compute(PipelineSchedule schedule) {
  for (std::vector<StageAction>& row : schedule.rows) {
    std::erase_if(row, [](const StageAction& action) { return !is_compute(action.kind); });
  }
  return schedule;
}

}  // namespace

TEST_CASE("the tables of the generators are PyTorch's, action by action", "[schedule]") {
  std::set<std::string> names;
  const nlohmann::json tables = golden().at("compute");
  for (const nlohmann::json& table : tables) {
    CAPTURE(table.dump());
    const PipelineSchedule ours = generated(table);
    // PyTorch ends lines with \r\n.
    const PipelineSchedule theirs = read_schedule(csv_of(table, "\r\n")).schedule;
    CHECK(only_compute(theirs) == ours);
    CHECK_FALSE(find_schedule_problem(theirs, {}).has_value());
    names.insert(table.at("name"));
  }
  CHECK(names.size() == schedule_names().size());
  CHECK(tables.size() >= 140);
}

TEST_CASE("PyTorch's form with messages is read, checked and written", "[schedule]") {
  std::set<StageActionKind> kinds;
  const nlohmann::json tables = golden().at("lowered");
  for (const nlohmann::json& table : tables) {
    CAPTURE(table.dump());
    const PipelineSchedule theirs = read_schedule(csv_of(table, "\n")).schedule;
    CHECK(only_compute(theirs) == generated(table));
    CHECK_FALSE(find_schedule_problem(theirs, {}).has_value());
    for (const std::vector<StageAction>& row : theirs.rows) {
      for (const StageAction& action : row) {
        kinds.insert(action.kind);
      }
    }
    // Actions side by side are written one after the other.
    std::string expected = csv_of(table, "\n");
    for (size_t at = 0; (at = expected.find_first_of("();", at)) != std::string::npos;) {
      expected.replace(at, 1, expected[at] == ';' ? "," : "");
    }
    for (size_t at = 0; (at = expected.find("OVERLAP_F_B")) != std::string::npos;) {
      expected.erase(at, std::string("OVERLAP_F_B").size());
    }
    CHECK(schedule_csv(theirs) == expected);
  }
  CHECK(kinds.size() == 11);
  CHECK(tables.size() >= 12);
}

}  // namespace tenon
