// SPDX-License-Identifier: Apache-2.0
//
// A hook that fails at one event of one step, in one of the ways in which hooks and processes fail.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "chosen_rank.hpp"

namespace {

enum class How {
  kError,
  kException,
  kForeign,
  kHang,
  kKill,
  kStop,
  kExit,
  kCrash,
  kLeave,
  kQuit,
  kVanish,
  kSleep,
  kCreate
};

struct FailAtOptions {
  std::string event;
  uint64_t step = 0;
  How how = How::kError;
  std::string message = "asked to fail";
  std::optional<int64_t> rank;
  std::optional<int64_t> slot;
  bool is_again = false;
  bool is_once = false;
  double wait_seconds = 0;
  std::string mark;
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
                 {"hang", How::kHang},
                 {"kill", How::kKill},
                 {"stop", How::kStop},
                 {"exit", How::kExit},
                 {"crash", How::kCrash},
                 {"leave", How::kLeave},
                 {"quit", How::kQuit},
                 {"vanish", How::kVanish},
                 {"sleep", How::kSleep},
                 {"create", How::kCreate}})
        .doc(
            "error: with a code and an id; exception: a std::exception; foreign: neither; "
            "hang: never returns; kill, stop: a signal to the process; exit: the system call, with "
            "status 1; "
            "crash: writes to a null pointer; leave: exit(0); quit: _exit(0); vanish: the "
            "system call that _exit(0) makes; "
            "sleep: returns after the wait; create: it cannot be made, at no event");
    binder.field("message", &Options::message).doc("what it says");
    binder.field("rank", &Options::rank).min(0).doc("the rank that fails; without it all do");
    binder.field("slot", &Options::slot).min(0).doc("the rank in that slot of --launch alone");
    binder.field("is_again", &Options::is_again)
        .doc("in ranks that were started again, at each step of theirs");
    binder.field("wait_seconds", &Options::wait_seconds)
        .min(0.0)
        .doc("how long it is in the event before");
    binder.field("mark", &Options::mark).doc("a file that is made when it fails");
    binder.field("is_once", &Options::is_once).doc("not if the mark is there already");
  }

  FailAt(const Options& options, const tenon::CreateContext& context)
      : options_(options), is_chosen_(is_chosen_rank(options.rank, context) && is_chosen_start()) {
    if (is_chosen_ && options.how == How::kCreate) {
      TENON_FAIL(TENON_INVALID, "fail_at.asked", options_.message);
    }
  }

  void describe(tenon_hook_info& info) override {
    info.events = TENON_EVENT_BIT(tenon::event_of(options_.event));
  }

  void on_event(const tenon::Event& event) override {
    if (!is_chosen_ || (event.step() != options_.step && !options_.is_again)) {
      return;
    }
    if (options_.is_once && ::access(options_.mark.c_str(), F_OK) == 0) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(options_.wait_seconds));
    if (!options_.mark.empty()) {
      if (std::FILE* const file = std::fopen(options_.mark.c_str(), "w")) {
        std::fclose(file);
      }
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
      case How::kKill:
        raise(SIGKILL);
        return;
      case How::kStop:
        raise(SIGSTOP);
        return;
      case How::kExit:
        ::syscall(SYS_exit_group, 1);
        return;
      case How::kCrash:
        *static_cast<volatile char*>(nullptr) = 1;
        return;
      case How::kLeave:
        std::exit(0);
      case How::kQuit:
        _exit(0);
      case How::kVanish:
        ::syscall(SYS_exit_group, 0);
        return;
      case How::kSleep:
      case How::kCreate:
        return;
    }
  }

 private:
  // As --launch tells it.
  bool is_chosen_start() const {
    const auto number = [](const char* name) {
      const char* const text = std::getenv(name);
      return text != nullptr ? std::atoll(text) : 0;
    };
    return (!options_.slot || number("TENON_SLOT") == *options_.slot) &&
           (!options_.is_again || number("TENON_RESTART") > 0);
  }

  Options options_;
  bool is_chosen_;
};

}  // namespace

TENON_PLUGIN(FailAt)
