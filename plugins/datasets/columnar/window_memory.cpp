// SPDX-License-Identifier: Apache-2.0
#include "window_memory.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "../text_hash.hpp"

namespace tenon {
namespace {

// Entries of a state have at most 1 MiB.
constexpr size_t kMostBytes = size_t{1} << 19;

std::string entry_name(const char* list, size_t i) {
  return std::string(list) + "/" + std::to_string(i);
}

// Puts lines into as many entries as needed: "NAME/0", "NAME/1", ...
void put_lines(StateWriter& writer, const char* name, const std::vector<std::string>& lines) {
  std::string text;
  size_t entry = 0;
  for (const std::string& line : lines) {
    if (!text.empty() && text.size() + line.size() > kMostBytes) {
      writer.put_bytes(entry_name(name, entry++).c_str(), text);
      text.clear();
    }
    text += line + "\n";
  }
  if (!text.empty()) {
    writer.put_bytes(entry_name(name, entry).c_str(), text);
  }
}

std::vector<std::string> get_lines(const StateReader& reader, const char* name) {
  std::vector<std::string> lines;
  for (size_t entry = 0; reader.has(entry_name(name, entry)); ++entry) {
    std::istringstream text(reader.get_bytes(entry_name(name, entry).c_str()));
    for (std::string line; std::getline(text, line);) {
      lines.push_back(line);
    }
  }
  return lines;
}

}  // namespace

FileMark mark_of(const DataFile& file) {
  return {text_hash(file.below + "\n" + std::to_string(file.size)), file.folder};
}

void WindowMemory::see_folders(const std::vector<DataFile>& files) {
  seen_.clear();
  for (const DataFile& file : files) {
    if (std::find(seen_.begin(), seen_.end(), file.folder) == seen_.end()) {
      seen_.push_back(file.folder);
    }
  }
  join_folders();
}

void WindowMemory::join_folders() {
  const auto is_known = [this](const std::string& folder) {
    return std::find(folders_.begin(), folders_.end(), folder) != folders_.end();
  };
  if (std::none_of(seen_.begin(), seen_.end(), is_known)) {
    std::copy_n(seen_.begin(), std::min(seen_.size(), folders_.size()), folders_.begin());
  }
  for (const std::string& folder : seen_) {
    if (!is_known(folder)) {
      folders_.push_back(folder);
    }
  }
}

uint64_t WindowMemory::value_of(const FileMark& mark) const {
  const auto number = std::find(folders_.begin(), folders_.end(), mark.folder) - folders_.begin();
  return number == 0 ? mark.in_folder : text_hash(concat(mark.in_folder, " ", number));
}

const WindowMemory::Known* WindowMemory::find(uint64_t id) const {
  const auto found = std::find_if(
      windows_.begin(), windows_.end(), [id](const Known& known) { return known.id == id; });
  return found == windows_.end() ? nullptr : &*found;
}

void WindowMemory::add(Known known) {
  is_loaded_ = false;
  (known.has_old_marks ? old_files_ : files_).insert(known.files.begin(), known.files.end());
  const auto same = std::find_if(
      windows_.begin(), windows_.end(), [&](const Known& other) { return other.id == known.id; });
  if (same != windows_.end()) {
    *same = std::move(known);
    return;
  }
  windows_.push_back(std::move(known));
  if (windows_.size() > kMostWindows) {
    forgotten_ = std::max(forgotten_.value_or(windows_.front().time), windows_.front().time);
    windows_.erase(windows_.begin());
  }
}

const WindowMemory::Known* WindowMemory::latest() const {
  const auto found =
      std::max_element(windows_.begin(), windows_.end(), [](const Known& a, const Known& b) {
        return a.time < b.time;
      });
  return found == windows_.end() ? nullptr : &*found;
}

bool WindowMemory::add_left_out(const std::string& line, const std::string& what) {
  const bool is_known = std::any_of(left_out_.begin(), left_out_.end(), [&](const auto& other) {
    return other.compare(0, what.size(), what) == 0;
  });
  if (is_known) {
    return false;
  }
  if (left_out_.size() < kMostLines) {
    left_out_.push_back(line);
    std::replace(left_out_.back().begin(), left_out_.back().end(), '\n', ' ');
  } else if (left_out_.size() == kMostLines) {
    left_out_.push_back("more is skipped; the log has the lines");
  }
  return true;
}

void WindowMemory::begin_epoch(uint64_t epoch) {
  if (!is_loaded_ || epoch != epoch_) {
    windows_.clear();
    files_.clear();
    old_files_.clear();
    bad_files_.clear();
    forgotten_.reset();
  }
  epoch_ = epoch;
}

// A window is a line: id, time, number of files, their marks, label.
void WindowMemory::snapshot(StateWriter& writer) const {
  writer.put_int("epoch", static_cast<int64_t>(epoch_));
  if (forgotten_) {
    writer.put_int("forgotten", *forgotten_);
  }
  put_lines(writer, "folders", folders_);
  std::vector<std::string> lines;
  std::vector<std::string> with_old_marks;  // ids
  for (const Known& known : windows_) {
    std::ostringstream line;
    line << known.id << ' ' << known.time << ' ' << known.files.size();
    for (const uint64_t mark : known.files) {
      line << ' ' << mark;
    }
    line << ' ' << known.label;
    lines.push_back(line.str());
    if (known.has_old_marks) {
      with_old_marks.push_back(std::to_string(known.id));
    }
  }
  put_lines(writer, "windows", lines);
  put_lines(writer, "old_marks", with_old_marks);
  std::vector<std::string> bad_files;
  for (const uint64_t mark : bad_files_) {
    bad_files.push_back(std::to_string(mark));
  }
  put_lines(writer, "bad_files", bad_files);
  put_lines(writer, "left_out", left_out_);
}

void WindowMemory::load(const StateReader& reader) {
  WindowMemory loaded;
  loaded.seen_ = std::move(seen_);
  *this = std::move(loaded);
  epoch_ = static_cast<uint64_t>(reader.get_int("epoch"));
  if (reader.has("forgotten")) {
    forgotten_ = reader.get_int("forgotten");
  }
  folders_ = get_lines(reader, "folders");
  join_folders();
  const bool are_all_old = !reader.has(entry_name("folders", 0));  // saved by an earlier release
  const std::vector<std::string> old_lines = get_lines(reader, "old_marks");
  const std::set<std::string> with_old_marks(old_lines.begin(), old_lines.end());
  for (const std::string& text : get_lines(reader, "windows")) {
    std::istringstream line(text);
    Known known;
    size_t num_files = 0;
    line >> known.id >> known.time >> num_files;
    for (uint64_t mark = 0; num_files > 0 && line >> mark; --num_files) {
      known.files.insert(mark);
    }
    line.get();  // the space before the label
    std::getline(line, known.label);
    if (line.bad() || num_files > 0) {
      TENON_FAIL(TENON_DATA_LOSS, "columnar.bad_state", "a saved window is corrupt: ", text);
    }
    known.has_old_marks = are_all_old || with_old_marks.count(std::to_string(known.id)) > 0;
    add(std::move(known));
  }
  for (const std::string& text : get_lines(reader, "bad_files")) {
    std::istringstream line(text);
    uint64_t mark = 0;
    if (!(line >> mark)) {
      TENON_FAIL(TENON_DATA_LOSS, "columnar.bad_state", "a saved file is corrupt: ", text);
    }
    bad_files_.insert(mark);
  }
  left_out_ = get_lines(reader, "left_out");
  is_loaded_ = true;
}

}  // namespace tenon
