// SPDX-License-Identifier: Apache-2.0
//
// A hook that fails at one event of one step, in one of the ways in which hooks fail.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

enum class How { kError, kException, kForeign, kHang };

struct FailAtOptions {
  std::string event;
  uint64_t step = 0;
  How how = How::kError;
  std::string message = "asked to fail";
};

class FailAt : public tenon::Hook {
 public:
  static constexpr const char* kType = "fail_at";
  static constexpr const char* kSummary = "for tests: fails at one event";
  using Options = FailAtOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    std::vector<std::string> names;
    for (uint32_t event = 0; event < TENON_NUM_EVENTS; ++event) {
      names.push_back(tenon::event_name(event));
    }
    binder.field("event", &Options::event).choices(names).required().doc("name of the event");
    binder.field("step", &Options::step).min(0).doc("step of the event");
    binder
        .choice("how",
                &Options::how,
                {{"error", How::kError},
                 {"exception", How::kException},
                 {"foreign", How::kForeign},
                 {"hang", How::kHang}})
        .doc(
            "error: with a code and an id; exception: a std::exception; foreign: neither; "
            "hang: never returns");
    binder.field("message", &Options::message).doc("what it says");
  }

  explicit FailAt(const Options& options) : options_(options) {}

  void describe(tenon_hook_info& info) override {
    info.events = TENON_EVENT_BIT(tenon::event_of(options_.event));
  }

  void on_event(const tenon::Event& event) override {
    if (event.step() != options_.step) {
      return;
    }
    switch (options_.how) {
      case How::kError:
        TENON_FAIL(TENON_INVALID, "fail_at.asked", options_.message);
      case How::kException:
        throw std::runtime_error(options_.message);
      case How::kForeign:
        throw 1;  // the guard must stop this too
      case How::kHang:
        for (;;) {
          pause();
        }
    }
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(FailAt)
