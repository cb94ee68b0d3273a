// SPDX-License-Identifier: Apache-2.0
//
// The windows that a run has opened and the files that it has read of each, also before a resume.
// With it, files that arrive for such a window are noticed, and a window that is resumed has the
// files that it had. It also keeps the lines about what was skipped.
// Invariant: a window is remembered once; its files do not change.
// Threads: owned by one thread.
#pragma once

#include <tenon/cpp/stateful.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "file_list.hpp"

namespace tenon {

// Identifies a file: by its path below the named folder, its size, and the folder.
struct FileMark {
  uint64_t in_folder = 0;  // all of it in checkpoints of earlier releases
  std::string folder;
};
FileMark mark_of(const DataFile& file);

class WindowMemory {
 public:
  struct Known {
    uint64_t id = 0;
    int64_t time = 0;  // with windows by time: seconds since 1970
    std::string label;
    std::set<uint64_t> files;    // marks
    bool has_old_marks = false;  // without the folders
  };

  // Adds folders of the data, in the order of `paths`. Known folders keep their numbers. If none is
  // known, all have moved, and follow each other as before.
  void see_folders(const std::vector<DataFile>& files);

  const Known* find(uint64_t id) const;
  // In the order in which they were opened.
  const std::vector<Known>& windows() const { return windows_; }
  // Adds a window, or replaces it.
  void add(Known known);
  // Adds a file that its window skips because it cannot be read.
  void add_bad_file(const FileMark& mark) { bad_files_.insert(value_of(mark)); }
  bool is_bad(const FileMark& mark) const { return bad_files_.count(value_of(mark)) > 0; }
  // True if a remembered window has the file, or skips it.
  bool has_file(const FileMark& mark) const {
    return files_.count(value_of(mark)) > 0 || old_files_.count(mark.in_folder) > 0 || is_bad(mark);
  }
  // True if a window has the file.
  bool has_file(const Known& known, const FileMark& mark) const {
    return known.files.count(known.has_old_marks ? mark.in_folder : value_of(mark)) > 0;
  }
  // The mark in Known::files of a file whose folder was seen. It does not change with the name of
  // the folder.
  uint64_t value_of(const FileMark& mark) const;
  // The latest window that was opened, by time. Null if there is none.
  const Known* latest() const;
  // True for a time up to which all windows count as read, though they are not remembered.
  bool is_forgotten(int64_t time) const { return forgotten_ && time <= *forgotten_; }

  // Adds a line about something that is skipped. Returns false if a line that starts with `what` is
  // known. Of more lines than kMostLines, only the fact is kept.
  bool add_left_out(const std::string& line, const std::string& what);

  // Starts an epoch. The windows of a loaded epoch stay until a window is added.
  void begin_epoch(uint64_t epoch);

  void snapshot(StateWriter& writer) const;
  void load(const StateReader& reader);

 private:
  static constexpr size_t kMostWindows = 4096;
  static constexpr size_t kMostLines = 1000;

  void join_folders();

  std::vector<Known> windows_;
  std::vector<std::string> folders_;  // by number
  std::vector<std::string> seen_;     // folders of the last listing
  std::set<uint64_t> files_;
  std::set<uint64_t> old_files_;  // marks without the folders
  std::set<uint64_t> bad_files_;
  std::optional<int64_t> forgotten_;
  std::vector<std::string> left_out_;
  uint64_t epoch_ = 0;
  bool is_loaded_ = false;  // and nothing was added since
};

}  // namespace tenon
