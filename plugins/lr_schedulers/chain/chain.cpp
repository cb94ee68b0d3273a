// SPDX-License-Identifier: Apache-2.0
//
// Schedules one after the other. Each counts its steps from its own start, as in PyTorch's
// SequentialLR, and takes its length for the length of the run.
#include <tenon/cpp/lr_scheduler.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace {

struct LinkOptions {
  tenon::ComponentOption schedule;
  std::optional<int64_t> steps;

  static void bind(tenon::OptionBinder<LinkOptions>& binder) {
    binder.field("schedule", &LinkOptions::schedule)
        .component("lr_scheduler")
        .doc("schedule of these steps");
    binder.field("steps", &LinkOptions::steps)
        .min(1)
        .doc("length in steps; null: to the end of the run, for the last schedule only");
  }
};

struct ChainOptions {
  std::vector<LinkOptions> schedules;
};

class Chain : public tenon::LrScheduler {
 public:
  static constexpr const char* kType = "chain";
  static constexpr const char* kSummary = "several schedules one after the other";
  using Options = ChainOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("schedules", &Options::schedules)
        .required()
        .min_items(1)
        .doc("schedules in order, each with its length");
  }

  Chain(const Options& options, const tenon::CreateContext& context) {
    const size_t n = options.schedules.size();
    uint64_t begin = 0;
    for (size_t i = 0; i < n; ++i) {
      const LinkOptions& link = options.schedules[i];
      TENON_CHECK(link.steps.has_value() || i + 1 == n,
                  "/schedules/",
                  i,
                  "/steps is null, but only the last of ",
                  n,
                  " schedules may run to the end; set its length");
      const uint64_t length = link.steps ? static_cast<uint64_t>(*link.steps) : 0;
      links_.push_back({tenon::LrSchedulerRef(context.host, link.schedule), begin, length});
      begin += length;
    }
    // Each schedule must be asked once, before its first factor.
    for (const Link& link : links_) {
      needs_total_ = link.schedule.needs_total() && link.length == 0;
    }
  }

  bool needs_total() const override { return needs_total_; }

  // After the last schedule, its final value stays.
  double factor(uint64_t step, uint64_t total) override {
    size_t i = 0;
    while (i + 1 < links_.size() && step >= links_[i].begin + links_[i].length) {
      ++i;
    }
    const Link& link = links_[i];
    const uint64_t length = link.length > 0      ? link.length
                            : total > link.begin ? total - link.begin
                                                 : 0;
    return link.schedule.factor(step - link.begin, length);
  }

 private:
  struct Link {
    tenon::LrSchedulerRef schedule;
    uint64_t begin = 0;
    uint64_t length = 0;  // 0: to the end of the run
  };

  std::vector<Link> links_;
  bool needs_total_ = false;
};

}  // namespace

TENON_PLUGIN(Chain)
