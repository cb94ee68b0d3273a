// SPDX-License-Identifier: Apache-2.0
//
// The run folder: recipe.json, log.txt, metrics.jsonl, summary.json, and logs/rank-N.txt of ranks
// other than 0.
// Invariant: write() replaces files atomically.
// Threads: [main].
#pragma once

#include <functional>
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

  // Requires that the path is that of a folder, or can become one: that it is no file, not below a
  // file, and no name that is too long.
  // Errors  run.dir_unwritable
  static void check(const std::string& path);

  // Opens the folder of an earlier start, which the caller has claimed. All its contents stay, even
  // if this start fails.
  // Errors  run.dir_unwritable
  static RunFolder reopen(const std::string& path);

  // Opens the folder that rank 0 created, and creates the folder for logs of ranks in it.
  // Errors  run.dir_unwritable if the folder cannot be accessed from this rank
  static RunFolder join(const std::string& path);

  const std::string& path() const { return path_; }
  // The absolute path, for ranks that may have another current folder.
  std::string full_path() const;
  std::string file(std::string_view name) const;
  // Replaces a file atomically and durably, through a temporary file "{name}.tmp".
  // Errors  run.dir_unwritable
  void write(std::string_view name, std::string_view text) const;
  // Removes the contents of a folder from create(), and the folder itself if create() made it. For
  // a run that fails before it starts. Keeps files that cannot be removed. Does nothing after
  // reopen().
  void discard() const;
  // Calls `body`; if it throws an Error, discards the folder and rethrows.
  void discard_unless(const std::function<void()>& body) const;

 private:
  enum class Origin { kMade, kWasThere, kReopened };
  RunFolder(std::string path, Origin origin) : path_(std::move(path)), origin_(origin) {}
  void remove_contents() const;

  std::string path_;
  Origin origin_;
};

}  // namespace tenon
