// SPDX-License-Identifier: Apache-2.0
//
// Enumerates the windows of a dataset and the files, or rows of files, of each one. Opens files to
// count rows, and reads no rows.
//
// A followed folder is listed again when its windows run out. A window is available once it is
// complete. By files or rows: after `count` of them. By time: once files of a later time, or the
// marker file, have arrived. After the end marker, or `max_wait` seconds without a window, the
// remaining files form the last window.
//
// Files and windows that arrive late are skipped (window_memory.hpp), and a line says so.
// Invariant: the same files give the same windows, in one listing or many. Opened windows never
// change.
// Threads: owned by one thread.
#pragma once

#include <tenon/cpp/options.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "file_list.hpp"
#include "source_file.hpp"
#include "window_memory.hpp"

namespace tenon {

enum class WindowKind { kNone, kFiles, kRows, kTime };

struct FollowOptions {
  double poll_seconds = 1.0;
  double max_wait = 0.0;
  std::string end_marker = "_END";
  std::string window_marker = "_SUCCESS";

  static void bind(OptionBinder<FollowOptions>& binder);
};

// What to do about data that cannot be read as expected.
enum class OnFault { kFail, kSkip, kWait };

struct WindowOptions {
  WindowKind by = WindowKind::kNone;
  int64_t count = 1;
  std::string pattern;
  std::string skip_before;
  std::string skip_after;
  OnFault late = OnFault::kSkip;
  OnFault bad_files = OnFault::kFail;
  bool reads_incomplete = true;
  std::optional<FollowOptions> follow;

  static void bind(OptionBinder<WindowOptions>& binder);
};

// Rows [first, first + count) of a file, across all its row groups. count -1: all rows.
struct WindowPart {
  DataFile file;
  int64_t first = 0;
  int64_t count = -1;
};

struct DataWindow {
  uint64_t id = 0;
  std::string label;
  int64_t time = 0;  // with kTime
  bool is_skipped = false;
  std::vector<DataFile> bad_files;  // that are skipped, and not in `parts`
  // Files of a window that was opened before are gone or differ, so it cannot be resumed.
  bool has_changed = false;
  std::vector<WindowPart> parts;
};

class WindowWalk {
 public:
  using Open = std::function<std::shared_ptr<const SourceFile>(const DataFile&)>;
  // Returns why a new window cannot be opened yet; "" if it can.
  using Awaited = std::function<std::string(const DataWindow&)>;
  using Warn = std::function<void(const std::string&)>;

  // Errors   columnar.bad_windows for options that contradict each other
  WindowWalk(WindowOptions options,
             const std::vector<std::string>& paths,
             Open open,
             Awaited awaited = nullptr,
             Warn warn = nullptr);

  bool has_windows() const { return options_.by != WindowKind::kNone; }
  // The files that exist when the run starts, in window order, without those of skipped windows.
  //
  // Errors   as FileList; columnar.no_file if no file exists; columnar.no_time
  std::vector<DataFile> start();

  // The window that a file is in when the run starts: id, label and time; with windows of rows,
  // none.
  DataWindow window_of(const DataFile& file) const;
  // False if a file of window_of() is late and will be skipped.
  bool may_read(const DataFile& file, const DataWindow& window) const;

  enum class Next { kWindow, kEnd, kNotYet };
  // The next window. Without windows: all data, once. kNotYet: call again after poll_seconds.
  //
  // Errors   columnar.out_of_order, columnar.no_time; as FileList; errors of opening a file
  Next next(DataWindow& out);
  // Starts epoch `epoch`.
  void reset(uint64_t epoch);
  // Remembers a window that is read, with its files and those that it skips.
  void opened(const DataWindow& window);
  bool is_known(const DataWindow& window) const { return memory_.find(window.id) != nullptr; }
  // Adds a line about data that is skipped, and warns of it.
  void leave_out(const std::string& line, const std::string& what = "");
  WindowMemory& memory() { return memory_; }
  double poll_seconds() const { return options_.follow ? options_.follow->poll_seconds : 0; }

 private:
  struct Entry {
    DataFile file;
    int64_t time = 0;        // with kTime: seconds since 1970, UTC
    std::string time_label;  // "2026-11-20/07"
    std::string folder;      // of the window, which has its marker; ends with '/'
    FileMark mark;
  };

  Entry entry_of(const DataFile& file) const;
  void list();
  void add_new(const std::vector<DataFile>& files);
  void keep_order(std::vector<Entry>& found) const;
  bool take(DataWindow& out);
  bool take_files(DataWindow& out);
  bool take_rows(DataWindow& out);
  bool take_time(DataWindow& out);
  bool take_known_files(DataWindow& out);
  void keep_known_files(DataWindow& out) const;
  bool is_late(const DataWindow& window);
  bool may_open(const DataWindow& window);
  void wait_for(const std::string& what);
  void leave_out_late_files();
  bool is_last() const { return has_end_ || (is_last_listing_ && options_.reads_incomplete); }
  bool is_marked(const Entry& last) const;
  bool is_skipped(const std::string& label, int64_t time) const;

  WindowOptions options_;
  FileList files_;
  Open open_;
  Awaited awaited_;
  Warn warn_;
  // With kTime, of `skip_before` and `skip_after`.
  std::optional<int64_t> first_time_;
  std::optional<int64_t> end_time_;
  WindowMemory memory_;
  std::vector<Entry> entries_;  // in window order
  // The windows and files that were returned in this epoch.
  std::set<uint64_t> given_;
  std::set<uint64_t> given_files_;           // marks; with kFiles
  std::map<uint64_t, DataWindow> unopened_;  // with kTime: returned since the last opened window
  std::optional<int64_t> last_time_;         // with kTime: of the last window returned
  size_t next_ = 0;               // first entry that may not, or not fully, have a window
  int64_t next_row_ = 0;          // row within that entry
  int64_t num_windows_ = 0;       // returned in this epoch
  bool is_last_listing_ = false;  // no more files will arrive
  bool has_end_ = false;          // the end marker exists
  bool has_opened_ = false;       // a window, in this process
  bool is_checked_ = false;       // the listing was searched for late files
  std::string waits_for_;
  std::optional<std::chrono::steady_clock::time_point> waits_since_;
};

}  // namespace tenon
