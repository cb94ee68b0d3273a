// SPDX-License-Identifier: Apache-2.0
//
// The interface through which hooks observe a run and make requests. The loop implements it, and
// hooks use it as the ABI's `tenon_run`.
// Threads: the train thread, while an event is being fired.
#pragma once

#include <tenon/hook.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

class RunView {
 public:
  virtual ~RunView() = default;

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
};

// Returns the function table for hooks; its functions take `as_abi(view)`.
const tenon_run_api* run_api();
inline tenon_run* as_abi(RunView& view) {
  return reinterpret_cast<tenon_run*>(&view);
}

}  // namespace tenon
