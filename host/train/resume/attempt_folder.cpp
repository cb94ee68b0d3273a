// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/attempt_folder.hpp"

#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/io/regular_file.hpp"
#include "host/recipe/frozen.hpp"
#include "host/text/formatted.hpp"
#include "host/train/resume/run_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAttemptPrefix = "attempt-";

// True for the prefix and a number: "errors-2".
bool is_numbered(std::string_view name, std::string_view prefix) {
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

// True for files in the root of a run folder that a start writes, whatever its recipe: of the host,
// with the temporary files that a crash leaves, and event files for TensorBoard.
bool is_of_each_start(std::string_view name) {
  constexpr std::array<std::string_view, 12> kNames = {"errors",
                                                       "kernels.json",
                                                       "kernels.json.tmp",
                                                       "last_checkpoint",
                                                       "last_checkpoint.tmp",
                                                       "last_step",
                                                       "log.txt",
                                                       "logs",
                                                       "profile.json",
                                                       "recipe.json.tmp",
                                                       "summary.json",
                                                       "summary.json.tmp"};
  return std::ranges::find(kNames, name) != kNames.end() || is_numbered(name, "errors-") ||
         name.starts_with("summary.json.part") || name.starts_with("events.out.tfevents.");
}

// Returns the path below the run folder that an option names; "" if the option names none, or one
// that stays.
std::string path_in_run(const std::string& option) {
  fs::path path = fs::path(option).lexically_normal();
  if (!path.has_filename()) {  // ends in '/'
    path = path.parent_path();
  }
  if (path.empty() || path.is_absolute()) {
    return "";
  }
  const std::string first = path.begin()->string();
  const bool stays = first.starts_with('.') || first == "checkpoints" || first == "exports" ||
                     first == "recipe.json" || is_numbered(first, kAttemptPrefix);
  return stays ? "" : path.string();
}

// Returns the paths below the run folder that options of sinks and hooks in its recipe.json may
// name. The recipe has every default.
std::set<std::string> named_by_options(const std::string& run_dir) {
  std::set<std::string> paths;
  const nlohmann::json recipe = read_run_json(run_dir + "/recipe.json");
  for (const char* const section : {"sinks", "hooks"}) {
    if (!recipe.is_object() || !recipe.contains(section)) {
      continue;
    }
    const auto values = recipe[section].flatten();
    for (const auto& [key, value] : values.items()) {
      if (value.is_string() && key.find("/options/") != std::string::npos) {
        paths.insert(path_in_run(expanded_string(value.get<std::string>())));
      }
    }
  }
  paths.erase("");
  return paths;
}

// Returns what put_attempt_aside() moves, as paths below the run folder; folders come before their
// contents.
std::set<std::string> files_of_attempt(const std::string& run_dir, std::error_code& error) {
  std::set<std::string> files = named_by_options(run_dir);
  std::erase_if(files, [&](const std::string& file) {
    std::error_code ignored;
    return !fs::exists(fs::symlink_status(run_dir + "/" + file, ignored));
  });
  for (fs::directory_iterator at(run_dir, error), end; !error && at != end; at.increment(error)) {
    if (const std::string name = at->path().filename().string(); is_of_each_start(name)) {
      files.insert(name);
    }
  }
  return files;
}

[[noreturn]] void fail(const std::string& run_dir,
                       const std::string& file,
                       const std::string& reason) {
  throw Error("run.dir_unwritable",
              "cannot move " + file + " of the earlier attempt aside: " + reason + "; make " +
                  run_dir + " writable, or choose another --run-dir");
}

// Creates and returns the first attempt-N that does not exist.
std::string new_attempt_folder(const std::string& run_dir) {
  for (int number = 1;; ++number) {
    std::string path = formatted("{}/{}{}", run_dir, kAttemptPrefix, number);
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(path, ignored)) && make_folders(path)) {
      return path;
    }
  }
}

// The name of the folder that the file goes to is on the disk before the file moves, so that a
// power failure cannot lose the file.
void move_into(const std::string& attempt, const std::string& run_dir, const std::string& file) {
  const fs::path from = fs::path(run_dir) / file;
  const fs::path to = fs::path(attempt) / file;
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(from, ignored))) {  // moved with its folder
    return;
  }
  make_folders(to.parent_path().string());
  rename_path(from.string(), to.string());
  sync_folder(to.parent_path().string());
}

void copy_recipe(const std::string& run_dir, const std::string& attempt) {
  const FileText recipe = read_file_text(run_dir + "/recipe.json", kMaxRunFile);
  if (!recipe.problem.empty()) {
    fail(run_dir, "recipe.json", recipe.problem);
  }
  replace_file(attempt + "/recipe.json", recipe.text);
}

}  // namespace

std::string put_attempt_aside(const std::string& run_dir) {
  std::error_code error;
  const std::set<std::string> files = files_of_attempt(run_dir, error);
  if (error) {
    fail(run_dir, run_dir, error.message());
  }
  if (files.empty()) {
    return "";
  }
  std::string moving = "recipe.json";
  try {
    const std::string attempt = new_attempt_folder(run_dir);
    copy_recipe(run_dir, attempt);
    for (const std::string& file : files) {
      moving = file;
      move_into(attempt, run_dir, file);
    }
    return attempt;
  } catch (const DiskError& failed) {
    fail(run_dir, moving, std::strerror(failed.number()));
  }
}

}  // namespace tenon
