// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_platform.hpp"

#include "host/tensor/op_service.hpp"
#include "host/tensor/philox.hpp"
#include "host/tensor/tensor_service.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/kernel_policy.hpp"
#include "host/train/components/sharding_options.hpp"
#include "host/train/run/run_kernels.hpp"

#include <c10/core/DeviceType.h>

#include <cstdlib>

namespace tenon {
namespace {

// Draws other random numbers in calls of plugins. The checker finds out with it whether a recipe
// draws any.
constexpr char kOtherDraws[] = "TENON_TEST_OTHER_DRAWS";

// A check without a launcher does not know the number of ranks, and accepts any mesh.
Mesh mesh_of(const Recipe& recipe, const RankEnvironment& ranks, RunPlatform::Purpose purpose) {
  if (purpose == RunPlatform::Purpose::kCheck && ranks.launcher.empty()) {
    return Mesh();
  }
  return Mesh(mesh_degrees(recipe.parallel), ranks.world_size, ranks.rank);
}

// Each rank of a machine has its own GPU.
std::string device_name(const Recipe& recipe, const RankEnvironment& ranks) {
  const bool has_neighbours = ranks.local_world_size > 1 || ranks.slot > 0;  // or had neighbors
  return recipe.device == "cuda" && has_neighbours ? formatted("cuda:{}", ranks.slot)
                                                   : recipe.device;
}

// Call before the first operator and before other threads: some settings change the environment.
ComputeDevice open_run_device(const Recipe& recipe,
                              const RunRequest& request,
                              ComputeSettings& settings) {
  if (recipe.deterministic) {
    settings.make_reproducible();
  }
  if (request.profile.has_value()) {
    settings.quiet_tracer();
  }
  return open_device(device_name(recipe, request.ranks), request.gpu);
}

}  // namespace

RunPlatform::RunPlatform(const Recipe& recipe,
                         Process& process,
                         const RunRequest& request,
                         Purpose purpose)
    : settings_(process.compute_settings()),
      role_(mesh_of(recipe, request.ranks, purpose)),
      mesh_view_(role_.mesh().view()),
      device_(open_run_device(recipe, request, *settings_)),
      precision_(precision_policy(recipe.train.precision,
                                  device_.gpu != nullptr ? ComputesOn::kGpu : ComputesOn::kCpu)) {
  exec_.seed = mix_seeds(
      recipe.seed, stream_of(std::getenv(kOtherDraws) == nullptr ? "exec" : "exec, drawn again"));
  if (device_.gpu != nullptr) {
    waits_.emplace(*device_.gpu);
    const MemoryPins pins = device_.gpu->memory_pins();
    settings_->pin_staging({pins.pin, pins.unpin});
    exec_.device = device_.torch;
    exec_.stream = device_.gpu->stream();
    exec_.waiting = &*waits_;
  }
  exec_.compute_dtype = precision_.compute;
  exec_.autocast_dtype = precision_.autocast;
  exec_.mesh = &mesh_view_;
  exec_.random_stream = role_.random_stream();
  exec_.tensors = tensor_service();
  exec_.ops = op_service();
}

void RunPlatform::set_up_process(const Recipe& recipe) const {
  settings_->keep_memory();
  settings_->use_threads(recipe.compute_threads);
  settings_->use_kernels(kernel_policy_of(recipe.kernels));
  settings_->keep_kernel_answers(kernel_answers_in(default_kernel_cache_file()));
  // libtorch modules create parameters in the default dtype, which is never narrow. Parameters of a
  // narrow dtype are rounded from it.
  settings_->use_default_dtype(precision_.exact());
}

ParameterLayout RunPlatform::whole_layout() const {
  ParameterLayout layout;
  layout.dtype = precision_.stored;
  layout.seen_dtype = precision_.compute;
  layout.device = device();
  layout.partition_of = [](uint32_t) { return 0U; };
  return layout;
}

std::string RunPlatform::device_type() const {
  return c10::DeviceTypeName(device_.torch.type(), true);
}

std::map<std::string, uint64_t> RunPlatform::waits_by_plugin() const {
  return waits_.has_value() ? waits_->by_plugin() : std::map<std::string, uint64_t>();
}

}  // namespace tenon
