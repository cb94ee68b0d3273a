// SPDX-License-Identifier: Apache-2.0
//
// Writes the figures of a run to a file of JSON lines. Each record is one line and one call of the
// system, so that a reader sees whole lines and a run that is killed loses none. Invariant: the
// file ends with a whole line; what a failed write has left of one is cut off again.
#include <tenon/cpp/metric_sink.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

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
  ~Jsonl() override {
    if (file_ >= 0) {
      ::close(file_);
    }
  }

  void open(const std::string& run_dir) override {
    if (path_.front() != '/') {
      path_ = run_dir + "/" + path_;
    }
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    struct stat status;
    if (file_ < 0 || ::fstat(file_, &status) != 0) {
      fail("cannot open");
    }
    size_ = status.st_size;
  }

  void write(const tenon::MetricRecord& record) override {
    line_ =
        "{\"step\":" + std::to_string(record.step()) + ",\"time\":" + number(record.unix_seconds());
    for (size_t i = 0; i < record.size(); ++i) {
      line_ += ",";
      line_ += tenon::json_string(std::string(record.name(i)));
      line_ += ":";
      line_ += number(record.value(i));
    }
    line_ += "}\n";
    append();
  }

  // Lines go to the file system as they are written.
  void flush() override {}

 private:
  void append() {
    size_t done = 0;
    while (done < line_.size()) {
      const ssize_t n = ::write(file_, line_.data() + done, line_.size() - done);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n < 0) {
        const int reason = errno;
        // Half a line would spoil the next one too. If even this fails, the first reason is the one
        // to tell.
        (void)!::ftruncate(file_, size_);
        errno = reason;
        fail("cannot write to");
      }
      done += static_cast<size_t>(n);
    }
    size_ += static_cast<off_t>(line_.size());
  }

  [[noreturn]] void fail(const char* what) const {
    const std::string reason = std::strerror(errno);
    TENON_FAIL(TENON_IO, "jsonl.io", what, " ", path_, ": ", reason);
  }

  std::string path_;
  std::string line_;
  int file_ = -1;
  off_t size_ = 0;  // up to the end of the last whole line
};

}  // namespace

TENON_PLUGIN(Jsonl)
