// SPDX-License-Identifier: Apache-2.0
//
// Writes one line of JSON per event. The output does not depend on time or machine, so equal runs
// give equal files.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct EventTraceOptions {
  std::string path = "events.jsonl";
  std::vector<std::string> events;
};

std::vector<std::string> all_event_names() {
  std::vector<std::string> names;
  for (uint32_t event = 0; event < TENON_NUM_EVENTS; ++event) {
    names.push_back(tenon::event_name(event));
  }
  return names;
}

class EventTrace : public tenon::Hook {
 public:
  static constexpr const char* kType = "event_trace";
  static constexpr const char* kSummary = "writes each event of the run as one line of JSON";
  using Options = EventTraceOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("path", &Options::path)
        .non_empty()
        .doc("file to append to; relative to the run folder");
    binder.field("events", &Options::events)
        .choices(all_event_names())
        .doc("events to write; empty: all");
  }

  explicit EventTrace(const Options& options) : path_(options.path) {
    for (const std::string& name : options.events) {
      wanted_ |= TENON_EVENT_BIT(tenon::event_of(name));
    }
    if (options.events.empty()) {
      wanted_ = TENON_ALL_EVENTS;
    }
  }
  ~EventTrace() override {
    if (file_ != nullptr) {
      std::fclose(file_);
    }
  }

  void describe(tenon_hook_info& info) override {
    info.events = wanted_ | kLastEvents;
    info.rank_0_only = 1;
  }

  void on_event(const tenon::Event& event) override {
    if (file_ == nullptr) {
      open(event.run_dir());
    }
    if ((wanted_ & TENON_EVENT_BIT(event.id())) != 0) {
      write(event);
    }
    if ((kLastEvents & TENON_EVENT_BIT(event.id())) != 0 && std::fflush(file_) != 0) {
      fail("cannot write to");
    }
  }

 private:
  // Events that flush the file, whether or not they are written.
  static constexpr uint64_t kLastEvents =
      TENON_EVENT_BIT(TENON_EVENT_ON_ERROR) | TENON_EVENT_BIT(TENON_EVENT_END);
  static constexpr size_t kBufferBytes = 65536;

  void open(const std::string& run_dir) {
    if (path_.front() != '/') {
      path_ = run_dir + "/" + path_;
    }
    file_ = std::fopen(path_.c_str(), "ae");
    if (file_ == nullptr) {
      fail("cannot open");
    }
    std::setvbuf(file_, nullptr, _IOFBF, kBufferBytes);
  }

  void write(const tenon::Event& event) {
    line_ = "{\"event\":\"" + event.name() + "\"";
    line_ += ",\"step\":" + std::to_string(event.step());
    line_ += ",\"epoch\":" + std::to_string(event.epoch());
    line_ += ",\"window\":" + std::to_string(event.window());
    const std::string label = event.window_label();
    if (!label.empty()) {
      line_ += ",\"window_label\":" + tenon::json_string(label);
    }
    line_ += ",\"microbatch\":" + std::to_string(event.microbatch());
    line_ += event.is_train() ? ",\"is_train\":true}\n" : ",\"is_train\":false}\n";
    if (std::fwrite(line_.data(), 1, line_.size(), file_) != line_.size()) {
      fail("cannot write to");
    }
  }

  [[noreturn]] void fail(const char* what) const {
    const std::string reason = std::strerror(errno);
    TENON_FAIL(TENON_IO, "event_trace.io", what, " ", path_, ": ", reason);
  }

  std::string path_;
  uint64_t wanted_ = 0;
  std::FILE* file_ = nullptr;
  std::string line_;
};

}  // namespace

TENON_PLUGIN(EventTrace)
