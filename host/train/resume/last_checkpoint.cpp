// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/last_checkpoint.hpp"

#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/log/log.hpp"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace tenon {
namespace {

std::string last_checkpoint_file(const std::string& run_dir) {
  return run_dir + "/last_checkpoint";
}

}  // namespace

void write_last_checkpoint(const std::string& run_dir, const std::string& address) {
  try {
    replace_file(last_checkpoint_file(run_dir), address + "\n");
  } catch (const Error& error) {
    log_warning(std::string(error.what()) + "; the run continues without a record of " + address);
  }
}

std::optional<std::string> last_checkpoint_of(const std::string& run_dir) {
  const std::string file = last_checkpoint_file(run_dir);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    return std::nullopt;
  }
  std::string address;  // "" if the file cannot be read: a checkpoint is recorded all the same
  std::ifstream in(file);
  std::getline(in, address);
  return address;
}

}  // namespace tenon
