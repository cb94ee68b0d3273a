// SPDX-License-Identifier: Apache-2.0
#include "window_memory.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

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

// FNV-1a: the same values on every machine.
uint64_t mark_of(const DataFile& file) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : file.below + "\n" + std::to_string(file.size)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return hash;
}

const WindowMemory::Known* WindowMemory::find(uint64_t id) const {
  const auto found = std::find_if(
      windows_.begin(), windows_.end(), [id](const Known& known) { return known.id == id; });
  return found == windows_.end() ? nullptr : &*found;
}

void WindowMemory::add(Known known) {
  is_loaded_ = false;
  files_.insert(known.files.begin(), known.files.end());
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

bool WindowMemory::add_left_out(const std::string& line) {
  if (left_out_.size() >= kMostLines ||
      std::find(left_out_.begin(), left_out_.end(), line) != left_out_.end()) {
    return false;
  }
  left_out_.push_back(line);
  return true;
}

void WindowMemory::begin_epoch(uint64_t epoch) {
  if (!is_loaded_ || epoch != epoch_) {
    windows_.clear();
    files_.clear();
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
  std::vector<std::string> lines;
  for (const Known& known : windows_) {
    std::ostringstream line;
    line << known.id << ' ' << known.time << ' ' << known.files.size();
    for (const uint64_t mark : known.files) {
      line << ' ' << mark;
    }
    line << ' ' << known.label;
    lines.push_back(line.str());
  }
  put_lines(writer, "windows", lines);
  put_lines(writer, "left_out", left_out_);
}

void WindowMemory::load(const StateReader& reader) {
  *this = {};
  epoch_ = static_cast<uint64_t>(reader.get_int("epoch"));
  if (reader.has("forgotten")) {
    forgotten_ = reader.get_int("forgotten");
  }
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
    add(std::move(known));
  }
  left_out_ = get_lines(reader, "left_out");
  is_loaded_ = true;
}

}  // namespace tenon
