// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/schedule_csv.hpp"

#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"
#include "host/io/regular_file.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <charconv>

namespace tenon {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr size_t kShownBytes = 40;  // of a cell, in messages

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) {
    text.remove_suffix(1);
  }
  return text;
}

// Calls `read` with each part of the text between separators.
template <class Read>
void for_each_part(std::string_view text, char separator, const Read& read) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    read(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

class CsvReader {
 public:
  ScheduleTable read(std::string_view text) {
    if (text.starts_with(kByteOrderMark)) {
      text.remove_prefix(kByteOrderMark.size());
    }
    for_each_part(text, '\n', [this](std::string_view line) { read_row(line); });
    while (!rows().empty() && rows().back().empty()) {
      rows().pop_back();
      table_.columns.pop_back();
    }
    if (rows().empty()) {
      throw Error("schedule.unreadable",
                  "the table has no action; write a row for each rank, such as 0F0,0B0");
    }
    return std::move(table_);
  }

 private:
  std::vector<std::vector<StageAction>>& rows() { return table_.schedule.rows; }

  [[noreturn]] void fail(const std::string& problem) const {
    const bool is_long = cell_.size() > kShownBytes;
    throw Error("schedule.unreadable",
                formatted("row {}, column {}: \"{}\": {}",
                          table_.columns.size(),
                          column_,
                          printable_line(cell_.substr(0, kShownBytes)) + (is_long ? "..." : ""),
                          problem));
  }

  void read_row(std::string_view line) {
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (rows().size() == kMostScheduleRanks) {
      if (trimmed(line).empty()) {
        return;
      }
      throw Error("schedule.unreadable",
                  formatted("the table has more than {} rows; write a row for each rank",
                            kMostScheduleRanks));
    }
    rows().emplace_back();
    table_.columns.emplace_back();
    column_ = 0;
    for_each_part(line, ',', [this](std::string_view cell) {
      ++column_;
      read_cell(trimmed(cell));
    });
  }

  void read_cell(std::string_view cell) {
    if (cell.size() > 1 && cell.front() == '"' && cell.back() == '"') {
      cell = trimmed(cell.substr(1, cell.size() - 2));
    }
    cell_ = cell;
    if (cell.empty()) {
      return;
    }
    if (cell.front() != '(') {
      read_action(cell);
      return;
    }
    const size_t end = cell.find(')');
    if (end == std::string_view::npos || cell.substr(end + 1) != "OVERLAP_F_B") {
      fail("expected actions side by side, such as (0F1;3B0)OVERLAP_F_B");
    }
    for_each_part(cell.substr(1, end - 1), ';', [this](std::string_view text) {
      read_action(trimmed(text));
    });
  }

  void read_action(std::string_view text) {
    const size_t code_begin = std::min(text.find_first_not_of(kDigits), text.size());
    const size_t code_end = text.find_last_not_of(kDigits) + 1;
    if (code_begin == 0 || code_begin == text.size()) {
      fail("expected an action, such as 2F0: stage, kind, microbatch");
    }
    const std::string_view code = text.substr(code_begin, code_end - code_begin);
    const std::optional<StageActionKind> kind = kind_of_code(code);
    if (!kind.has_value()) {
      fail(
          formatted("unknown kind of action \"{}\"; expected F, B, I, W, UNSHARD, RESHARD, "
                    "REDUCE_GRAD, SEND_F, RECV_F, SEND_B or RECV_B",
                    printable_line(code.substr(0, kShownBytes))));
    }
    StageAction action{.stage = read_number(text.substr(0, code_begin), "stage"), .kind = *kind};
    const std::string_view microbatch = text.substr(code_end);
    if (has_microbatch(*kind) && microbatch.empty()) {
      fail(formatted("{} needs a microbatch; expected a text such as 2{}0", code, code));
    }
    if (!has_microbatch(*kind) && !microbatch.empty()) {
      fail(formatted("{} has no microbatch; expected a text such as 2{}", code, code));
    }
    PipelineSchedule& schedule = table_.schedule;
    schedule.num_stages = std::max(schedule.num_stages, action.stage + 1);
    if (!microbatch.empty()) {
      action.microbatch = read_number(microbatch, "microbatch");
      schedule.num_microbatches = std::max(schedule.num_microbatches, action.microbatch + 1);
    }
    rows().back().push_back(action);
    table_.columns.back().push_back(column_);
  }

  uint32_t read_number(std::string_view digits, std::string_view what) const {
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || value > kMostScheduleNumber) {
      fail(formatted("the {} is too large (at most {})", what, kMostScheduleNumber));
    }
    return value;
  }

  ScheduleTable table_;
  uint32_t column_ = 0;
  std::string_view cell_;  // without spaces and quotes around it
};

}  // namespace

ScheduleTable read_schedule(std::string_view csv) {
  return CsvReader().read(csv);
}

ScheduleTable read_schedule_file(const std::string& path) {
  const FileText file = read_file_text(path, kMostScheduleBytes);
  if (file.is_too_large) {
    throw Error("schedule.unreadable",
                formatted("{}: the file is larger than {} MiB; a table of a schedule is smaller",
                          path,
                          kMostScheduleBytes >> 20));
  }
  if (!file.problem.empty()) {
    throw Error("schedule.unreadable",
                formatted("{}: the file cannot be read: {}", path, file.problem));
  }
  try {
    return read_schedule(file.text);
  } catch (const Error& error) {
    throw error.with_context(path);
  }
}

std::string schedule_csv(const PipelineSchedule& schedule) {
  std::string csv;
  for (const std::vector<StageAction>& row : schedule.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      csv += (i > 0 ? "," : "") + action_text(row[i]);
    }
    csv += "\n";
  }
  return csv;
}

}  // namespace tenon
