// SPDX-License-Identifier: Apache-2.0
//
// Learning-rate schedules. <tenon/lr_scheduler.h> defines the contract.
#ifndef TENON_CPP_LR_SCHEDULER_HPP
#define TENON_CPP_LR_SCHEDULER_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/lr_scheduler.h>

#include <cstdint>

TENON_NAMESPACE_BEGIN

/* Base class of learning-rate schedules. */
class LrScheduler : public Component {
 public:
  using Kind = LrScheduler;
  static constexpr const char* kKind = "lr_scheduler";
  static constexpr const char* kInterfaceId = TENON_LR_SCHEDULER_ID;

  /* Returns true if `factor` needs the length of the run. The host then rejects a recipe that does
   * not specify it.
   *
   * Errors   any exception ends the run before the first step
   * Threads  [main], once, before any other call */
  virtual bool needs_total() const { return false; }
  /* Computes the factor on each group's learning rate. A pure function of its arguments.
   *
   * Units    step counts from 0, skipped updates included; total is the run's number of steps, 0 if
   *          unknown
   * Errors   any exception ends the run
   * Threads  [step] */
  virtual double factor(uint64_t step, uint64_t total) = 0;

  /* Returns the ABI table of class T. */
  template <class T>
  static const void* table() {
    static const tenon_lr_scheduler calls{sizeof(tenon_lr_scheduler), on_describe, on_factor};
    return &calls;
  }

 private:
  static tenon_status* on_describe(void* self, tenon_lr_scheduler_info* out) noexcept {
    return call_on<LrScheduler>(self, [&](LrScheduler& scheduler) {
      TENON_CHECK(out != nullptr, "out is null");
      out->needs_total = scheduler.needs_total() ? 1 : 0;
    });
  }
  static tenon_status* on_factor(void* self, tenon_lr_factor_args* args) noexcept {
    return call_on<LrScheduler>(self, [&](LrScheduler& scheduler) {
      TENON_CHECK(args != nullptr, "the arguments of factor are null");
      args->out_factor = scheduler.factor(args->step, args->total);
    });
  }
};

TENON_NAMESPACE_END

#endif
