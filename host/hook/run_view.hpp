// SPDX-License-Identifier: Apache-2.0
//
// The interface through which hooks observe a run and make requests. The loop implements it, and
// hooks use it as the ABI's `tenon_run`, also with the services that take one.
// Threads: the train thread, while an event is being fired.
#pragma once

#include <tenon/draft/text_generation.h>
#include <tenon/hook.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

struct ParameterView {
  const std::string* name = nullptr;
  const at::Tensor* value = nullptr;
  const at::Tensor* grad = nullptr;  // null if there is none at this event
  int64_t offset = 0;
  int64_t numel = 0;
};

struct LrGroupView {
  const std::string* name = nullptr;
  const std::string* match = nullptr;
  double base_rate = 0;
  double rate = 0;
};

// A text for the model in training to continue, as tenon_text_request.
struct TextRequest {
  std::string prompt;
  std::optional<std::string> system;
  bool is_chat = false;
  int64_t max_tokens = 0;
  double temperature = 0;
  int64_t top_k = 0;
  double top_p = 1;
  uint64_t seed = 0;
};

// A text that the model wrote, as tenon_text_result.
struct WrittenText {
  std::string text;
  size_t num_prompt_tokens = 0;
  size_t num_tokens = 0;
  uint32_t finish = 0;  // TENON_TEXT_*
};

class HookProxy;

// The call of a hook that is under way.
struct HookCall {
  const HookProxy* hook = nullptr;  // null between calls
  uint32_t event = TENON_NUM_EVENTS;
};

// Tensors that a hook got and may only read. A write by an operator changes their version.
struct ReadOnlyTensor {
  at::Tensor tensor;
  int64_t version = 0;
  uint64_t content = 0;  // hash of the elements; 0 unless calls are checked
  uint32_t touch = 0;    // TENON_TOUCH_*: what writing needs
  std::string name;
};

class RunView {
 public:
  virtual ~RunView() = default;

  // ---- for the list of hooks ----

  // Begins the call of a hook.
  void begin_call(const HookCall& call) { call_ = call; }
  // Ends it. Errors  hook.undeclared_write if the hook wrote into a tensor that it may only read
  void end_call() {
    if (!lent_.empty()) [[unlikely]] {
      check_lent();
    }
    call_ = {};
  }
  // Ends a call that failed, without a check.
  void drop_call() noexcept {
    lent_.clear();
    call_ = {};
  }

  // ---- for the services ----

  const HookCall& call() const { return call_; }
  // Errors  hook.undeclared_write if the hook does not declare that it writes `touch`
  void require_write(uint32_t touch, const char* service) const;
  // Keeps a text until the next one, for the hook that requested it.
  const WrittenText& keep_text(WrittenText text) {
    text_ = std::move(text);
    return text_;
  }
  // Notes that the hook got a tensor, so that end_call() finds undeclared writes.
  void lend(const at::Tensor& tensor, uint32_t touch, const std::string& name);

  // Errors  hook.bad_request for a request that is unknown, or that the recipe does not allow
  virtual void request(uint32_t requests, const std::string& reason) = 0;
  virtual std::optional<double> metric(std::string_view name) const = 0;
  virtual const at::Tensor* scalar(std::string_view name) = 0;
  virtual void add_metric(const std::string& name, double value) = 0;
  virtual at::Tensor* field(std::string_view name) = 0;
  virtual void set_lr_factor(double factor) = 0;
  virtual size_t num_parameters() const = 0;
  virtual ParameterView parameter(size_t i) = 0;
  virtual const std::string& run_dir() const = 0;
  virtual size_t num_lr_groups() const = 0;
  virtual LrGroupView lr_group(size_t i) = 0;
  // Returns none if there is no number at this JSON pointer.
  virtual std::optional<double> lr_group_option(size_t i, const std::string& pointer) const = 0;
  // Errors  hook.bad_request if the run cannot roll back, or cannot roll back to before this step
  virtual void roll_back(uint64_t first_bad_step, const std::string& reason) = 0;
  // Returns null if the output does not exist at this event.
  virtual const at::Tensor* output(std::string_view name) = 0;
  // Errors  hook.bad_call; StatusError with TENON_NOT_FOUND if there is no such field
  virtual void set_field(const std::string& name, const at::Tensor& tensor) = 0;
  // Errors  hook.bad_call; StatusError with TENON_UNSUPPORTED
  virtual void scale_loss(double factor) = 0;
  // Returns none before the losses of a step are known, or if they are non-finite.
  virtual std::optional<double> step_loss() const = 0;
  virtual void all_reduce(std::span<double> values, bool is_sum) = 0;
  // Errors  hook.bad_call at an event that does not allow it; generate.*; errors of the plugins
  virtual void check_text(const TextRequest& request);
  virtual WrittenText generate_text(const TextRequest& request);

 private:
  bool declares(uint32_t touch) const;
  void check_lent();

  HookCall call_;
  std::vector<ReadOnlyTensor> lent_;
  WrittenText text_;
};

// Returns the function table for hooks; its functions take `as_abi(view)`.
const tenon_run_api* run_api();
// Returns the function table of TENON_TEXT_GENERATION_ID.
const tenon_text_generation_api* text_generation_service();
inline tenon_run* as_abi(RunView& view) {
  return reinterpret_cast<tenon_run*>(&view);
}

}  // namespace tenon
