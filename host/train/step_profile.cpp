// SPDX-License-Identifier: Apache-2.0
#include "host/train/step_profile.hpp"

#include "host/log/log.hpp"
#include "host/tensor/trace_span.hpp"
#include "host/text/formatted.hpp"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>

namespace tenon {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

std::string steps_text(const StepRange& steps) {
  return steps.first == steps.last ? formatted("step {}", steps.first)
                                   : formatted("steps {} to {}", steps.first, steps.last);
}

}  // namespace

StepProfile::StepProfile(StepRange steps, std::string file, Devices devices)
    : steps_(steps), file_(std::move(file)), devices_(devices) {}

void StepProfile::start() {
  torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO,
                                               /*report_input_shapes=*/true);
  config.experimental_config.profile_all_threads = true;
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (devices_ == Devices::kCpuAndGpu) {
    activities.insert(ActivityType::CUDA);
  }
  const auto pause = pause_traced_work();
  try {
    kineto::prepareProfiler(config, activities);
    kineto::enableProfiler(config, activities);
  } catch (const c10::Error& error) {
    log_warning(std::string("no profile: ") + error.what_without_backtrace());
    return;
  }
  g_is_tracing.store(true, std::memory_order_relaxed);
  is_on_ = true;
}

void StepProfile::finish() {
  if (!is_on_) {
    return;
  }
  is_on_ = false;
  spans_.close();
  try {
    std::unique_ptr<kineto::ProfilerResult> result;
    {
      const auto pause = pause_traced_work();
      g_is_tracing.store(false, std::memory_order_relaxed);
      result = kineto::disableProfiler();
    }
    result->save(file_);
  } catch (const c10::Error& error) {
    log_warning(std::string("no profile: ") + error.what_without_backtrace());
    return;
  }
  std::error_code failed;
  const auto size = std::filesystem::file_size(file_, failed);
  if (failed || size == 0) {
    log_warning("the profile could not be written to " + file_);
    return;
  }
  log_info("the profile of " + steps_text(steps_) + " is in " + file_);
}

void StepProfile::finish_run(uint64_t last_step) {
  finish();
  if (last_step < steps_.first) {
    log_warning(formatted(
        "no profile: the run ended at step {}, before {}", last_step, steps_text(steps_)));
  }
}

}  // namespace tenon
