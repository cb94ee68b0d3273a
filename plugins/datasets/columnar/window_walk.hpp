// SPDX-License-Identifier: Apache-2.0
//
// Enumerates the windows of a dataset and the files, or rows of files, of each one. Opens files to
// count rows, and reads no rows.
//
// A followed folder is listed again when its windows run out. A window is available once it is
// complete. By files or rows: after `count` of them. By time: once files of a later time, or the
// marker file, have arrived. After the end marker, or `max_wait` seconds without a window, the
// remaining files form the last window.
// Invariant: the same files give the same windows, in one listing or many. Returned windows never
// change; files that would change them are errors.
// Threads: owned by one thread.
#pragma once

#include <tenon/cpp/options.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "file_list.hpp"
#include "source_file.hpp"

namespace tenon {

enum class WindowKind { kNone, kFiles, kRows, kTime };

struct FollowOptions {
  double poll_seconds = 1.0;
  double max_wait = 0.0;
  std::string end_marker = "_END";
  std::string window_marker = "_SUCCESS";

  static void bind(OptionBinder<FollowOptions>& binder);
};

struct WindowOptions {
  WindowKind by = WindowKind::kNone;
  int64_t count = 1;
  std::string pattern;
  std::string skip_before;
  std::string skip_after;
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
  bool is_skipped = false;
  std::vector<WindowPart> parts;
};

class WindowWalk {
 public:
  using Open = std::function<std::shared_ptr<const SourceFile>(const DataFile&)>;

  // Errors   columnar.bad_windows for options that contradict each other
  WindowWalk(WindowOptions options, const std::vector<std::string>& paths, Open open);

  bool has_windows() const { return options_.by != WindowKind::kNone; }
  // The files that exist when the run starts, in window order, without those of skipped windows.
  //
  // Errors   as FileList; columnar.no_file if no file exists; columnar.no_time
  const std::vector<DataFile>& start();

  enum class Next { kWindow, kEnd, kNotYet };
  // The next window. Without windows: all data, once. kNotYet: call again after poll_seconds.
  //
  // Errors   columnar.out_of_order, columnar.no_time; as FileList; errors of opening a file
  Next next(DataWindow& out);
  // Starts over.
  void reset();
  double poll_seconds() const { return options_.follow ? options_.follow->poll_seconds : 0; }

 private:
  struct Entry {
    DataFile file;
    int64_t time = 0;        // with kTime: seconds since 1970, UTC
    std::string time_label;  // "2026-11-20/07"
  };

  Entry entry_of(const DataFile& file) const;
  void list();
  void add_new(const std::vector<DataFile>& files);
  bool take(DataWindow& out);
  bool take_files(DataWindow& out);
  bool take_rows(DataWindow& out);
  bool take_time(DataWindow& out);
  bool is_marked(const Entry& last) const;
  bool is_skipped(const std::string& label) const;

  WindowOptions options_;
  FileList files_;
  Open open_;
  std::vector<Entry> entries_;  // in window order
  std::vector<DataFile> at_start_;
  size_t next_ = 0;               // first entry not fully part of a window
  int64_t next_row_ = 0;          // row within that entry, with kRows
  int64_t num_windows_ = 0;       // returned in this epoch
  bool is_last_listing_ = false;  // no more files will arrive
  std::optional<std::chrono::steady_clock::time_point> waits_since_;
};

}  // namespace tenon
