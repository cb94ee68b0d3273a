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
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "file_list.hpp"

namespace tenon {

// Identifies a file: its path below the named folder, and its size. The folder may move.
uint64_t mark_of(const DataFile& file);

class WindowMemory {
 public:
  struct Known {
    uint64_t id = 0;
    int64_t time = 0;  // with windows by time: seconds since 1970
    std::string label;
    std::set<uint64_t> files;  // marks
  };

  const Known* find(uint64_t id) const;
  // In the order in which they were opened.
  const std::vector<Known>& windows() const { return windows_; }
  // Adds a window, or replaces it.
  void add(Known known);
  // True if a remembered window has the file.
  bool has_file(uint64_t mark) const { return files_.count(mark) > 0; }
  // The latest window that was opened, by time. Null if there is none.
  const Known* latest() const;
  // True for a time up to which all windows count as read, though they are not remembered.
  bool is_forgotten(int64_t time) const { return forgotten_ && time <= *forgotten_; }

  // Adds a line about something that is skipped. Returns false if the line is known.
  bool add_left_out(const std::string& line);

  // Starts an epoch. The windows of a loaded epoch stay until a window is added.
  void begin_epoch(uint64_t epoch);

  void snapshot(StateWriter& writer) const;
  void load(const StateReader& reader);

 private:
  static constexpr size_t kMostWindows = 4096;
  static constexpr size_t kMostLines = 1000;

  std::vector<Known> windows_;
  std::set<uint64_t> files_;
  std::optional<int64_t> forgotten_;
  std::vector<std::string> left_out_;
  uint64_t epoch_ = 0;
  bool is_loaded_ = false;  // and nothing was added since
};

}  // namespace tenon
