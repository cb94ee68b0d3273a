// SPDX-License-Identifier: Apache-2.0
//
// Writes the figures of a run to a file of JSON lines, a line a record.
#include <tenon/cpp/metric_sink.hpp>
#include <tenon/cpp/plugin.hpp>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../growing_file.hpp"

namespace {

struct JsonlOptions {
  std::string path = "metrics.jsonl";
};

// The shortest text that reads back as the same number. JSON has no NaN and no infinities: null.
std::string number(double value) {
  if (!std::isfinite(value)) {
    return "null";
  }
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return error == std::errc() ? std::string(text, end) : "null";
}

// Of a line that write() has made.
std::optional<uint64_t> step_of(std::string_view line) {
  constexpr std::string_view kStart = "{\"step\":";
  if (line.substr(0, kStart.size()) != kStart) {
    return std::nullopt;
  }
  uint64_t step = 0;
  const char* const last = line.data() + line.size();
  const auto [end, error] = std::from_chars(line.data() + kStart.size(), last, step);
  const bool is_number = error == std::errc() && end != last && (*end == ',' || *end == '}');
  return is_number ? std::optional(step) : std::nullopt;
}

class Jsonl : public tenon::MetricSink {
 public:
  static constexpr const char* kType = "jsonl";
  static constexpr const char* kSummary = "writes each record of figures as a line of JSON";
  using Options = JsonlOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("path", &Options::path)
        .non_empty()
        .doc("file to add to; a relative one is in the run folder");
  }

  explicit Jsonl(const Options& options) : path_(options.path) {}

  void open(const std::string& run_dir) override {
    if (path_.front() != '/') {
      path_ = run_dir + "/" + path_;
    }
    file_.open(path_, GrowingFile::IfThere::kAdd);
  }

  void write(const tenon::MetricRecord& record) override {
    line_ =
        "{\"step\":" + std::to_string(record.step()) + ",\"time\":" + number(record.unix_seconds());
    if (!record.window_label().empty()) {
      line_ += ",\"window\":" + tenon::json_string(std::string(record.window_label()));
    }
    for (size_t i = 0; i < record.size(); ++i) {
      line_ += ",";
      line_ += tenon::json_string(std::string(record.name(i)));
      line_ += ":";
      line_ += number(record.value(i));
    }
    line_ += "}\n";
    file_.add(line_);
  }

  // From the end on, up to the first line that stays: what another run has written before this one
  // is not touched, and a long file costs no more than a short one.
  void resume(uint64_t step, uint64_t records_of_step) override {
    off_t keep = file_.size();
    std::vector<off_t> of_step;    // where the lines of `step` begin, the last one first
    uint64_t behind = UINT64_MAX;  // the step of the line behind
    file_.visit_lines_from_end([&](const GrowingFile::Line& line) {
      if (line.text.back() != '\n') {
        keep = line.begin;
        return true;
      }
      // Steps never fall within a run: where they do, another one begins.
      const std::optional<uint64_t> at = step_of(line.text);
      if (!at.has_value() || *at < step || *at > behind) {
        return false;
      }
      behind = *at;
      if (*at == step) {
        of_step.push_back(line.begin);
      } else {
        keep = line.begin;
      }
      return true;
    });
    if (of_step.size() > records_of_step) {
      keep = of_step[of_step.size() - 1 - records_of_step];
    }
    file_.cut_to(keep);
  }

  // Lines go to the file system as they are written.
  void flush() override {}

 private:
  std::string path_;
  std::string line_;
  GrowingFile file_{"jsonl"};
};

}  // namespace

TENON_PLUGIN(Jsonl)
