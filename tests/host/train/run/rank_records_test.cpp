// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/rank_records.hpp"

#include "host/error/exit_code.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

nlohmann::json json_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

}  // namespace

TEST_CASE("a failure leaves records unless no work was done or the folder was lost",
          "[train][failures]") {
  RankFailure first;
  first.exit_code = static_cast<int>(ExitCode::kRecipe);
  CHECK(folder_for_records("runs/a", first, HasBegun::kNo).empty());
  CHECK(folder_for_records("runs/a", first, HasBegun::kYes) == "runs/a");
  first.exit_code = static_cast<int>(ExitCode::kFailed);
  CHECK(folder_for_records("runs/a", first, HasBegun::kNo) == "runs/a");
  first.error_id = "run.dir_lost";
  CHECK(folder_for_records("runs/a", first, HasBegun::kYes).empty());
}

TEST_CASE("records of ranks and the report lie in the run folder, each file whole",
          "[train][failures]") {
  const ScratchFolder folder;
  const RankRecords records(folder.path().string());
  RankRecord record;
  record.rank = 3;
  record.error = "[plugin.failed] asked";
  records.write(record);
  CHECK(json_of(folder.path() / "errors" / "rank-3.json")["error"] == "[plugin.failed] asked");
  CHECK(records.claim_report());
  CHECK_FALSE(records.claim_report());
  records.write_report("what happened\n");
  CHECK(std::filesystem::file_size(folder.path() / "errors" / "report.txt") == 14);
  records.write_summary_if_missing("rank 0 was ended", 5);
  CHECK(json_of(folder.path() / "summary.json")["reason"] == "rank 0 was ended");
  records.write_summary_if_missing("another", 5);
  CHECK(json_of(folder.path() / "summary.json")["reason"] == "rank 0 was ended");
}

TEST_CASE("what earlier ranks have left is put aside, each time", "[train][failures]") {
  const ScratchFolder folder;
  const RankRecords records(folder.path().string());
  records.put_aside();
  CHECK(std::filesystem::is_empty(folder.path()));
  for (const std::string text : {"first", "second", "third"}) {
    records.put_aside();
    CHECK(records.claim_report());  // a report of before is none of these ranks'
    records.write_report(text);
  }
  const auto size_of = [&](const char* name) {
    return std::filesystem::file_size(folder.path() / name / "report.txt");
  };
  CHECK(size_of("errors-1") == 5);
  CHECK(size_of("errors-2") == 6);
  CHECK(size_of("errors") == 5);
}

TEST_CASE("without a run folder nothing is kept, and one that cannot be written costs no run",
          "[train][failures]") {
  const RankRecords none("");
  none.write(RankRecord());
  none.write_summary_if_missing("a", 5);
  CHECK(none.claim_report());
  CHECK(none.folder().empty());
  const ScratchFolder folder;
  const RankRecords below_a_file(folder.write("file", "").string());
  below_a_file.write(RankRecord());
  below_a_file.write_report("a");
  CHECK(below_a_file.claim_report());
  CHECK(std::filesystem::is_regular_file(folder.path() / "file"));
}

}  // namespace tenon
