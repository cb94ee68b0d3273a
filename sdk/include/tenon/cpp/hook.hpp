// SPDX-License-Identifier: Apache-2.0
//
// Hooks: a base class, and a C++ view of events. <tenon/hook.h> defines the contract.
#ifndef TENON_CPP_HOOK_HPP
#define TENON_CPP_HOOK_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/event_names.hpp>
#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/hook.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

TENON_NAMESPACE_BEGIN

/* Returns the name of an event, for example "before_step"; "event 99" for an unknown number. */
inline std::string event_name(uint32_t event) {
  const char* const name = find_event_name(event);
  return name != nullptr ? name : "event " + std::to_string(event);
}

/* Returns the number of the event with this name, or TENON_NUM_EVENTS. */
inline uint32_t event_of(std::string_view name) {
  uint32_t event = 0;
  while (event < TENON_NUM_EVENTS && event_name(event) != name) {
    ++event;
  }
  return event;
}

/* Returns a mask of events: events({TENON_EVENT_START, TENON_EVENT_END}). */
inline uint64_t events(std::initializer_list<uint32_t> list) {
  uint64_t mask = 0;
  for (const uint32_t event : list) {
    mask |= TENON_EVENT_BIT(event);
  }
  return mask;
}

/* A parameter at an event. Tensors are borrowed until the event returns. */
struct ParameterView {
  std::string name;
  TensorRef value;    /* the local shard, or the whole parameter if full_parameters is set */
  TensorRef grad;     /* absent if there is no gradient at this event */
  int64_t offset = 0; /* position of the shard in what `numel` counts, in elements */
  int64_t numel = 0;  /* number of elements; see tenon_parameter_view */
};

/* Parameters that share a learning rate; see tenon_lr_group. */
struct LrGroup {
  /* "default" or "group0" and so on, plus ".no_decay" without weight decay. */
  std::string name;
  /* Pattern of the recipe's group; "" for parameters that no pattern matches. */
  std::string match;
  /* The option "lr". */
  double base_rate = 0;
  /* Learning rate of this step's update: base_rate times schedule and factor. */
  double rate = 0;
};

/* An event, and access to the run. The tags below hold for every function.
 *
 * Errors   TENON_INVALID for an index out of range
 * Threads  those of the event, and only during it
 * Owner    borrowed until `on_event` returns */
class Event {
 public:
  Event(const Host& host, const tenon_event* event) : host_(&host), event_(event) {}

  const tenon_event* get() const { return event_; }
  /* TENON_EVENT_* */
  uint32_t id() const { return event_->id; }
  std::string name() const { return event_name(event_->id); }
  /* False during an evaluation. */
  bool is_train() const { return event_->is_train != 0; }
  /* Current or last finished step, from 1; 0 before the first. */
  uint64_t step() const { return event_->step; }
  /* Indices of epoch, window and microbatch, from 0; see tenon_event. */
  uint64_t epoch() const { return event_->epoch; }
  uint64_t window() const { return event_->window; }
  uint64_t microbatch() const { return event_->microbatch; }
  /* "" if the dataset has no windows. */
  std::string window_label() const { return event_->window_label; }
  /* Depends on the event, see tenon_event: the error at on_error, the outcome at end. */
  std::string message() const { return event_->message; }
  /* Returns device, stream and services, for work on tensors. The seed is 0. */
  Exec exec() const { return {*host_, event_->exec}; }

  /* Makes requests, TENON_REQUEST_*; the reason is logged.
   *
   * Errors   TENON_INVALID for an unknown request, or one that the recipe does not allow */
  void request(uint32_t requests, const std::string& reason) const {
    host_->check(api().request(run(), requests, reason.c_str()));
  }
  /* Requests a rollback to a checkpoint before `first_bad_step`; the data since is skipped.
   *
   * Errors   TENON_INVALID for a step that is not finished, or if the recipe does not allow it */
  void roll_back(uint64_t first_bad_step, const std::string& reason) const {
    host_->check(api().roll_back(run(), first_bad_step, reason.c_str()));
  }
  /* Returns the last recorded value of a metric, or nothing if there is none yet. Names: "loss",
   * "lr", "grad_norm", "loss_scale", "step_seconds", "samples_per_second", "tokens_per_second",
   * "data_wait_seconds", "eval/loss", and those of the recipe's metrics and of plugins. */
  std::optional<double> find_metric(const std::string& name) const {
    double out = 0;
    return found(api().get_metric(run(), name.c_str(), &out)) ? std::optional<double>(out)
                                                              : std::nullopt;
  }
  /* Returns a scalar of the current step that may still be on the device: "loss", "grad_norm" or
   * "applied".
   *
   * Errors   TENON_NOT_FOUND before the first loss of a step, or if this rank had no sample in it
   */
  TensorRef scalar(const std::string& name) const {
    const tenon_tensor* out = nullptr;
    host_->check(api().get_scalar(run(), name.c_str(), &out));
    return {*host_, out};
  }
  /* Returns the same scalar, or an absent one instead of TENON_NOT_FOUND. */
  TensorRef find_scalar(const std::string& name) const {
    const tenon_tensor* out = nullptr;
    return found(api().get_scalar(run(), name.c_str(), &out)) ? TensorRef(*host_, out)
                                                              : TensorRef();
  }
  /* Adds a metric to the next record. If several ranks add it, the lowest rank's value is recorded.
   *
   * Errors   TENON_INVALID for an invalid name (metrics.h) */
  void add_metric(const std::string& name, double value) const {
    host_->check(api().add_metric(run(), name.c_str(), value));
  }
  /* Returns a field of the batch, or an absent tensor if there is none. A hook that changes the
   * field in place declares TENON_TOUCH_BATCH. */
  TensorRef field(const std::string& name) const {
    tenon_tensor* out = nullptr;
    host_->check(api().get_field(run(), name.c_str(), &out));
    return {*host_, out};
  }
  /* Replaces a field of the batch, at after_data, by a tensor of the same dtype, device, number of
   * axes and size of the first axis. Declare TENON_TOUCH_BATCH in `writes`.
   *
   * Errors   TENON_NOT_FOUND if there is no such field; TENON_INVALID for another tensor or event,
   *          or a hook that does not declare it
   * Owner    `tensor` is borrowed; the host takes a reference */
  void set_field(const std::string& name, const tenon_tensor* tensor) const {
    host_->check(api().set_field(run(), name.c_str(), tensor));
  }
  /* Returns an output of the model for the current microbatch, from after_forward to
   * before_backward. Declare TENON_TOUCH_OUTPUTS in `reads`.
   *
   * Errors   TENON_NOT_FOUND if no such value is computed at this event: with `loss_chunk`, the
   *          outputs of the last block never exist as a whole; TENON_INVALID if the hook does not
   *          declare it */
  TensorRef output(const std::string& name) const {
    const tenon_tensor* out = nullptr;
    host_->check(api().get_output(run(), name.c_str(), &out));
    return {*host_, out};
  }
  /* Multiplies the loss of the current microbatch by a factor for the backward pass, at
   * before_loss, after_loss or before_backward of the training. Recorded losses do not change.
   * Declare TENON_TOUCH_LOSS in `writes`.
   *
   * Errors   TENON_INVALID for a non-finite factor, another event, or a hook that does not declare
   *          it; TENON_UNSUPPORTED after before_loss if the recipe sets `loss_chunk` */
  void scale_loss(double factor) const { host_->check(api().scale_loss(run(), factor)); }
  /* Returns the loss of the current step over all ranks, from after_optimizer_step or
   * update_skipped to after_step; nothing before that, or if the loss is non-finite. It waits for
   * the device. Declare TENON_TOUCH_LOSS in `reads`.
   *
   * Errors   TENON_INVALID if the hook does not declare it */
  std::optional<double> step_loss() const {
    double out = 0;
    return found(api().get_step_loss(run(), &out)) ? std::optional<double>(out) : std::nullopt;
  }
  /* Replaces each of n numbers by its reduction over all ranks, TENON_REDUCE_SUM or
   * TENON_REDUCE_MAX. All ranks call it at the same events, with the same n and reduction. Set
   * `uses_collectives`.
   *
   * Shapes   values [n], n at most 4096
   * Errors   TENON_INVALID for another n or reduction, or a hook that does not set it. If a rank is
   *          lost, the run ends
   * Owner    `values` is borrowed until return */
  void all_reduce(double* values, size_t n, uint32_t reduction = TENON_REDUCE_SUM) const {
    host_->check(api().all_reduce(run(), values, n, reduction));
  }
  /* Sets a factor on the learning rate of every group, until it is set again. All ranks must set
   * the same factor. */
  void set_lr_factor(double factor) const { host_->check(api().set_lr_factor(run(), factor)); }
  /* Returns the number of parameters. */
  size_t num_parameters() const {
    size_t out = 0;
    host_->check(api().get_num_parameters(run(), &out));
    return out;
  }
  /* Returns parameter i, in [0, num_parameters()). */
  ParameterView parameter(size_t i) const {
    tenon_parameter_view view{};
    view.struct_size = sizeof(view);
    host_->check(api().get_parameter(run(), i, &view));
    return {view.name_ref,
            TensorRef(*host_, view.value_ref),
            TensorRef(*host_, view.grad_ref),
            view.offset,
            view.numel};
  }
  /* Returns the run directory. */
  std::string run_dir() const { return api().run_dir(run()); }
  /* Returns the number of learning-rate groups. */
  size_t num_lr_groups() const {
    size_t out = 0;
    host_->check(api().get_num_lr_groups(run(), &out));
    return out;
  }
  /* Returns learning-rate group i. */
  LrGroup lr_group(size_t i) const {
    tenon_lr_group group{};
    group.struct_size = sizeof(group);
    host_->check(api().get_lr_group(run(), i, &group));
    return {group.name_ref, group.match_ref, group.base_rate, group.rate};
  }
  /* Reads a number from the options of the group's optimizer ("/betas/0"), or nothing if there is
   * none. */
  std::optional<double> lr_group_option(size_t i, const std::string& pointer) const {
    double out = 0;
    return found(api().get_lr_group_option(run(), i, pointer.c_str(), &out))
               ? std::optional<double>(out)
               : std::nullopt;
  }

 private:
  /* Returns false for TENON_NOT_FOUND, and throws other errors. */
  bool found(tenon_status* status) const {
    if (status != nullptr) {
      const tenon_status_api* statuses = status_api(host_->get());
      if (statuses->code(status) == TENON_NOT_FOUND) {
        statuses->release(status);
        return false;
      }
    }
    host_->check(status);
    return true;
  }
  const tenon_run_api& api() const { return *event_->api; }
  tenon_run* run() const { return event_->run; }

  const Host* host_;
  const tenon_event* event_;
};

/* Base class of hooks. */
class Hook : public Component {
 public:
  using Kind = Hook;
  static constexpr const char* kKind = "hook";
  static constexpr const char* kInterfaceId = TENON_HOOK_ID;

  /* Sets info.events, and, if they differ from the defaults, phase (NORMAL), priority, reads,
   * writes, rank_0_only, full_parameters and uses_collectives (0).
   *
   * Errors   any exception ends the run before the first step
   * Threads  [main], once, before any other call */
  virtual void describe(tenon_hook_info& info) = 0;
  /* Handles an event that the hook subscribed to.
   *
   * Errors   any exception ends the run, with on_error and end for all hooks
   * Threads  [step]
   * Owner    the event is borrowed until return */
  virtual void on_event(const Event& event) = 0;

  /* Returns the ABI table of class T. */
  template <class T>
  static const void* table() {
    static const tenon_hook calls{sizeof(tenon_hook), call_describe, call_on_event};
    return &calls;
  }

 private:
  static tenon_status* call_describe(void* self, tenon_hook_info* out) noexcept {
    return call_on<Hook>(self, [&](Hook& hook) {
      TENON_CHECK(out != nullptr, "out is null");
      out->phase = TENON_PHASE_NORMAL;
      hook.describe(*out);
    });
  }
  static tenon_status* call_on_event(void* self, const tenon_event* event) noexcept {
    return call_on<Hook>(self, [&](Hook& hook) {
      TENON_CHECK(event != nullptr, "the event is null");
      hook.on_event(Event(hook.host(), event));
    });
  }
};

TENON_NAMESPACE_END

#endif
