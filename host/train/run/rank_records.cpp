// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/rank_records.hpp"

#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"
#include "host/train/run_state/outcome.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace tenon {
namespace {

constexpr const char* kReport = "report.txt";

// Several processes may write to the folder concurrently, each to its own files.
void write_file(const std::string& folder, const std::string& name, const std::string& text) {
  if (folder.empty()) {
    return;
  }
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  try {
    replace_file(path.string(), text, formatted(".part{}", ::getpid()));
  } catch (const Error& error) {
    log_warning(error.message());
  }
}

}  // namespace

std::string folder_for_records(const std::string& run_dir,
                               const RankFailure& first,
                               HasBegun begun) {
  const bool is_left =
      first.error_id != "run.dir_lost" &&
      (leaves_folder(static_cast<ExitCode>(first.exit_code)) || begun == HasBegun::kYes);
  return is_left ? run_dir : "";
}

RankRecords::RankRecords(const std::string& run_dir)
    : folder_(run_dir.empty() ? "" : (std::filesystem::path(run_dir) / "errors").string()) {}

void RankRecords::put_aside() const {
  std::error_code failed;
  if (folder_.empty() || !std::filesystem::exists(folder_, failed)) {
    return;
  }
  int number = 1;
  while (std::filesystem::exists(formatted("{}-{}", folder_, number), failed)) {
    ++number;
  }
  const std::string aside = formatted("{}-{}", folder_, number);
  std::filesystem::rename(folder_, aside, failed);
  if (failed) {
    log_warning(folder_ + " cannot become " + aside + ": " + failed.message());
  }
}

void RankRecords::write(const RankRecord& record) const {
  write_file(folder_, formatted("rank-{}.json", record.rank), to_json_text(record));
}

void RankRecords::write_report(const std::string& text) const {
  write_file(folder_, kReport, text);
}

void RankRecords::write_summary_if_missing(const std::string& reason, int exit_code) const {
  std::error_code failed;
  const std::filesystem::path run_dir = std::filesystem::path(folder_).parent_path();
  if (folder_.empty() || std::filesystem::exists(run_dir / "summary.json", failed)) {
    return;
  }
  nlohmann::ordered_json summary;
  summary["outcome"] = "failed";
  summary["exit_code"] = exit_code;
  summary["reason"] = reason;
  summary["error_id"] = "distributed.failed";
  write_file(run_dir.string(),
             "summary.json",
             summary.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

bool RankRecords::claim_report() const {
  if (folder_.empty()) {
    return true;
  }
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  const std::string path = (std::filesystem::path(folder_) / kReport).string();
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) {
    return errno != EEXIST;  // if the folder cannot be written, every process reports
  }
  ::close(file);
  return true;
}

}  // namespace tenon
