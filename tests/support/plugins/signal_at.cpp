// SPDX-License-Identifier: Apache-2.0
//
// A hook that sends its own process the signals that the recipe lists, at the events and steps it
// names: signals that arrive at a known moment.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include "chosen_rank.hpp"

namespace {

// Not an event: the creation of the hook, before the run folder exists.
constexpr const char* kCreate = "create";

enum class Signal : int { kTerm = SIGTERM, kInt = SIGINT };

struct SignalOptions {
  std::string event;
  uint64_t step = 0;
  Signal signal = Signal::kTerm;
  uint64_t nth = 0;
  bool stays = false;
  uint64_t num_seen = 0;
  static void bind(tenon::OptionBinder<SignalOptions>& binder) {
    binder.field("event", &SignalOptions::event).required().doc("name of the event, or \"create\"");
    binder.field("step", &SignalOptions::step).min(0).required().doc("step of the event");
    binder
        .choice("signal",
                &SignalOptions::signal,
                {{"SIGTERM", Signal::kTerm}, {"SIGINT", Signal::kInt}})
        .doc("what to send");
    binder.field("nth", &SignalOptions::nth)
        .min(0)
        .doc("at the nth such event alone, counted from 1; 0: at each");
    binder.field("stays", &SignalOptions::stays)
        .doc("at an event: send it as another process does, and stay in the call for 5 seconds");
  }
};

// As another process sends them: each after the one before has arrived. Then stays in the call, as
// a slow plugin does.
void send_from_outside(const std::vector<int>& signals) {
  for (const int signal : signals) {
    ::kill(::getpid(), signal);
    sigset_t pending;
    do {
      ::usleep(1000);
      ::sigpending(&pending);
    } while (sigismember(&pending, signal) == 1);
  }
  ::sleep(5);
}

struct SignalAtOptions {
  std::vector<SignalOptions> signals;
  std::optional<int64_t> rank;
};

class SignalAt : public tenon::Hook {
 public:
  static constexpr const char* kType = "signal_at";
  static constexpr const char* kSummary = "for tests: sends its own process signals";
  using Options = SignalAtOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("signals", &Options::signals).doc("what to send, and when");
    binder.field("rank", &Options::rank).doc("the rank that does; all if absent");
  }

  SignalAt(const Options& options, const tenon::CreateContext& context) : options_(options) {
    if (!is_chosen_rank(options.rank, context)) {
      options_.signals.clear();
    }
    std::vector<int> at_create;
    for (const SignalOptions& signal : options_.signals) {
      if (signal.event == kCreate) {
        at_create.push_back(static_cast<int>(signal.signal));
      }
    }
    if (at_create.size() == 1) {
      std::raise(at_create.front());
    } else if (!at_create.empty()) {
      send_from_outside(at_create);
    }
  }

  void describe(tenon_hook_info& info) override {
    for (const SignalOptions& signal : options_.signals) {
      if (signal.event != kCreate) {
        info.events |= TENON_EVENT_BIT(tenon::event_of(signal.event));
      }
    }
  }

  void on_event(const tenon::Event& event) override {
    for (SignalOptions& signal : options_.signals) {
      if (event.step() == signal.step && event.name() == signal.event) {
        ++signal.num_seen;
        if (signal.nth != 0 && signal.nth != signal.num_seen) {
          continue;
        }
        if (signal.stays) {
          send_from_outside({static_cast<int>(signal.signal)});
        } else {
          std::raise(static_cast<int>(signal.signal));
        }
      }
    }
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(SignalAt)
