// SPDX-License-Identifier: Apache-2.0
//
// Learning-rate schedules.
#ifndef TENON_CPP_LR_SCHEDULER_HPP
#define TENON_CPP_LR_SCHEDULER_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/lr_scheduler.h>

#include <cstdint>

namespace tenon {

class LrScheduler : public Component {
 public:
  using Kind = LrScheduler;
  static constexpr const char* kKind = "lr_scheduler";
  static constexpr const char* kInterfaceId = TENON_LR_SCHEDULER_ID;

  /* True if `factor` needs the run's length.  Threads [main] */
  virtual bool needs_total() const { return false; }
  /* The factor on each group's rate at step `step`, which counts from 0, of `total` (0: not known).
   * A pure function of its arguments.  Threads [step] */
  virtual double factor(uint64_t step, uint64_t total) = 0;

  template <class T>
  static const void* table() {
    static const tenon_lr_scheduler calls{sizeof(tenon_lr_scheduler), on_needs_total, on_factor};
    return &calls;
  }

 private:
  static bool on_needs_total(void* self) noexcept {
    return self != nullptr && static_cast<LrScheduler*>(self)->needs_total();
  }
  static tenon_status* on_factor(void* self, uint64_t step, uint64_t total, double* out) noexcept {
    return call_on<LrScheduler>(self, [&](LrScheduler& scheduler) {
      TENON_CHECK(out != nullptr, "out is null");
      *out = scheduler.factor(step, total);
    });
  }
};

}  // namespace tenon

#endif
