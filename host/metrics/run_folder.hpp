// SPDX-License-Identifier: Apache-2.0
//
// The run folder: recipe.json, log.txt, metrics.jsonl, summary.json, and logs/rank-N.txt of ranks
// other than 0.
// Invariant: write() replaces files atomically.
// Threads: [main].
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

// Returns the folder in runs/ of the newest run with this name for which `is_wanted` is true; "" if
// there is none. The newest run is the one that started last.
std::string newest_run(const std::string& name,
                       const std::function<bool(const std::string& path)>& is_wanted);

class RunFolder {
 public:
  // Claims a folder before anything in it changes, and throws if the folder must not be changed. A
  // claim may create kLockFile in the folder and nothing else. RunFolder removes that file only
  // together with the folder.
  using Claim = std::function<void(const std::string& path)>;
  static constexpr char kLockFile[] = ".lock";

  // Creates the folder and its parents. An empty `path` means runs/NAME-TIME in the current folder,
  // with a number appended if that exists.
  // Errors  run.dir_exists if the folder exists and is not empty; run.dir_unwritable; errors of
  //         `claim`
  static RunFolder create(const std::string& path,
                          const std::string& name,
                          const Claim& claim = {});

  // Opens the folder of a run that starts over. Removes its contents, except logs, error reports
  // and checkpoints. Returns nothing if `path` is not a run folder.
  // Errors  run.dir_unwritable; errors of `claim`
  static std::optional<RunFolder> reopen(const std::string& path, const Claim& claim = {});

  // Opens the folder of a run that resumes from a checkpoint. All its contents stay, even if the
  // run fails.
  // Errors  run.dir_unwritable
  static RunFolder resume(const std::string& path);

  // Opens the folder that rank 0 created, and creates the folder for logs of ranks in it.
  // Errors  run.dir_unwritable if the folder cannot be accessed from this rank
  static RunFolder join(const std::string& path);

  const std::string& path() const { return path_; }
  // The absolute path, for ranks that may have another current folder.
  std::string full_path() const;
  std::string file(std::string_view name) const;
  // Writes a file atomically: to a temporary file, which is then renamed.
  // Errors  run.dir_unwritable
  void write(std::string_view name, std::string_view text) const;
  // Removes the contents of the folder, and the folder itself if create() created it. For a run
  // that fails before it starts. Keeps files that cannot be removed, everything that reopen()
  // keeps, and the complete folder of a run that resumes.
  void discard() const;
  // Calls `body`; if it throws an Error, discards the folder and rethrows.
  void discard_unless(const std::function<void()>& body) const;

 private:
  enum class Origin { kMade, kWasThere, kReopened, kResumed };
  RunFolder(std::string path, Origin origin) : path_(std::move(path)), origin_(origin) {}
  void remove_contents() const;

  std::string path_;
  Origin origin_;
};

}  // namespace tenon
