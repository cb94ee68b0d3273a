// SPDX-License-Identifier: Apache-2.0
//
// What a run computes on: its place in the mesh of ranks, its device, its precision, and the
// `tenon_exec` that all components share. It belongs to one process and knows no component.
// Invariant: the device is open before the first operator runs, and outlives all that computes.
// Threads: [main].
#pragma once

#include "host/device/compute_device.hpp"
#include "host/device/precision.hpp"
#include "host/distributed/ranks/mesh.hpp"
#include "host/recipe/recipe.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/train/run/plugin_waits.hpp"
#include "host/train/run/run_request.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tenon {

class RunPlatform {
 public:
  // kCheck accepts a recipe for several ranks in one process that nobody launched.
  enum class Purpose { kCheck, kTrain };

  // Opens the device. Settings of the environment that make results reproducible are made first.
  // Errors  device.unavailable; precision.needs_gpu; distributed.bad_mesh
  RunPlatform(const Recipe& recipe, const RunRequest& request, Purpose purpose);
  RunPlatform(const RunPlatform&) = delete;
  RunPlatform& operator=(const RunPlatform&) = delete;

  // Makes the settings of the whole process: memory, threads, the default dtype. Before the first
  // operator.
  void set_up_process(const Recipe& recipe) const;

  const Mesh& mesh() const { return mesh_; }
  const tenon_mesh& mesh_view() const { return mesh_view_; }
  bool is_first() const { return mesh_.rank() == 0; }
  c10::Device device() const { return device_.torch; }
  // "cpu", "cuda".
  std::string device_type() const;
  // One line for people; with a warning if a GPU exists that "auto" does not use.
  std::string description() const { return describe_device(device_); }
  const std::string& warning() const { return device_.warning; }
  Gpu* gpu() const { return device_.gpu.get(); }  // null on the CPU
  const PrecisionPolicy& precision() const { return precision_; }
  const ExecBase& exec() const { return exec_; }
  // How often each plugin has waited for the GPU, by its id; empty on the CPU.
  std::map<std::string, uint64_t> waits_by_plugin() const;

 private:
  const Mesh mesh_;
  const tenon_mesh mesh_view_;
  ComputeDevice device_;
  PrecisionPolicy precision_;
  std::optional<PluginWaits> waits_;
  ExecBase exec_;
};

}  // namespace tenon
