// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/last_step.hpp"

#include "host/io/regular_file.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <unistd.h>

namespace tenon {
namespace {

constexpr char kFile[] = "last_step";
constexpr int kLineBytes = 21;   // the longest step and a line break: each write replaces the last
constexpr int kMostParents = 3;  // RUN/exports/FORMAT/NAME

const char* what_lacks_it(CheckpointUse use) {
  switch (use) {
    case CheckpointUse::kResume:
      return "the run resumes without that training";
    case CheckpointUse::kEvaluate:
      return "the evaluation is without that training";
    case CheckpointUse::kExport:
      return "the export is without that training";
  }
  return "";
}

}  // namespace

LastStepWriter::LastStepWriter(const std::string& run_dir) : path_(run_dir + "/" + kFile) {}

LastStepWriter::~LastStepWriter() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

void LastStepWriter::write(uint64_t step) {
  if (has_failed_) {
    return;
  }
  if (fd_ < 0) {
    // O_NONBLOCK: a FIFO of that name fails instead of waiting for a reader.
    fd_ = ::open(
        path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666);
  }
  char line[kLineBytes + 1];
  std::snprintf(line, sizeof(line), "%-20llu\n", static_cast<unsigned long long>(step));
  if (fd_ < 0 || ::pwrite(fd_, line, kLineBytes, 0) != kLineBytes) {
    has_failed_ = true;
    log_warning(path_ + ": the last step cannot be recorded: " + std::strerror(errno));
  }
}

std::optional<uint64_t> last_step_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path folder = fs::absolute(path, ignored).lexically_normal();
  if (!folder.has_filename()) {  // the path ended in '/'
    folder = folder.parent_path();
  }
  for (int i = 0; i <= kMostParents; ++i, folder = folder.parent_path()) {
    constexpr uint64_t kMaxBytes = 1000;
    std::istringstream in(read_file_text((folder / kFile).string(), kMaxBytes).text);
    uint64_t step = 0;
    if (in >> step) {
      return step;
    }
    if (fs::exists(folder / "recipe.json", ignored) &&
        !fs::exists(folder / "index.json", ignored)) {
      return std::nullopt;  // a run folder; checkpoints also contain a recipe
    }
  }
  return std::nullopt;
}

std::optional<std::string> missing_training_text(const std::string& path,
                                                 const std::string& address,
                                                 const CheckpointMetadata& metadata,
                                                 CheckpointUse use) {
  const std::optional<uint64_t> last = last_step_of(path);
  const std::string taken =
      formatted("step {}{}", metadata.step, metadata.step == 0 ? ", the initial weights" : "");
  if (last.has_value() && *last > metadata.step) {
    return formatted("{} is from {}, but the run trained on to step {}; {}",
                     address,
                     taken,
                     *last,
                     what_lacks_it(use));
  }
  if (use == CheckpointUse::kExport && metadata.step == 0) {
    return address + " is from " + taken + ": no training is exported";
  }
  return std::nullopt;
}

}  // namespace tenon
