// SPDX-License-Identifier: Apache-2.0
//
// A hook that changes the size of a file in the middle of a run.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <unistd.h>

namespace {

struct ResizeFileOptions {
  std::string path;
  int64_t size = 0;
  uint64_t step = 1;
};

class ResizeFile : public tenon::Hook {
 public:
  static constexpr const char* kType = "resize_file";
  static constexpr const char* kSummary = "for tests: changes the size of a file after a step";
  using Options = ResizeFileOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("path", &Options::path).required().doc("the file");
    binder.field("size", &Options::size).min(0).required().doc("its size then, in bytes");
    binder.field("step", &Options::step).doc("the step");
  }

  explicit ResizeFile(const Options& options) : options_(options) {}

  void describe(tenon_hook_info& info) override {
    info.events = TENON_EVENT_BIT(TENON_EVENT_AFTER_STEP);
  }

  void on_event(const tenon::Event& event) override {
    if (event.step() == options_.step && truncate(options_.path.c_str(), options_.size) != 0) {
      TENON_FAIL(TENON_IO, "resize_file", options_.path, ": ", std::strerror(errno));
    }
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(ResizeFile)
