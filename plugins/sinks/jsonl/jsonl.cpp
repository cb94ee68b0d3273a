// SPDX-License-Identifier: Apache-2.0
//
// Writes the metrics of a run to a JSON lines file, one line per record.
#include <tenon/cpp/metric_sink.hpp>
#include <tenon/cpp/plugin.hpp>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../../growing_file.hpp"
#include "../../json_lines.hpp"

namespace {

struct JsonlOptions {
  std::string path = "metrics.jsonl";
};

// The shortest text that round-trips. JSON has no NaN or infinity; they become null.
std::string number(double value) {
  if (!std::isfinite(value)) {
    return "null";
  }
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return error == std::errc() ? std::string(text, end) : "null";
}

class Jsonl : public tenon::MetricSink {
 public:
  static constexpr const char* kType = "jsonl";
  static constexpr const char* kSummary = "writes metrics as JSON lines, one per record";
  using Options = JsonlOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("path", &Options::path)
        .non_empty()
        .doc("file to append to; relative to the run folder");
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

  // Scans backwards to the first line to keep. Lines of earlier runs in the same file stay
  // unchanged, and a long file costs no more than a short one.
  void resume(uint64_t step, uint64_t records_of_step) override {
    off_t keep = file_.size();
    std::vector<off_t> of_step;    // offsets of the lines of `step`, the last one first
    uint64_t behind = UINT64_MAX;  // step of the line after the current one
    file_.visit_lines_from_end([&](const GrowingFile::Line& line) {
      if (line.text.back() != '\n') {
        keep = line.begin;
        return true;
      }
      // Steps never decrease within a run. A decrease marks the start of another run.
      const std::optional<uint64_t> at = step_of_line(line.text);
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

  // Lines reach the file system as they are written.
  void flush() override {}

 private:
  std::string path_;
  std::string line_;
  GrowingFile file_{"jsonl"};
};

}  // namespace

TENON_PLUGIN(Jsonl)
