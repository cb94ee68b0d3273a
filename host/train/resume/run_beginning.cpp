// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/run_beginning.hpp"

#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/train/resume/run_file.hpp"

#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using nlohmann::json;

// The keys of the record, and the options that they stand for.
struct Key {
  const char* name;
  const char* option;
  std::string RunBeginning::*value;
};

constexpr Key kKeys[] = {{"import_hf", "--import hf ", &RunBeginning::import_from},
                         {"resume", "--resume ", &RunBeginning::resumed_from},
                         {"import_tables", "--import-tables ", &RunBeginning::tables_from}};

[[noreturn]] void fail(const std::string& file, const std::string& reason) {
  throw Error("run.dir_unwritable",
              file + ", which says what the run began with: " + reason +
                  "; restore it, or start over with --resume none");
}

}  // namespace

std::string RunBeginning::options() const {
  std::string text;
  for (const Key& key : kKeys) {
    if (const std::string& value = this->*key.value; !value.empty()) {
      text += (text.empty() ? "" : " ") + (key.option + value);
    }
  }
  return text;
}

RunBeginning beginning_of(const std::string& run_dir) {
  const std::string file = run_dir + "/" + kBeginningFile;
  const json record = read_run_json(file);
  if (record.is_null()) {
    return {};
  }
  RunBeginning beginning;
  for (const Key& key : kKeys) {
    if (record.is_object() && record.contains(key.name) && record[key.name].is_string()) {
      beginning.*key.value = record[key.name].get<std::string>();
    }
  }
  if (beginning.is_empty()) {
    fail(file, "it has no such record");
  }
  return beginning;
}

void write_beginning(const std::string& run_dir, const RunBeginning& beginning) {
  const std::string file = run_dir + "/" + kBeginningFile;
  std::error_code failed;
  if (beginning.is_empty()) {
    std::filesystem::remove(file, failed);
    if (failed) {
      fail(file, failed.message());
    }
    return;
  }
  json record = json::object();
  for (const Key& key : kKeys) {
    if (const std::string& value = beginning.*key.value; !value.empty()) {
      record[key.name] = value;
    }
  }
  try {
    replace_file(file, record.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  } catch (const DiskError& error) {
    fail(file, std::strerror(error.number()));
  }
}

}  // namespace tenon
