// SPDX-License-Identifier: Apache-2.0
//
// An imagined run for checks of hooks: it fires the events of a run in their order, serves small
// tensors and numbers, and notes what a hook asks for. It trains nothing.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/hook/hook_list.hpp"
#include "host/hook/run_view.hpp"
#include "host/plugin/hook_proxy.hpp"
#include "host/tensor/exec_frame.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class ImaginedRun final : public RunView {
 public:
  // kBare: as early in a run or on a rank without samples. There is no metric, loss, batch, output,
  // gradient or parameter.
  enum class Served { kAll, kBare };

  // Owner  `hook` is moved in; it lives as long as the run
  ImaginedRun(HookProxy hook, const ExecBase& exec, std::string run_dir, Served served);

  // Called before and after each event that the hook subscribes to.
  struct Watcher {
    std::function<void(uint32_t event)> before = nullptr;
    std::function<void(uint32_t event)> after = nullptr;
    // Receives the error of an event. The run continues.
    std::function<void(uint32_t event, const Error& error)> failed = nullptr;
  };

  // Fires what comes before the first step. If `load` is set, the run is resumed: `load` restores
  // the state of the hook.
  void begin(const Watcher& watcher, const std::function<void()>& load = nullptr);
  // Fires all events of steps first to last, with an evaluation, a checkpoint and a skipped update.
  void train(uint64_t first, uint64_t last, const Watcher& watcher);
  // Fires the events at the end of the data and of the run. Events that were not fired so far come
  // before on_error, so that a hook meets each event that the SDK has.
  void end(const Watcher& watcher);

  const HookProxy& hook() const { return hooks_.hooks().front(); }
  // What the hook asked for and changed so far, one line each.
  const std::vector<std::string>& actions() const { return actions_; }

  // Everything that a hook may write if it declares it, by TENON_TOUCH_*: copies.
  struct Tensors {
    std::vector<at::Tensor> batch;
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> gradients;
  };
  Tensors copy_of_tensors() const;

  // ---- for hooks ----

  void request(uint32_t requests, const std::string& reason) override;
  std::optional<double> metric(std::string_view name) const override;
  const at::Tensor* scalar(std::string_view name) override;
  void add_metric(const std::string& name, double value) override;
  at::Tensor* field(std::string_view name) override;
  void set_lr_factor(double factor) override;
  size_t num_parameters() const override { return parameters_.size(); }
  ParameterView parameter(size_t i) override;
  const std::string& run_dir() const override { return run_dir_; }
  size_t num_lr_groups() const override { return served_ == Served::kAll ? 1 : 0; }
  LrGroupView lr_group(size_t i) override;
  std::optional<double> lr_group_option(size_t i, const std::string& pointer) const override;
  void roll_back(uint64_t first_bad_step, const std::string& reason) override;
  const at::Tensor* output(std::string_view name) override;
  void set_field(const std::string& name, const at::Tensor& tensor) override;
  void scale_loss(double factor) override;
  std::optional<double> step_loss() const override;
  void all_reduce(std::span<double> values, bool is_sum) override;
  void check_text(const TextRequest& request) override;
  WrittenText generate_text(const TextRequest& request) override;

 private:
  struct Parameter {
    std::string name;
    at::Tensor value;
    at::Tensor grad;
  };
  void fire(uint32_t event, const Watcher& watcher, const char* message = "");
  void train_step(const Watcher& watcher);
  void evaluate(const Watcher& watcher);
  void microbatch(const Watcher& watcher);
  void note(std::string action) { actions_.push_back(std::move(action)); }

  std::string run_dir_;
  Served served_;
  std::map<std::string, double, std::less<>> metrics_;
  std::map<std::string, at::Tensor, std::less<>> batch_;
  std::map<std::string, at::Tensor, std::less<>> outputs_;
  std::map<std::string, at::Tensor, std::less<>> scalars_;
  std::vector<Parameter> parameters_;
  uint64_t fired_ = 0;  // TENON_EVENT_BIT of events, also if the hook does not want them
  bool has_batch_ = false;
  bool has_outputs_ = false;
  bool has_gradients_ = false;
  bool has_step_loss_ = false;
  std::vector<std::string> actions_;
  HookList hooks_;  // last: it refers to this run
};

}  // namespace tenon
