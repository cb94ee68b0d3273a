// SPDX-License-Identifier: Apache-2.0
//
// Writes chosen metrics to a CSV file in the run folder: one line per record. The cell of a metric
// that a record lacks is empty.
// Lines are written as they come, so a crash of the program loses none.
#include <tenon/cpp/metric_sink.hpp>
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace {

class MyPlugin : public tenon::MetricSink {
 public:
  static constexpr const char* kType = "my_plugin";
  static constexpr const char* kSummary = "writes chosen metrics to a CSV file";

  struct Options {
    std::string file = "metrics.csv";
    std::vector<std::string> metrics = {"loss", "lr", "eval/loss"};
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("file", &Options::file).non_empty().doc("name of the file in the run folder");
    binder.field("metrics", &Options::metrics)
        .min_items(1)
        .non_empty()
        .doc("metrics to write, one column each");
  }

  explicit MyPlugin(const Options& options) : options_(options) {
    if (options_.file.find('/') != std::string::npos) {
      TENON_FAIL(TENON_INVALID, "my_plugin.file", "file is \"", options_.file, "\", not a name");
    }
    header_ = "step,unix_seconds";
    for (const std::string& metric : options_.metrics) {
      header_ += "," + metric;
    }
  }

  void open(const std::string& run_dir) override {
    path_ = run_dir + "/" + options_.file;
    const std::vector<std::string> lines = read_lines();
    if (lines.empty()) {
      rewrite({});
    } else if (lines.front() != header_) {
      TENON_FAIL(TENON_EXISTS,
                 "my_plugin.columns",
                 path_,
                 " has other columns, ",
                 lines.front(),
                 "; choose another `file`");
    } else {
      open_file(path_, "a");
    }
  }

  void write(const tenon::MetricRecord& record) override {
    std::string line = std::to_string(record.step()) + "," + number(record.unix_seconds());
    for (const std::string& metric : options_.metrics) {
      line += ",";
      for (size_t i = 0; i < record.size(); ++i) {
        line += record.name(i) == metric ? number(record.value(i)) : "";
      }
    }
    put(line);
  }

  void flush() override {}  // each line reaches the file system as it is written

  // A resumed run repeats the steps after `step`: drops their lines, and those of `step` that were
  // written after the checkpoint.
  void resume(uint64_t step, uint64_t records_of_step) override {
    std::vector<std::string> lines = read_lines();
    uint64_t num_of_step = 0;
    const auto is_later = [&](const std::string& line) {
      const uint64_t at = std::strtoull(line.c_str(), nullptr, 10);
      return at > step || (at == step && ++num_of_step > records_of_step);
    };
    lines.erase(lines.begin());  // the header
    lines.erase(std::find_if(lines.begin(), lines.end(), is_later), lines.end());
    rewrite(lines);
  }

 private:
  static std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", value);
    return text;
  }

  std::vector<std::string> read_lines() const {
    std::vector<std::string> lines;
    std::ifstream in(path_);
    for (std::string line; std::getline(in, line) && !in.eof();) {
      lines.push_back(line);  // a last line without a line break is incomplete
    }
    return lines;
  }
  // Replaces the file by one rename, so that a crash leaves the old file or the new one.
  void rewrite(const std::vector<std::string>& lines) {
    const std::string made = path_ + ".new";
    open_file(made, "w");
    put(header_);
    for (const std::string& line : lines) {
      put(line);
    }
    if (std::rename(made.c_str(), path_.c_str()) != 0) {
      fail("cannot rename the new file to");
    }
  }
  void open_file(const std::string& path, const char* mode) {
    file_.reset(std::fopen(path.c_str(), mode));
    if (file_ == nullptr) {
      fail("cannot open");
    }
  }
  void put(const std::string& line) {
    if (std::fputs((line + "\n").c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0) {
      fail("cannot write to");
    }
  }
  [[noreturn]] void fail(const char* what) const {
    const std::string reason = std::strerror(errno);
    TENON_FAIL(TENON_IO, "my_plugin.io", what, " ", path_, ": ", reason);
  }

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  Options options_;
  std::string header_;
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
