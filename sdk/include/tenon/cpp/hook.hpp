// SPDX-License-Identifier: Apache-2.0
//
// Hooks: a class to derive from, and an event with C++ manners.
#ifndef TENON_CPP_HOOK_HPP
#define TENON_CPP_HOOK_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/hook.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

/* "before_step"; "event 99" for a number without a name. */
inline std::string event_name(uint32_t event) {
  constexpr const char* kNames[TENON_NUM_EVENTS] = {"before_init",
                                                    "after_init",
                                                    "start",
                                                    "after_load",
                                                    "window_mode",
                                                    "before_epoch",
                                                    "before_window",
                                                    "before_step",
                                                    "after_data",
                                                    "before_forward",
                                                    "after_forward",
                                                    "before_loss",
                                                    "after_loss",
                                                    "before_backward",
                                                    "after_backward",
                                                    "before_optimizer_step",
                                                    "after_optimizer_step",
                                                    "after_step",
                                                    "update_skipped",
                                                    "before_evaluate",
                                                    "after_evaluate",
                                                    "before_checkpoint",
                                                    "after_checkpoint",
                                                    "out_of_data",
                                                    "after_window",
                                                    "after_epoch",
                                                    "on_error",
                                                    "end"};
  return event < TENON_NUM_EVENTS ? kNames[event] : "event " + std::to_string(event);
}

/* The number of an event's name, or TENON_NUM_EVENTS. */
inline uint32_t event_of(std::string_view name) {
  uint32_t event = 0;
  while (event < TENON_NUM_EVENTS && event_name(event) != name) {
    ++event;
  }
  return event;
}

/* A mask of events: events({TENON_EVENT_START, TENON_EVENT_END}). */
inline uint64_t events(std::initializer_list<uint32_t> list) {
  uint64_t mask = 0;
  for (const uint32_t event : list) {
    mask |= TENON_EVENT_BIT(event);
  }
  return mask;
}

/* A parameter at an event. Tensors are borrowed until the event ends. */
struct ParameterView {
  std::string name;
  TensorRef value;    /* the local slice, or the whole where asked for */
  TensorRef grad;     /* absent where there is none at this event */
  int64_t offset = 0; /* of the slice in the whole, in elements */
  int64_t numel = 0;  /* of the whole */
};

/* Parameters with one rate, see tenon_lr_group. */
struct LrGroup {
  std::string name;
  std::string match;
  double base_rate = 0;
  double rate = 0;
};

/* An event, and through it the run. Borrowed: valid while `on_event` runs, on its thread. */
class Event {
 public:
  Event(const Host& host, const tenon_event* event) : host_(&host), event_(event) {}

  const tenon_event* get() const { return event_; }
  /* TENON_EVENT_* */
  uint32_t id() const { return event_->id; }
  std::string name() const { return event_name(event_->id); }
  bool is_train() const { return event_->is_train != 0; }
  /* The step under way or last finished, from 1; 0 before the first. */
  uint64_t step() const { return event_->step; }
  /* From 0, as are window and microbatch. */
  uint64_t epoch() const { return event_->epoch; }
  uint64_t window() const { return event_->window; }
  uint64_t microbatch() const { return event_->microbatch; }
  std::string window_label() const { return event_->window_label; }
  /* The error at on_error, the outcome at end, ...: see tenon_event. */
  std::string message() const { return event_->message; }

  /* Asks for TENON_WISH_*; the reason goes into the log. */
  void wish(uint32_t wishes, const std::string& reason) const {
    host_->check(api().wish(run(), wishes, reason.c_str()));
  }
  /* Asks for a checkpoint of before `first_bad_step`, and for other data. */
  void roll_back(uint64_t first_bad_step, const std::string& reason) const {
    if (!TENON_HAS(tenon_run_api, event_->api, roll_back)) {
      TENON_FAIL(TENON_UNSUPPORTED,
                 "service_missing",
                 "this hook asks to go back to an earlier checkpoint, which the host does not do; "
                 "use a newer host");
    }
    host_->check(api().roll_back(run(), first_bad_step, reason.c_str()));
  }
  /* The last recorded value of a figure ("eval/loss"), if there is one yet. */
  std::optional<double> find_metric(const std::string& name) const {
    double out = 0;
    return found(api().get_metric(run(), name.c_str(), &out)) ? std::optional<double>(out)
                                                              : std::nullopt;
  }
  /* A scalar of the step under way that may still be on the device: "loss", "grad_norm", "applied".
   */
  TensorRef scalar(const std::string& name) const {
    const tenon_tensor* out = nullptr;
    host_->check(api().get_scalar(run(), name.c_str(), &out));
    return {*host_, out};
  }
  /* The same, absent where there is none: a rank that had no sample in a step has seen no loss. */
  TensorRef find_scalar(const std::string& name) const {
    const tenon_tensor* out = nullptr;
    return found(api().get_scalar(run(), name.c_str(), &out)) ? TensorRef(*host_, out)
                                                              : TensorRef();
  }
  void add_metric(const std::string& name, double value) const {
    host_->check(api().add_metric(run(), name.c_str(), value));
  }
  /* A field of the batch, or absent. */
  TensorRef field(const std::string& name) const {
    tenon_tensor* out = nullptr;
    host_->check(api().get_field(run(), name.c_str(), &out));
    return {*host_, out};
  }
  /* A factor on the rate of every group, until set again. */
  void set_lr_factor(double factor) const { host_->check(api().set_lr_factor(run(), factor)); }
  size_t num_parameters() const {
    size_t out = 0;
    host_->check(api().get_num_parameters(run(), &out));
    return out;
  }
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
  /* Where the run keeps its files. */
  std::string run_dir() const { return api().run_dir(run()); }
  size_t num_lr_groups() const {
    size_t out = 0;
    host_->check(lr_api().get_num_lr_groups(run(), &out));
    return out;
  }
  LrGroup lr_group(size_t i) const {
    tenon_lr_group group{};
    group.struct_size = sizeof(group);
    host_->check(lr_api().get_lr_group(run(), i, &group));
    return {group.name_ref, group.match_ref, group.base_rate, group.rate};
  }
  /* A number of the options that the group's optimizer was created with ("/betas/0"), if there is
   * one. */
  std::optional<double> lr_group_option(size_t i, const std::string& pointer) const {
    double out = 0;
    return found(lr_api().get_lr_group_option(run(), i, pointer.c_str(), &out))
               ? std::optional<double>(out)
               : std::nullopt;
  }

 private:
  /* False for TENON_NOT_FOUND; other errors are thrown. */
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
  const tenon_run_api& lr_api() const {
    if (!TENON_HAS(tenon_run_api, event_->api, get_lr_group_option)) {
      TENON_FAIL(TENON_UNSUPPORTED,
                 "service_missing",
                 "this hook asks for the rates of groups of parameters, which the host does not "
                 "tell; use a newer host");
    }
    return *event_->api;
  }
  const tenon_run_api& api() const { return *event_->api; }
  tenon_run* run() const { return event_->run; }

  const Host* host_;
  const tenon_event* event_;
};

class Hook : public Component {
 public:
  using Kind = Hook;
  static constexpr const char* kKind = "hook";
  static constexpr const char* kInterfaceId = TENON_HOOK_ID;

  /* Sets info.events, and phase, priority, reads, writes, rank_0_only, full_parameters where they
   * are not normal, 0, 0, 0, 0, 0.  Threads [main], once */
  virtual void describe(tenon_hook_info& info) = 0;
  /* An exception ends the run.  Threads [step] */
  virtual void on_event(const Event& event) = 0;

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

}  // namespace tenon

#endif
