// SPDX-License-Identifier: Apache-2.0
//
// Waits for the GPU when a plugin requests it, and counts the waits of each plugin. Each wait
// drains the GPU's work queue and slows the run. Threads: the train thread.
#pragma once

#include "host/device/gpu.hpp"
#include "host/tensor/exec_frame.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace tenon {

class PluginWaits final : public DeviceWait {
 public:
  // `gpu` is borrowed.
  explicit PluginWaits(Gpu& gpu) : gpu_(gpu) {}

  void wait_for(const tenon_host* host) override;

  // Number of waits by plugin id, without plugins that never waited.
  const std::map<std::string, uint64_t>& by_plugin() const { return by_plugin_; }

 private:
  Gpu& gpu_;
  std::map<std::string, uint64_t> by_plugin_;
};

}  // namespace tenon
