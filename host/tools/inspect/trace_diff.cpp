// SPDX-License-Identifier: Apache-2.0

#include "host/tools/inspect/trace_diff.hpp"

#include "host/error/error.hpp"
#include "host/io/regular_file.hpp"
#include "host/json/schema_words.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using nlohmann::json;

// Far longer than any line of a trace. A longer line means another kind of file, so reading stops.
constexpr std::size_t kMaxLineBytes = 65536;

// The fields of an event, in the order in which the hook writes them.
constexpr std::array<const char*, 7> kFields = {
    "event", "step", "epoch", "window", "window_label", "microbatch", "is_train"};

class TraceReader {
 public:
  explicit TraceReader(std::string file) : file_(std::move(file)) {
    if (const std::string problem = open_regular_file(file_).problem; !problem.empty()) {
      fail("cannot be opened: " + problem);
    }
    in_.open(file_, std::ios::binary);
    if (!in_.is_open()) {
      fail("cannot be opened: " + std::generic_category().message(errno));
    }
  }

  // Returns the next event, or none at the end of the file.
  std::optional<json> next() {
    std::string line;
    if (!read_line(line)) {
      if (num_lines_ == 0) {
        fail("is empty; a run that ended before its first event leaves no trace");
      }
      return std::nullopt;
    }
    ++num_lines_;
    json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!is_event(event)) {
      fail(formatted("is no trace of the hook event_trace: line {} is not an event, {}",
                     num_lines_,
                     "{\"event\": ..., \"step\": ...}"));
    }
    return event;
  }

  const std::string& file() const { return file_; }

 private:
  // Events have scalar fields only, so comparing two events needs no recursion.
  static bool is_event(const json& value) {
    return value.is_object() && value.contains("event") && value["event"].is_string() &&
           value.contains("step") && value["step"].is_number_unsigned() &&
           std::ranges::none_of(value, [](const json& field) { return field.is_structured(); });
  }

  bool read_line(std::string& line) {
    std::array<char, kMaxLineBytes> buffer;
    errno = 0;
    in_.getline(buffer.data(), buffer.size());
    if (in_.bad()) {
      fail("cannot be read: " + std::generic_category().message(errno));
    }
    if (in_.fail() && !in_.eof()) {
      fail(formatted("is no trace of the hook event_trace: line {} is longer than any event",
                     num_lines_ + 1));
    }
    const bool has_line = !in_.fail();
    // Not read as a C string: a line may contain zero bytes.
    const auto num_read = static_cast<std::size_t>(in_.gcount());
    line.assign(buffer.data(), num_read > 0 && !in_.eof() ? num_read - 1 : num_read);
    return has_line;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error("trace.unreadable", file_ + " " + what);
  }

  std::string file_;
  std::ifstream in_;
  std::uint64_t num_lines_ = 0;
};

std::string position_of(const json& event) {
  return "step " + event["step"].dump() + ", " + event["event"].get<std::string>();
}

// The keys of both events, starting with the fields of the hook.
std::vector<std::string> fields_of(const json& a, const json& b) {
  std::vector<std::string> fields(kFields.begin(), kFields.end());
  for (const json* const event : {&a, &b}) {
    for (const std::string& key : keys_of(*event)) {
      if (std::ranges::find(fields, key) == fields.end()) {
        fields.push_back(key);
      }
    }
  }
  return fields;
}

std::string value_of(const json& event, const std::string& field) {
  const auto found = event.find(field);
  return found != event.end() ? brief_value(*found) : "absent";
}

std::string difference(const json& a,
                       const json& b,
                       const TraceReader& of_a,
                       const TraceReader& of_b) {
  std::string text;
  for (const std::string& field : fields_of(a, b)) {
    const auto in_a = a.find(field);
    const auto in_b = b.find(field);
    const bool is_in_a = in_a != a.end();
    const bool is_in_b = in_b != b.end();
    if (is_in_a == is_in_b && (!is_in_a || *in_a == *in_b)) {
      continue;
    }
    text += "  " + field + " is " + value_of(a, field) + " in " + of_a.file() + " and " +
            value_of(b, field) + " in " + of_b.file() + "\n";
  }
  return text;
}

std::string ending(const TraceReader& shorter,
                   const TraceReader& longer,
                   const json& last,
                   std::uint64_t num_events,
                   const json& next) {
  return "  " + shorter.file() + " ends after " + counted(num_events, "event") + " (" +
         position_of(last) + "), and " + longer.file() + " goes on (" + position_of(next) + ")\n";
}

}  // namespace

TraceComparison compare_traces(const std::string& file_a, const std::string& file_b) {
  TraceReader of_a(file_a);
  TraceReader of_b(file_b);
  json last;
  for (std::uint64_t num_events = 0;; ++num_events) {
    const std::optional<json> a = of_a.next();
    const std::optional<json> b = of_b.next();
    if (!a && !b) {
      return {.is_equal = true,
              .num_events = num_events,
              .text = "equal: " + counted(num_events, "event") + "\n"};
    }
    if (a && b && *a == *b) {
      last = *a;
      continue;
    }
    const json& here = a ? *a : *b;
    std::string text =
        formatted("different from line {} on: {}\n", num_events + 1, position_of(here));
    if (a && b) {
      text += difference(*a, *b, of_a, of_b);
    } else {
      text +=
          a ? ending(of_b, of_a, last, num_events, *a) : ending(of_a, of_b, last, num_events, *b);
    }
    return {.is_equal = false, .num_events = num_events, .text = std::move(text)};
  }
}

}  // namespace tenon
