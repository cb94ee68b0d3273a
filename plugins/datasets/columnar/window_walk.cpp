// SPDX-License-Identifier: Apache-2.0
#include "window_walk.hpp"

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "../text_hash.hpp"
#include "path_time.hpp"

namespace tenon {
namespace {

// Id of the window of files with this label, which `number` earlier windows have too.
uint64_t id_of(const std::string& label, int number) {
  return text_hash(number == 0 ? label : concat(label, "#", number));
}

}  // namespace

void FollowOptions::bind(OptionBinder<FollowOptions>& binder) {
  binder.field("poll_seconds", &FollowOptions::poll_seconds)
      .exclusive_min(0)
      .doc("polling interval of the folder, seconds");
  binder.field("max_wait", &FollowOptions::max_wait)
      .min(0)
      .doc("seconds to wait for a new window before the data ends; 0: wait forever");
  binder.field("end_marker", &FollowOptions::end_marker)
      .doc("name of the file in the folder that marks the end of the data");
  binder.field("window_marker", &FollowOptions::window_marker)
      .doc("by time: name of the file, in the window's folder, that marks a window as complete");
}

void WindowOptions::bind(OptionBinder<WindowOptions>& binder) {
  binder
      .choice("by",
              &WindowOptions::by,
              {{"none", WindowKind::kNone},
               {"files", WindowKind::kFiles},
               {"rows", WindowKind::kRows},
               {"time", WindowKind::kTime}})
      .doc(
          "how windows are formed: none, every `count` files, every `count` rows, or all files of "
          "one time");
  binder.field("count", &WindowOptions::count).min(1).doc("files or rows per window");
  binder.field("pattern", &WindowOptions::pattern)
      .doc(
          "by time: time pattern in the path, with %Y, %m, %d, %H and %M, for example "
          "\"dt=%Y-%m-%d/hr=%H\"");
  binder.field("skip_before", &WindowOptions::skip_before)
      .doc(
          "skip windows before this time, for example \"2026-11-20\"; by files: whose label sorts "
          "before this one");
  binder.field("skip_after", &WindowOptions::skip_after)
      .doc("skip windows after this time; by files: whose label sorts after this one");
  binder
      .choice("late",
              &WindowOptions::late,
              {{"skip", OnFault::kSkip}, {"wait", OnFault::kWait}, {"fail", OnFault::kFail}})
      .doc("windows and files that arrive after a later window was read; wait: by day or hour");
  binder
      .choice("bad_files",
              &WindowOptions::bad_files,
              {{"fail", OnFault::kFail}, {"skip", OnFault::kSkip}, {"wait", OnFault::kWait}})
      .doc("files that cannot be read, or changed; skip and wait read each window twice");
  binder.choice("incomplete", &WindowOptions::reads_incomplete, {{"read", true}, {"leave", false}})
      .doc("windows at the end of the data that are not known to be complete");
  binder.field("follow", &WindowOptions::follow)
      .doc(
          "keep reading new files that arrive during the run; null: only files present at the "
          "start");
}

WindowWalk::WindowWalk(WindowOptions options,
                       const std::vector<std::string>& paths,
                       Open open,
                       Awaited awaited,
                       Warn warn)
    : options_(std::move(options)),
      files_(paths),
      open_(std::move(open)),
      awaited_(std::move(awaited)),
      warn_(std::move(warn)) {
  const auto fail = [](const std::string& what) {
    TENON_FAIL(TENON_INVALID, "columnar.bad_windows", "`windows` ", what);
  };
  if ((options_.by == WindowKind::kTime) != !options_.pattern.empty()) {
    fail("requires `pattern` if `by` is \"time\", and allows it only then");
  }
  if (options_.by == WindowKind::kTime && options_.pattern.find("%Y") == std::string::npos) {
    fail("has a `pattern` without %Y; add it");
  }
  if (options_.by == WindowKind::kNone &&
      (options_.follow || !options_.skip_before.empty() || !options_.skip_after.empty())) {
    fail(
        "has `by` \"none\", which cannot be combined with `follow`, `skip_before` or `skip_after`");
  }
  if (options_.count != 1 &&
      (options_.by == WindowKind::kNone || options_.by == WindowKind::kTime)) {
    fail("has a `count`, which requires `by` \"files\" or \"rows\"");
  }
  if (options_.late == OnFault::kWait && window_step(options_.pattern) == 0) {
    fail("has `late` \"wait\", which requires a `pattern` by day or hour");
  }
  if (options_.by == WindowKind::kNone && (options_.bad_files == OnFault::kWait)) {
    fail("has `bad_files` \"wait\", which requires windows");
  }
  const auto range_in = [&](const char* key, const std::string& text) {
    const std::optional<TimeRange> range = range_of_label(text);
    if (!range) {
      fail(concat("has `",
                  key,
                  "` ",
                  json_string(text),
                  "; expected a time such as \"2026-11-20\" or \"2026-11-20/07\""));
    }
    return *range;
  };
  if (options_.by == WindowKind::kTime && !options_.skip_before.empty()) {
    first_time_ = range_in("skip_before", options_.skip_before).begin;
  }
  if (options_.by == WindowKind::kTime && !options_.skip_after.empty()) {
    end_time_ = range_in("skip_after", options_.skip_after).end;
  }
}

WindowWalk::Entry WindowWalk::entry_of(const DataFile& file) const {
  Entry entry;
  entry.file = file;
  entry.mark = mark_of(file);
  if (options_.by != WindowKind::kTime) {
    return entry;
  }
  if (const std::optional<PathTime> time = time_in(file.path, options_.pattern)) {
    entry.time = time->seconds;
    entry.time_label = time->label;
    const size_t slash = file.path.find('/', time->end);
    entry.folder =
        file.path.substr(0, slash != std::string::npos ? slash + 1 : file.path.rfind('/') + 1);
    return entry;
  }
  TENON_FAIL(TENON_INVALID,
             "columnar.no_time",
             file.name,
             " has no time in its path that matches the pattern ",
             json_string(options_.pattern));
}

void WindowWalk::add_new(const std::vector<DataFile>& files) {
  memory_.see_folders(files);
  std::vector<Entry> found;
  for (const DataFile& file : files) {
    found.push_back(entry_of(file));
  }
  if (options_.by == WindowKind::kTime) {
    std::stable_sort(found.begin(), found.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.time, a.file.path) < std::tie(b.time, b.file.path);
    });
  }
  if (options_.by == WindowKind::kRows) {
    keep_order(found);
  }
  entries_ = std::move(found);
  next_ = options_.by == WindowKind::kFiles ? 0 : next_;  // new files may be anywhere
  is_checked_ = false;
}

// Windows of rows that were already returned must consist of the same files again.
void WindowWalk::keep_order(std::vector<Entry>& found) const {
  const size_t num_given = next_ + (next_row_ > 0 ? 1 : 0);
  for (size_t i = 0; i < num_given; ++i) {
    const std::string& known = entries_[i].file.path;
    if (i < found.size() && found[i].file.path == known) {
      continue;
    }
    const bool is_new =
        i < found.size() && std::none_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
          return entry.file.path == found[i].file.path;
        });
    if (is_new) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.out_of_order",
                 found[i].file.name,
                 " arrived after ",
                 entries_[i].file.name,
                 " was read; windows of rows need files that arrive in the order of their paths");
    }
    // Files of finished windows may be deleted.
    found.insert(found.begin() + static_cast<std::ptrdiff_t>(i), entries_[i]);
  }
}

void WindowWalk::list() {
  // Check the marker first, so that the listing has every file written before it.
  const bool has_end = files_.has_marker(options_.follow.value_or(FollowOptions()).end_marker);
  add_new(files_.list());
  has_end_ = has_end;
  is_last_listing_ = !options_.follow || has_end;
}

std::vector<DataFile> WindowWalk::start() {
  list();
  std::vector<DataFile> files;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& first =
        entries_[options_.by == WindowKind::kFiles ? i - i % static_cast<size_t>(options_.count)
                                                   : i];
    if ((options_.by != WindowKind::kTime && options_.by != WindowKind::kFiles) ||
        !is_skipped(first.file.below, first.time)) {
      files.push_back(entries_[i].file);
    }
  }
  if (files.empty() && !entries_.empty()) {
    // Every window is skipped: the first file gives the columns.
    files.push_back(entries_.front().file);
  }
  if (files.empty()) {
    TENON_FAIL(TENON_NOT_FOUND,
               "columnar.no_file",
               "no file matches `paths`: ",
               files_.unmatched(),
               options_.follow
                   ? "; a followed folder needs at least one file to determine the columns"
                   : "");
  }
  return files;
}

DataWindow WindowWalk::window_of(const DataFile& file) const {
  DataWindow window;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].file.name != file.name) {
      continue;
    }
    if (options_.by == WindowKind::kTime) {
      window.label = entries_[i].time_label;
      window.id = static_cast<uint64_t>(entries_[i].time);
      window.time = entries_[i].time;
    } else if (options_.by == WindowKind::kFiles) {
      const auto count = static_cast<size_t>(options_.count);
      window.label = entries_[i - i % count].file.below;
      int number = 0;
      for (size_t first = 0; first + count <= i; first += count) {
        number += entries_[first].file.below == window.label ? 1 : 0;
      }
      window.id = id_of(window.label, number);
    }
  }
  return window;
}

bool WindowWalk::may_read(const DataFile& file, const DataWindow& window) const {
  if (options_.by != WindowKind::kTime || options_.late == OnFault::kFail) {
    return true;
  }
  if (const WindowMemory::Known* const known = memory_.find(window.id)) {
    return memory_.has_file(*known, mark_of(file));
  }
  const WindowMemory::Known* const latest = memory_.latest();
  return !memory_.is_forgotten(window.time) && (latest == nullptr || window.time > latest->time);
}

bool WindowWalk::is_marked(const Entry& entry) const {
  const auto info = entry.file.file_system->GetFileInfo(
      entry.folder + options_.follow.value_or(FollowOptions()).window_marker);
  return info.ok() && info->type() == arrow::fs::FileType::File;
}

// A window that was opened before has the files that it had then. Without some of them it has all
// that exist, for a run that starts the window over.
void WindowWalk::keep_known_files(DataWindow& out) const {
  const WindowMemory::Known& known = *memory_.find(out.id);
  std::vector<WindowPart> kept;
  for (const WindowPart& part : out.parts) {
    if (memory_.has_file(known, mark_of(part.file))) {
      kept.push_back(part);
    }
  }
  out.has_changed = kept.size() < known.files.size();
  if (!out.has_changed) {
    out.parts = std::move(kept);
  }
}

bool WindowWalk::take_known_files(DataWindow& out) {
  for (const WindowMemory::Known& known : memory_.windows()) {
    if (given_.count(known.id) > 0) {
      continue;
    }
    for (const Entry& entry : entries_) {
      if (memory_.has_file(known, entry.mark)) {
        out.parts.push_back({entry.file});
      }
    }
    given_.insert(known.id);
    if (!out.parts.empty()) {  // files of finished windows may be deleted
      out.label = known.label;
      out.id = known.id;
      out.has_changed = out.parts.size() < known.files.size();
      return true;
    }
  }
  return false;
}

// Files that no window has are next, in order of their paths, whenever they arrived.
bool WindowWalk::take_files(DataWindow& out) {
  if (take_known_files(out)) {
    return true;
  }
  const auto count = static_cast<size_t>(options_.count);
  const auto has_window = [this](const Entry& entry) {
    return given_files_.count(memory_.value_of(entry.mark)) > 0 || memory_.has_file(entry.mark);
  };
  while (next_ < entries_.size() && has_window(entries_[next_])) {
    ++next_;
  }
  for (size_t i = next_; i < entries_.size() && out.parts.size() < count; ++i) {
    if (!has_window(entries_[i])) {
      out.parts.push_back({entries_[i].file});
    }
  }
  if (out.parts.empty() || (out.parts.size() < count && !is_last())) {
    return false;
  }
  // Identified by its first file, so that the id survives moving the folder.
  out.label = out.parts.front().file.below;
  int number = 0;
  do {
    out.id = id_of(out.label, number++);
  } while (given_.count(out.id) > 0 || memory_.find(out.id) != nullptr);
  if (!is_skipped(out.label, out.time) && !may_open(out)) {
    return false;
  }
  given_.insert(out.id);
  for (const WindowPart& part : out.parts) {
    given_files_.insert(memory_.value_of(mark_of(part.file)));
  }
  return true;
}

bool WindowWalk::take_rows(DataWindow& out) {
  int64_t wanted = options_.count;
  size_t at = next_;
  int64_t row = next_row_;
  for (; wanted > 0 && at < entries_.size(); row = 0, ++at) {
    const int64_t rows = open_(entries_[at].file)->num_rows();
    const int64_t take = std::min(wanted, rows - row);
    if (take > 0) {
      out.parts.push_back({entries_[at].file, row, take});
      wanted -= take;
    }
    if (row + take < rows) {
      row += take;
      break;
    }
  }
  if (out.parts.empty() || (wanted > 0 && !is_last())) {
    return false;
  }
  next_ = at;
  next_row_ = row;
  char label[32];
  std::snprintf(
      label, sizeof(label), "rows %012lld", static_cast<long long>(num_windows_ * options_.count));
  out.label = label;
  out.id = static_cast<uint64_t>(num_windows_);
  return true;
}

bool WindowWalk::take_time(DataWindow& out) {
  for (size_t begin = 0; begin < entries_.size();) {
    const Entry& first = entries_[begin];
    size_t end = begin;
    while (end < entries_.size() && entries_[end].time == first.time) {
      ++end;
    }
    if (given_.count(static_cast<uint64_t>(first.time)) > 0) {
      begin = end;
      continue;
    }
    out = {};
    out.id = static_cast<uint64_t>(first.time);
    out.time = first.time;
    out.label = first.time_label;
    for (size_t i = begin; i < end; ++i) {
      out.parts.push_back({entries_[i].file});
    }
    out.is_skipped = memory_.is_forgotten(out.time);
    if (memory_.find(out.id) != nullptr) {
      keep_known_files(out);
    } else if (!out.is_skipped && is_late(out)) {
      out.is_skipped = true;
    } else if (!out.is_skipped) {
      const bool is_whole = end < entries_.size() || is_last() || is_marked(first);
      if (!is_whole || (!is_skipped(out.label, out.time) && !may_open(out))) {
        return false;
      }
    }
    given_.insert(out.id);
    last_time_ = std::max(last_time_.value_or(out.time), out.time);
    unopened_[out.id] = out;
    return true;
  }
  return false;
}

// True for a new window that precedes one that was opened.
bool WindowWalk::is_late(const DataWindow& window) {
  const WindowMemory::Known* const latest = memory_.latest();
  if (latest == nullptr || window.time > latest->time || is_skipped(window.label, window.time)) {
    return false;
  }
  if (options_.late == OnFault::kFail) {
    TENON_FAIL(TENON_INVALID,
               "columnar.late",
               "window ",
               window.label,
               " (",
               window.parts.front().file.name,
               ") arrived after window ",
               latest->label,
               " was read; set `windows.late` to \"skip\", or remove its files");
  }
  const std::string what = concat("window ", window.label, " is skipped");
  leave_out(concat(what, ": it arrived after window ", latest->label, " was read"), what);
  return true;
}

// True if a new window can be opened now.
bool WindowWalk::may_open(const DataWindow& window) {
  const WindowMemory::Known* const latest = memory_.latest();
  if (options_.late == OnFault::kWait && (latest != nullptr || last_time_)) {
    const int64_t before =
        std::max(latest != nullptr ? latest->time : *last_time_, last_time_.value_or(INT64_MIN));
    if (window.time > before + window_step(options_.pattern)) {
      wait_for(concat("the window before ", window.label));
      return false;
    }
  }
  const std::string why = awaited_ ? awaited_(window) : "";
  if (!why.empty()) {
    wait_for(concat("window ", window.label, ": ", why));
  }
  return why.empty();
}

void WindowWalk::wait_for(const std::string& what) {
  if (waits_for_ != what) {
    waits_for_ = what;
    if (warn_) {
      warn_("waiting for " + what);
    }
  }
}

void WindowWalk::leave_out(const std::string& line, const std::string& what) {
  if (memory_.add_left_out(line, what.empty() ? line : what) && warn_) {
    warn_(line);
  }
}

// A window that is resumed and has lost files is checked when it is opened.
void WindowWalk::leave_out_late_files() {
  if (is_checked_ || options_.by != WindowKind::kTime) {
    return;
  }
  is_checked_ = true;
  for (const WindowMemory::Known& known : memory_.windows()) {
    std::vector<std::string> late;
    size_t num_kept = 0;
    Entry of_window;
    of_window.time = known.time;
    const auto [begin, end] = std::equal_range(
        entries_.begin(), entries_.end(), of_window, [](const Entry& a, const Entry& b) {
          return a.time < b.time;
        });
    for (auto entry = begin; entry != end; ++entry) {
      if (memory_.has_file(known, entry->mark)) {
        ++num_kept;
      } else if (!memory_.is_bad(entry->mark)) {
        late.push_back(entry->file.name);
      }
    }
    const bool may_be_open = !has_opened_ && &known == &memory_.windows().back();
    if (late.empty() || (may_be_open && num_kept < known.files.size())) {
      continue;
    }
    if (options_.late == OnFault::kFail) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.late",
                 late.front(),
                 " arrived after its window ",
                 known.label,
                 " was read; set `windows.late` to \"skip\", or remove the file");
    }
    for (const std::string& name : late) {
      leave_out(
          concat(name, " is skipped: it arrived after its window ", known.label, " was read"));
    }
  }
}

// Windows that were returned and not opened are skipped by the host. Files that arrive for them are
// not late.
void WindowWalk::opened(const DataWindow& window) {
  const auto add = [this](const DataWindow& read) {
    WindowMemory::Known known{read.id, read.time, read.label, {}};
    for (const WindowPart& part : read.parts) {
      known.files.insert(memory_.value_of(mark_of(part.file)));
    }
    memory_.add(std::move(known));
    for (const DataFile& file : read.bad_files) {
      memory_.add_bad_file(mark_of(file));
    }
  };
  if (options_.by != WindowKind::kTime && options_.by != WindowKind::kFiles) {
    return;
  }
  for (const auto& [id, other] : unopened_) {
    if (other.time < window.time && memory_.find(id) == nullptr && !other.is_skipped) {
      add(other);
    }
  }
  unopened_.clear();
  add(window);
  has_opened_ = true;
}

bool WindowWalk::take(DataWindow& out) {
  out = {};
  switch (options_.by) {
    case WindowKind::kFiles:
      return take_files(out);
    case WindowKind::kRows:
      return take_rows(out);
    case WindowKind::kTime:
      return take_time(out);
    case WindowKind::kNone:
      break;
  }
  if (num_windows_ > 0) {
    return false;
  }
  for (const Entry& entry : entries_) {
    out.parts.push_back({entry.file});
  }
  return true;
}

WindowWalk::Next WindowWalk::next(DataWindow& out) {
  leave_out_late_files();
  bool has_window = take(out);
  if (!has_window && !is_last_listing_) {
    list();
    leave_out_late_files();
    has_window = take(out);
    if (!has_window && !is_last_listing_) {
      const auto now = std::chrono::steady_clock::now();
      waits_since_ = waits_since_.value_or(now);
      const std::chrono::duration<double> waited = now - *waits_since_;
      if (options_.follow->max_wait <= 0 || waited.count() < options_.follow->max_wait) {
        return Next::kNotYet;
      }
      is_last_listing_ = true;
      has_window = take(out);
    }
  }
  waits_since_.reset();
  if (!has_window) {
    return Next::kEnd;
  }
  ++num_windows_;
  out.is_skipped = out.is_skipped || is_skipped(out.label, out.time);
  return Next::kWindow;
}

bool WindowWalk::is_skipped(const std::string& label, int64_t time) const {
  if (options_.by == WindowKind::kTime) {
    return (first_time_ && time < *first_time_) || (end_time_ && time >= *end_time_);
  }
  const std::string& after = options_.skip_after;
  return (!options_.skip_before.empty() && label < options_.skip_before) ||
         (!after.empty() && label > after && label.compare(0, after.size(), after) != 0);
}

void WindowWalk::reset(uint64_t epoch) {
  memory_.begin_epoch(epoch);
  given_.clear();
  given_files_.clear();
  unopened_.clear();
  last_time_.reset();
  is_checked_ = false;
  next_ = 0;
  next_row_ = 0;
  num_windows_ = 0;
  waits_since_.reset();
}

}  // namespace tenon
