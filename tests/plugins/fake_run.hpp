// SPDX-License-Identifier: Apache-2.0
//
// A fake run for tests of hooks: it serves given metrics and records what a hook requests.
#pragma once

#include <tenon/hook.h>

#include "host/plugin/hook_proxy.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenon {

struct MadeRequest {
  uint32_t requests = 0;
  std::string reason;
  uint64_t first_bad_step = 0;  // of what was asked for by roll_back
};

class FakeRun {
 public:
  explicit FakeRun(std::string run_dir = "/nowhere");
  FakeRun(const FakeRun&) = delete;
  FakeRun& operator=(const FakeRun&) = delete;

  struct LrGroup {
    std::string name;
    double rate = 0;
    std::map<std::string, double> options;  // by JSON pointer
  };

  // Served by get_metric, and what add_metric adds.
  std::map<std::string, double> metrics;
  std::map<std::string, at::Tensor> scalars;  // served by get_scalar
  std::vector<LrGroup> lr_groups;
  // What hooks asked for, in order.
  std::vector<MadeRequest> requests;
  // Of the events that are fired.
  std::string window_label;
  std::string message;

  // Calls the hook at an event, if it wants it.
  void fire(const HookProxy& hook, uint32_t event, uint64_t step = 0, bool is_train = true);

 private:
  static FakeRun& of(tenon_run* run) { return *reinterpret_cast<FakeRun*>(run); }

  std::string run_dir_;
  tenon_run_api api_;
};

}  // namespace tenon
