// SPDX-License-Identifier: Apache-2.0
//
// Learning-rate schedules. <tenon/lr_scheduler.h> defines the contract.
#ifndef TENON_CPP_LR_SCHEDULER_HPP
#define TENON_CPP_LR_SCHEDULER_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/options.hpp>
#include <tenon/lr_scheduler.h>

#include <cstdint>
#include <cstring>

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

/* A schedule that the host created for an option. It outlives the component whose option it is.
 *
 * Errors   those of the schedule
 * Threads  those of tenon_lr_scheduler */
class LrSchedulerRef {
 public:
  /* Takes the schedule from an option.
   *
   * Errors   TENON_INVALID if the option is null or names another interface */
  LrSchedulerRef(const Host& host, const ComponentOption& option)
      : host_(host), self_(option.ref.self) {
    TENON_CHECK(option && option.ref.interface_id != nullptr &&
                    std::strcmp(option.ref.interface_id, TENON_LR_SCHEDULER_ID) == 0,
                "the option does not name a learning-rate schedule");
    table_ = static_cast<const tenon_lr_scheduler*>(option.ref.table);
  }
  /* Call it once, before `factor`. */
  bool needs_total() const {
    tenon_lr_scheduler_info info{};
    info.struct_size = sizeof(info);
    host_.check(table_->describe(self_, &info));
    return info.needs_total != 0;
  }
  double factor(uint64_t step, uint64_t total) const {
    tenon_lr_factor_args args{};
    args.struct_size = sizeof(args);
    args.step = step;
    args.total = total;
    host_.check(table_->factor(self_, &args));
    return args.out_factor;
  }

 private:
  Host host_;
  const tenon_lr_scheduler* table_ = nullptr;
  void* self_;
};

TENON_NAMESPACE_END

#endif
