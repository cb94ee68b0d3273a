// SPDX-License-Identifier: Apache-2.0
//
// A run that is none, for hooks: it serves the figures it was given and keeps what a hook wishes
// for.
#pragma once

#include <tenon/hook.h>

#include "host/plugin/hook_proxy.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenon {

struct MadeWish {
  uint32_t wishes = 0;
  std::string reason;
};

class FakeRun {
 public:
  explicit FakeRun(std::string run_dir = "/nowhere");
  FakeRun(const FakeRun&) = delete;
  FakeRun& operator=(const FakeRun&) = delete;

  // Served by get_metric.
  std::map<std::string, double> metrics;
  // What hooks asked for, in order.
  std::vector<MadeWish> wishes;
  // Of the events that are fired.
  std::string window_label;

  // Calls the hook at an event, if it wants it.
  void fire(const HookProxy& hook, uint32_t event, uint64_t step = 0, bool is_train = true);

 private:
  static FakeRun& of(tenon_run* run) { return *reinterpret_cast<FakeRun*>(run); }

  std::string run_dir_;
  tenon_run_api api_;
};

}  // namespace tenon
