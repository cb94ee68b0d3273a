// SPDX-License-Identifier: Apache-2.0
//
// The folder of the run's output: recipe.json, log.txt, metrics.jsonl, summary.json,
// and of ranks other than 0 logs/rank-N.txt.
// Invariant: files are written atomically.
// Threads: [main].
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

// The folder below runs/ of the newest run of that name that `is_wanted`; "" if there is none.
// The newest is the one that began last.
std::string newest_run(const std::string& name,
                       const std::function<bool(const std::string& path)>& is_wanted);

class RunFolder {
 public:
  // Receives an existing folder, before anything in it is changed, and throws if it may not
  // be. What it leaves in the folder is kLockFile alone, which is left to it.
  using Claim = std::function<void(const std::string& path)>;
  static constexpr char kLockFile[] = ".lock";

  // Makes the folder, with its parents. An empty `path` means runs/NAME-TIME below the current
  // folder, with a number added where that is taken.
  // Errors  run.dir_exists if it exists and is not
  // empty; run.dir_unwritable; those of `claim`
  static RunFolder create(const std::string& path,
                          const std::string& name,
                          const Claim& claim = {});

  // The folder of a run that is started again, with its logs and checkpoints alone: it starts over.
  // None if there is no run's folder at `path`.
  // Errors  run.dir_unwritable; those of `claim`
  static std::optional<RunFolder> reopen(const std::string& path, const Claim& claim = {});

  // The folder of a run that resumes from a checkpoint: all that is in it stays, whatever becomes
  // of the run.
  // Errors  run.dir_unwritable
  static RunFolder resume(const std::string& path);

  // The folder that another rank has made, and in it one for the ranks' logs. Errors
  // run.dir_unwritable if it is not to be seen from here
  static RunFolder join(const std::string& path);

  const std::string& path() const { return path_; }
  // From the root, for ranks that may have another current folder.
  std::string full_path() const;
  std::string file(std::string_view name) const;
  // Writes a file through a temporary one and a rename.
  // Errors  run.dir_unwritable
  void write(std::string_view name, std::string_view text) const;
  // Removes all that has been put into the folder, and the folder where it was made here: for a run
  // that turns out to be none. What cannot be removed stays, and so do logs of an earlier start and
  // everything of a run that continues.
  void discard() const;
  // Calls `body`; where it throws, discards the folder.
  void discard_unless(const std::function<void()>& body) const;

 private:
  enum class Origin { kMade, kWasThere, kReopened, kResumed };
  RunFolder(std::string path, Origin origin) : path_(std::move(path)), origin_(origin) {}
  void remove_contents() const;

  std::string path_;
  Origin origin_;
};

}  // namespace tenon
