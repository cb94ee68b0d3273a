// SPDX-License-Identifier: Apache-2.0
//
// A hook that wishes for what the recipe lists, at the events and steps it names.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chosen_rank.hpp"

namespace {

std::vector<std::string> all_event_names() {
  std::vector<std::string> names;
  for (uint32_t event = 0; event < TENON_NUM_EVENTS; ++event) {
    names.push_back(tenon::event_name(event));
  }
  return names;
}

enum class Wish : uint32_t {
  kSkipUpdate = TENON_WISH_SKIP_UPDATE,
  kEvaluate = TENON_WISH_EVALUATE,
  kCheckpoint = TENON_WISH_CHECKPOINT,
  kStop = TENON_WISH_STOP,
  kRollBack = TENON_WISH_ROLL_BACK
};

struct WishOptions {
  std::string event;
  uint64_t step = 0;
  Wish wish = Wish::kStop;
  static void bind(tenon::OptionBinder<WishOptions>& binder) {
    binder.field("event", &WishOptions::event)
        .choices(all_event_names())
        .required()
        .doc("name of the event");
    binder.field("step", &WishOptions::step).min(0).required().doc("step of the event");
    binder
        .choice("wish",
                &WishOptions::wish,
                {{"skip_update", Wish::kSkipUpdate},
                 {"evaluate", Wish::kEvaluate},
                 {"checkpoint", Wish::kCheckpoint},
                 {"stop", Wish::kStop},
                 {"roll_back", Wish::kRollBack}})
        .required()
        .doc("what to ask for");
  }
};

struct WishAtOptions {
  std::vector<WishOptions> wishes;
  std::optional<int64_t> rank;
  int64_t times = 0;
};

class WishAt : public tenon::Hook {
 public:
  static constexpr const char* kType = "wish_at";
  static constexpr const char* kSummary = "for tests: makes the wishes that the recipe lists";
  using Options = WishAtOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("wishes", &Options::wishes)
        .min_items(1)
        .required()
        .doc("what to ask for, and when");
    binder.field("rank", &Options::rank).doc("the rank that does; all if absent");
    binder.field("times", &Options::times).min(0).doc("how many wishes at most; 0: all");
  }

  WishAt(const Options& options, const tenon::CreateContext& context)
      : wishes_(is_chosen_rank(options.rank, context) ? options.wishes
                                                      : std::vector<WishOptions>()),
        times_(options.times) {}

  void describe(tenon_hook_info& info) override {
    for (const WishOptions& wish : wishes_) {
      info.events |= TENON_EVENT_BIT(tenon::event_of(wish.event));
    }
  }

  void on_event(const tenon::Event& event) override {
    for (const WishOptions& wish : wishes_) {
      const bool is_asked = times_ == 0 || num_wishes_ < times_;
      if (is_asked && event.id() == tenon::event_of(wish.event) && event.step() == wish.step) {
        ++num_wishes_;
        event.wish(static_cast<uint32_t>(wish.wish),
                   tenon::concat("wish_at: ", wish.event, " of step ", wish.step));
      }
    }
  }

 private:
  std::vector<WishOptions> wishes_;
  int64_t times_;
  int64_t num_wishes_ = 0;
};

}  // namespace

TENON_PLUGIN(WishAt)
