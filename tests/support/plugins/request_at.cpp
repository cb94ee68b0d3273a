// SPDX-License-Identifier: Apache-2.0
//
// A hook that requests what the recipe lists, at the events and steps it names.
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

enum class Request : uint32_t {
  kSkipUpdate = TENON_REQUEST_SKIP_UPDATE,
  kEvaluate = TENON_REQUEST_EVALUATE,
  kCheckpoint = TENON_REQUEST_CHECKPOINT,
  kStop = TENON_REQUEST_STOP,
  kRollBack = TENON_REQUEST_ROLL_BACK
};

struct RequestOptions {
  std::string event;
  uint64_t step = 0;
  Request request = Request::kStop;
  static void bind(tenon::OptionBinder<RequestOptions>& binder) {
    binder.field("event", &RequestOptions::event)
        .choices(all_event_names())
        .required()
        .doc("name of the event");
    binder.field("step", &RequestOptions::step).min(0).required().doc("step of the event");
    binder
        .choice("request",
                &RequestOptions::request,
                {{"skip_update", Request::kSkipUpdate},
                 {"evaluate", Request::kEvaluate},
                 {"checkpoint", Request::kCheckpoint},
                 {"stop", Request::kStop},
                 {"roll_back", Request::kRollBack}})
        .required()
        .doc("what to ask for");
  }
};

struct RequestAtOptions {
  std::vector<RequestOptions> requests;
  std::optional<int64_t> rank;
  int64_t times = 0;
};

class RequestAt : public tenon::Hook {
 public:
  static constexpr const char* kType = "request_at";
  static constexpr const char* kSummary = "for tests: makes the requests that the recipe lists";
  using Options = RequestAtOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("requests", &Options::requests)
        .min_items(1)
        .required()
        .doc("what to ask for, and when");
    binder.field("rank", &Options::rank).doc("the rank that does; all if absent");
    binder.field("times", &Options::times).min(0).doc("how many requests at most; 0: all");
  }

  RequestAt(const Options& options, const tenon::CreateContext& context)
      : requests_(is_chosen_rank(options.rank, context) ? options.requests
                                                        : std::vector<RequestOptions>()),
        times_(options.times) {}

  void describe(tenon_hook_info& info) override {
    for (const RequestOptions& request : requests_) {
      info.events |= TENON_EVENT_BIT(tenon::event_of(request.event));
    }
  }

  void on_event(const tenon::Event& event) override {
    for (const RequestOptions& request : requests_) {
      const bool is_asked = times_ == 0 || num_requests_ < times_;
      if (is_asked && event.id() == tenon::event_of(request.event) &&
          event.step() == request.step) {
        ++num_requests_;
        event.request(static_cast<uint32_t>(request.request),
                      tenon::concat("request_at: ", request.event, " of step ", request.step));
      }
    }
  }

 private:
  std::vector<RequestOptions> requests_;
  int64_t times_;
  int64_t num_requests_ = 0;
};

}  // namespace

TENON_PLUGIN(RequestAt)
