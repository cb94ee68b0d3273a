// SPDX-License-Identifier: Apache-2.0
#include "window_walk.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <tuple>

namespace tenon {
namespace {

// FNV-1a: the same values on every machine.
uint64_t id_of(const std::string& text) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return hash;
}

struct TimeOfPath {
  std::array<int, 5> parts = {1970, 1, 1, 0, 0};  // year, month, day, hour, minute
  int finest = -1;                                // index of the finest part in the pattern
  size_t end = 0;                                 // end of the match in the text
};

constexpr std::array<char, 5> kTimeLetters = {'Y', 'm', 'd', 'H', 'M'};

// Matches `pattern` at text[at]; none if it does not match.
std::optional<TimeOfPath> match_at(const std::string& text, size_t at, const std::string& pattern) {
  TimeOfPath out;
  for (size_t p = 0; p < pattern.size(); ++p) {
    if (pattern[p] != '%' || p + 1 == pattern.size()) {
      if (at >= text.size() || text[at] != pattern[p]) {
        return std::nullopt;
      }
      ++at;
      continue;
    }
    const auto letter = static_cast<size_t>(
        std::find(kTimeLetters.begin(), kTimeLetters.end(), pattern[++p]) - kTimeLetters.begin());
    if (letter == kTimeLetters.size()) {
      return std::nullopt;
    }
    // Four digits of a year. Other parts may have one digit, as Spark writes them, unless digits of
    // the next part follow.
    const auto is_digit = [&](size_t i) {
      return i < text.size() && text[i] >= '0' && text[i] <= '9';
    };
    const bool may_be_short = letter > 0 && (p + 1 == pattern.size() || pattern[p + 1] != '%');
    const size_t most = letter == 0 ? 4 : 2;
    size_t digits = 0;
    int value = 0;
    for (; digits < most && is_digit(at); ++digits) {
      value = value * 10 + (text[at++] - '0');
    }
    if (digits < most && !(may_be_short && digits == 1)) {
      return std::nullopt;
    }
    out.parts[letter] = value;
    out.finest = std::max(out.finest, static_cast<int>(letter));
  }
  out.end = at;
  return out;
}

// Days since 1970-01-01 of a date in the Gregorian calendar.
//
// Source   Howard Hinnant, chrono-Compatible Low-Level Date Algorithms (2013), days_from_civil
int64_t days_of(int year, int month, int day) {
  const int64_t y = month <= 2 ? year - 1 : year;
  const int64_t era = (y >= 0 ? y : y - 399) / 400;
  const int64_t year_of_era = y - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

bool is_time(const TimeOfPath& time) {
  const auto [year, month, day, hour, minute] = time.parts;
  constexpr std::array<int, 12> kDays = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return month >= 1 && month <= 12 && day >= 1 && day <= kDays[static_cast<size_t>(month - 1)] &&
         !(month == 2 && day == 29 && !is_leap) && hour <= 23 && minute <= 59;
}

// Seconds from a window to the next one; 0 if they differ.
int64_t step_of(const std::string& pattern) {
  const auto has = [&](const char* part) { return pattern.find(part) != std::string::npos; };
  return has("%M") || !has("%d") ? 0 : has("%H") ? 3600 : 86400;
}

// "2026-11-20/07:30", down to the finest part of the pattern.
std::string label_of(const TimeOfPath& time) {
  const auto& [year, month, day, hour, minute] = time.parts;
  char text[80];
  switch (time.finest) {
    case 0:
      std::snprintf(text, sizeof(text), "%04d", year);
      break;
    case 1:
      std::snprintf(text, sizeof(text), "%04d-%02d", year, month);
      break;
    case 2:
      std::snprintf(text, sizeof(text), "%04d-%02d-%02d", year, month, day);
      break;
    case 3:
      std::snprintf(text, sizeof(text), "%04d-%02d-%02d/%02d", year, month, day, hour);
      break;
    default:
      std::snprintf(text, sizeof(text), "%04d-%02d-%02d/%02d:%02d", year, month, day, hour, minute);
  }
  return text;
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
      .doc("skip windows whose label sorts before this one, for example \"2026-11-20\"");
  binder.field("skip_after", &WindowOptions::skip_after)
      .doc("skip windows whose label sorts after this one");
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
  const auto fail = [](const char* what) {
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
  if (options_.late == OnFault::kWait && step_of(options_.pattern) == 0) {
    fail("has `late` \"wait\", which requires a `pattern` by day or hour");
  }
  if (options_.by == WindowKind::kNone && (options_.bad_files == OnFault::kWait)) {
    fail("has `bad_files` \"wait\", which requires windows");
  }
}

WindowWalk::Entry WindowWalk::entry_of(const DataFile& file) const {
  Entry entry;
  entry.file = file;
  if (options_.by != WindowKind::kTime) {
    return entry;
  }
  // Takes the last match: dates in parent folders may mean something else.
  for (size_t at = file.path.size(); at-- > 0;) {
    const std::optional<TimeOfPath> time = match_at(file.path, at, options_.pattern);
    if (time && is_time(*time)) {
      entry.time =
          ((days_of(time->parts[0], time->parts[1], time->parts[2]) * 24) + time->parts[3]) * 3600 +
          time->parts[4] * 60;
      entry.time_label = label_of(*time);
      const size_t slash = file.path.find('/', time->end);
      entry.folder =
          file.path.substr(0, slash != std::string::npos ? slash + 1 : file.path.rfind('/') + 1);
      return entry;
    }
  }
  TENON_FAIL(TENON_INVALID,
             "columnar.no_time",
             file.name,
             " has no time in its path that matches the pattern ",
             json_string(options_.pattern));
}

void WindowWalk::add_new(const std::vector<DataFile>& files) {
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

const std::vector<DataFile>& WindowWalk::start() {
  list();
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& first =
        entries_[options_.by == WindowKind::kFiles ? i - i % static_cast<size_t>(options_.count)
                                                   : i];
    if ((options_.by != WindowKind::kTime && options_.by != WindowKind::kFiles) ||
        !is_skipped(options_.by == WindowKind::kTime ? first.time_label : first.file.below)) {
      at_start_.push_back(entries_[i].file);
    }
  }
  for (const Entry& entry : entries_) {
    if (!at_start_.empty()) {
      break;
    }
    at_start_.push_back(entry.file);  // every window is skipped: the first file gives the columns
  }
  if (at_start_.empty()) {
    TENON_FAIL(TENON_NOT_FOUND,
               "columnar.no_file",
               "no file matches `paths`",
               options_.follow
                   ? "; a followed folder needs at least one file to determine the columns"
                   : "");
  }
  return at_start_;
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
    } else if (options_.by == WindowKind::kFiles) {
      window.label = entries_[i - i % static_cast<size_t>(options_.count)].file.below;
      window.id = id_of(window.label);
    }
  }
  return window;
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
    if (known.files.count(mark_of(part.file)) > 0) {
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
      if (known.files.count(mark_of(entry.file)) > 0) {
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
  for (const Entry& entry : entries_) {
    const uint64_t mark = mark_of(entry.file);
    if (out.parts.size() < count && given_files_.count(mark) == 0 && !memory_.has_file(mark)) {
      out.parts.push_back({entry.file});
    }
  }
  if (out.parts.empty() || (out.parts.size() < count && !is_last())) {
    return false;
  }
  // Identified by its first file, so that the id survives moving the folder.
  out.label = out.parts.front().file.below;
  out.id = id_of(out.label);
  for (int number = 1; given_.count(out.id) > 0 || memory_.find(out.id) != nullptr; ++number) {
    out.id = id_of(concat(out.label, "#", number));
  }
  if (!is_skipped(out.label) && !may_open(out)) {
    return false;
  }
  given_.insert(out.id);
  for (const WindowPart& part : out.parts) {
    given_files_.insert(mark_of(part.file));
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
    out = {};
    out.id = static_cast<uint64_t>(first.time);
    out.time = first.time;
    out.label = first.time_label;
    size_t end = begin;
    for (; end < entries_.size() && entries_[end].time == first.time; ++end) {
      out.parts.push_back({entries_[end].file});
    }
    if (given_.count(out.id) > 0) {
      begin = end;
      continue;
    }
    out.is_skipped = memory_.is_forgotten(out.time);
    if (memory_.find(out.id) != nullptr) {
      keep_known_files(out);
    } else if (!out.is_skipped && is_late(out)) {
      out.is_skipped = true;
    } else if (!out.is_skipped) {
      const bool is_whole = end < entries_.size() || is_last() || is_marked(first);
      if (!is_whole || (!is_skipped(out.label) && !may_open(out))) {
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
  if (latest == nullptr || window.time > latest->time || is_skipped(window.label)) {
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
  leave_out(concat("window ",
                   window.label,
                   " is skipped: it arrived after window ",
                   latest->label,
                   " was read"));
  return true;
}

// True if a new window can be opened now.
bool WindowWalk::may_open(const DataWindow& window) {
  const WindowMemory::Known* const latest = memory_.latest();
  if (options_.late == OnFault::kWait && (latest != nullptr || last_time_)) {
    const int64_t before =
        std::max(latest != nullptr ? latest->time : *last_time_, last_time_.value_or(INT64_MIN));
    if (window.time > before + step_of(options_.pattern)) {
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

void WindowWalk::leave_out(const std::string& line) {
  if (memory_.add_left_out(line) && warn_) {
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
    const auto [begin, end] =
        std::equal_range(entries_.begin(),
                         entries_.end(),
                         Entry{{}, known.time, {}, {}},
                         [](const Entry& a, const Entry& b) { return a.time < b.time; });
    for (auto entry = begin; entry != end; ++entry) {
      if (known.files.count(mark_of(entry->file)) > 0) {
        ++num_kept;
      } else {
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
      known.files.insert(mark_of(part.file));
    }
    memory_.add(std::move(known));
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
  next_ = entries_.size();
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
  out.is_skipped = out.is_skipped || is_skipped(out.label);
  return Next::kWindow;
}

bool WindowWalk::is_skipped(const std::string& label) const {
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
