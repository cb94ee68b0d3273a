// SPDX-License-Identifier: Apache-2.0
//
// The platform of a run: its role among the ranks, its device, its precision, and the
// `tenon_exec` that all components share. Belongs to one process and knows no component.
// Invariant: the device is opened before the first operator runs, and outlives all computation.
// Threads: [main].
#pragma once

#include "host/device/compute_device.hpp"
#include "host/device/precision.hpp"
#include "host/distributed/ranks/rank_role.hpp"
#include "host/model/parameter_store.hpp"
#include "host/process/process.hpp"
#include "host/recipe/recipe.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/train/run/plugin_waits.hpp"
#include "host/train/run_plan/run_request.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace tenon {

class RunPlatform {
 public:
  // kCheck accepts a recipe for several ranks in a process without a launcher.
  enum class Purpose { kCheck, kTrain };

  // Opens the device. If the recipe is deterministic, first asks `process` for reproducible
  // results. All settings of the process are restored when the platform is destroyed.
  // Errors  device.unavailable; precision.needs_gpu; distributed.bad_mesh
  RunPlatform(const Recipe& recipe, Process& process, const RunRequest& request, Purpose purpose);
  RunPlatform(const RunPlatform&) = delete;
  RunPlatform& operator=(const RunPlatform&) = delete;

  // Applies the other settings that a process has once: memory, threads, kernels, the default
  // dtype. Call before the first operator.
  void set_up_process(const Recipe& recipe) const;

  const RankRole& role() const { return role_; }
  const tenon_mesh& mesh_view() const { return mesh_view_; }
  bool is_first() const { return role_.is_first(); }
  c10::Device device() const { return device_.torch; }
  // Returns "cpu" or "cuda".
  std::string device_type() const;
  // Returns one line for people.
  std::string description() const { return describe_device(device_); }
  // Returns why "auto" does not use an existing GPU; "" otherwise.
  const std::string& warning() const { return device_.warning; }
  Gpu* gpu() const { return device_.gpu.get(); }  // null on the CPU
  const PrecisionPolicy& precision() const { return precision_; }
  const ExecBase& exec() const { return exec_; }
  // Returns the layout of parameters that this rank holds whole, on the device of the run.
  ParameterLayout whole_layout() const;
  // Returns the number of waits for the GPU by plugin id; empty on the CPU.
  std::map<std::string, uint64_t> waits_by_plugin() const;

 private:
  const std::unique_ptr<ComputeSettings> settings_;
  const RankRole role_;
  const tenon_mesh mesh_view_;
  ComputeDevice device_;
  PrecisionPolicy precision_;
  std::optional<PluginWaits> waits_;
  ExecBase exec_;
};

}  // namespace tenon
