// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/run_folder.hpp"

#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <unistd.h>
#include <vector>

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &local);
  return text;
}

// `reason` is a value of errno.
[[noreturn]] void fail(const std::string& path, int reason) {
  throw Error("run.dir_unwritable",
              formatted("cannot write to {}: {}; {}, or choose another --run-dir",
                        path,
                        std::strerror(reason),
                        disk_advice(reason)));
}

// True for what a file system keeps in a folder: the root of a new volume, and files that NFS keeps
// while a process has them open.
bool is_of_file_system(const fs::path& entry) {
  std::error_code ignored;
  const std::string name = entry.filename().string();
  return (name == "lost+found" && fs::is_directory(entry, ignored)) || name.starts_with(".nfs");
}

// Returns the name of a file in the folder; "" if it has none except a lock, and the files that a
// run leaves if it is killed before it writes its recipe.
std::string file_in(const std::string& path) {
  std::error_code error;
  const bool has_lock = fs::exists(path + "/" + RunFolder::kLockFile, error);
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const fs::path name = at->path().filename();
    const bool is_of_start = has_lock && (name == "log.txt" || name == "recipe.json.tmp" ||
                                          name == "beginning.json" || name == "beginning.json.tmp");
    if (name != RunFolder::kLockFile && !is_of_start && !is_of_file_system(at->path())) {
      return name.string();
    }
  }
  if (error) {
    fail(path, error.value());
  }
  return "";
}

// The name of a run folder is on the disk before anything in it counts: without the name, a power
// failure would lose all checkpoints in the folder.
void sync_run_name(const std::string& path) {
  try {
    sync_name(path);
  } catch (const DiskError& error) {
    fail(path, error.number());
  }
}

// Returns false if the folder existed.
bool make_run_folder(const std::string& path) {
  try {
    const bool is_new = make_folders(path);
    if (!is_new) {
      sync_name(path);
    }
    return is_new;
  } catch (const DiskError& error) {
    fail(path, error.number());
  }
}

void claim_folder(const RunFolder::Claim& claim, const std::string& path) {
  if (claim) {
    claim(path);
  }
}

}  // namespace

std::string newest_run(const std::string& name,
                       const std::function<bool(const std::string& path)>& is_wanted) {
  const std::string prefix = name + "-";
  std::vector<std::string> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("runs", error)) {
    const std::string folder = entry.path().filename().string();
    // NAME-YYYYMMDD-HHMMSS, and a number if several runs started in the same second.
    if (folder.starts_with(prefix) && folder.size() >= prefix.size() + 15 &&
        folder.find_first_not_of("0123456789-", prefix.size()) == std::string::npos) {
      folders.push_back("runs/" + folder);
    }
  }
  std::ranges::sort(folders, std::greater());
  const auto newest = std::ranges::find_if(folders, is_wanted);
  return newest != folders.end() ? *newest : "";
}

RunFolder RunFolder::create(const std::string& path, const std::string& name, const Claim& claim) {
  std::error_code error;
  if (path.empty()) {
    make_run_folder("runs");
    const std::string stem = "runs/" + name + "-" + time_stamp();
    std::string chosen = stem;
    // Several runs may start in the same second; the run that creates the folder owns it.
    for (int i = 2; !fs::create_directory(chosen, error); ++i) {
      if (error) {
        fail(chosen, error.value());
      }
      chosen = formatted("{}-{}", stem, i);
    }
    sync_run_name(chosen);
    claim_folder(claim, chosen);
    return RunFolder(chosen, Origin::kMade);
  }
  const bool was_there = !make_run_folder(path);
  const auto refuse_unless_empty = [&] {
    if (const std::string file = file_in(path); !file.empty()) {
      const bool has_run = fs::exists(path + "/recipe.json", error);
      throw Error("run.dir_exists",
                  formatted("the run folder {} already exists and is not empty (it has {}); {}",
                            path,
                            file,
                            has_run ? "pass another --run-dir for a new run, or --resume " + path +
                                          " to read the run that is there"
                                    : "pass another --run-dir"));
    }
  };
  // With a lock file, claim first: a running run is a better error than a folder that is not empty.
  if (!fs::exists(path + "/" + kLockFile, error)) {
    refuse_unless_empty();
  }
  if (access(path.c_str(), W_OK) != 0) {
    fail(path, errno);
  }
  claim_folder(claim, path);
  refuse_unless_empty();
  return RunFolder(path, was_there ? Origin::kWasThere : Origin::kMade);
}

void RunFolder::check(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_directory(status)) {
    fail(path, ENOTDIR);
  }
  if (error.value() == ENOTDIR || error.value() == ENAMETOOLONG) {
    fail(path, error.value());
  }
}

RunFolder RunFolder::reopen(const std::string& path) {
  if (access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    fail(path, errno);
  }
  sync_run_name(path);
  return RunFolder(path, Origin::kReopened);
}

RunFolder RunFolder::join(const std::string& path) {
  std::error_code error;
  fs::create_directory(path + "/logs", error);
  if (error) {
    throw Error("run.dir_unwritable",
                formatted("cannot write to {}: {} (rank 0 created it); use a folder that all ranks "
                          "share",
                          path,
                          error.message()));
  }
  return RunFolder(path, Origin::kWasThere);
}

std::string RunFolder::full_path() const {
  std::error_code error;
  const fs::path full = fs::absolute(path_, error);
  return error ? path_ : full.string();
}

std::string RunFolder::file(std::string_view name) const {
  return path_ + "/" + std::string(name);
}

void RunFolder::write(std::string_view name, std::string_view text) const {
  const std::string target = file(name);
  try {
    replace_file(target, text);
  } catch (const DiskError& error) {
    fail(target, error.number());
  }
}

void RunFolder::discard_unless(const std::function<void()>& body) const {
  try {
    body();
  } catch (const Error&) {
    discard();
    throw;
  }
}

void RunFolder::discard() const {
  std::error_code ignored;
  if (origin_ == Origin::kMade) {
    fs::remove_all(path_, ignored);
  } else if (origin_ == Origin::kWasThere) {
    remove_contents();
  }
}

void RunFolder::remove_contents() const {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, ignored)) {
    if (entry.path().filename() != kLockFile && !is_of_file_system(entry.path())) {
      std::error_code also_ignored;
      fs::remove_all(entry.path(), also_ignored);
    }
  }
}

}  // namespace tenon
