// SPDX-License-Identifier: Apache-2.0
//
// A hook that writes the events of the microbatches of training on each rank: lines "STEP EVENT
// MICROBATCH" in trace-RANK.txt of the run folder.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <fstream>
#include <string>

namespace {

class RankTrace : public tenon::Hook {
 public:
  static constexpr const char* kType = "rank_trace";
  static constexpr const char* kSummary = "for tests: writes events of microbatches on each rank";

  explicit RankTrace(const tenon::CreateContext& context)
      : rank_(context.mesh == nullptr ? 0 : context.mesh->rank) {}

  void describe(tenon_hook_info& info) override {
    info.events = tenon::events({TENON_EVENT_AFTER_DATA,
                                 TENON_EVENT_BEFORE_FORWARD,
                                 TENON_EVENT_AFTER_FORWARD,
                                 TENON_EVENT_BEFORE_LOSS,
                                 TENON_EVENT_AFTER_LOSS,
                                 TENON_EVENT_BEFORE_BACKWARD,
                                 TENON_EVENT_AFTER_BACKWARD});
  }

  void on_event(const tenon::Event& event) override {
    if (!event.is_train()) {
      return;
    }
    const std::string path = tenon::concat(event.run_dir(), "/trace-", rank_, ".txt");
    std::ofstream out(path, std::ios::app);
    out << event.step() << ' ' << event.name() << ' ' << event.microbatch() << '\n';
    out.close();
    TENON_CHECK(out.good(), "cannot write ", path);
  }

 private:
  int64_t rank_;
};

}  // namespace

TENON_PLUGIN(RankTrace)
