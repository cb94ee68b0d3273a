// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of a call from the host into a plugin and back: a function of a component, an
// event to a hook, and an operator called by name, minus the same operator called directly. The
// plugins are loaded as in a run. They do almost nothing: the schedule returns a constant, and the
// hook counts.
//
// usage: boundary BENCH_PLUGINS PLUGINS CALLS      (two plugin folders; prints a line of JSON)
#include "host/error/status.hpp"
#include "host/hook/hook_list.hpp"
#include "host/plugin/lr_scheduler_proxy.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/plugin/plugin_services.hpp"
#include "host/plugin/registry.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// CPU time of this thread: the loops never wait, and other work on the machine does not count.
double now_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e9 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec);
}

// Nanoseconds per call of `body`, which makes `calls` calls.
template <class Body>
double ns_a_call(uint64_t calls, Body&& body) {
  const double begin = now_ns();
  body();
  return (now_ns() - begin) / static_cast<double>(calls);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Hooks of this benchmark use no services of the run.
class NoRun final : public RunView {
 public:
  void request(uint32_t, const std::string&) override {}
  std::optional<double> metric(std::string_view) const override { return std::nullopt; }
  const at::Tensor* scalar(std::string_view) override { return nullptr; }
  void add_metric(const std::string&, double) override {}
  at::Tensor* field(std::string_view) override { return nullptr; }
  void set_lr_factor(double) override {}
  const at::Tensor* output(std::string_view) override { return nullptr; }
  void set_field(const std::string&, const at::Tensor&) override {}
  void scale_loss(double) override {}
  std::optional<double> step_loss() const override { return 0.5; }
  void all_reduce(std::span<double> values, bool) override { values[0] = 0; }
  size_t num_parameters() const override { return 0; }
  ParameterView parameter(size_t) override { return {}; }
  const std::string& run_dir() const override { return nowhere_; }
  size_t num_lr_groups() const override { return 0; }
  LrGroupView lr_group(size_t) override { return {}; }
  std::optional<double> lr_group_option(size_t, const std::string&) const override {
    return std::nullopt;
  }
  void roll_back(uint64_t, const std::string&) override {}

 private:
  std::string nowhere_;
};

ServiceTable services() {
  ServiceTable table = {{TENON_STATUS_ID, status_service()},
                        {TENON_TENSOR_ID, tensor_service()},
                        {TENON_OP_ID, op_service()}};
  add_plugin_services(table);
  return table;
}

ComponentInstance create(PluginRegistry& registry,
                         const char* kind,
                         const char* type,
                         const std::string& options_json = "{}") {
  return ComponentInstance::create(registry.get(kind, type), {.options_json = options_json});
}

HookList one_hook(PluginRegistry& registry,
                  const char* type,
                  const std::string& options_json,
                  RunView& run) {
  std::vector<HookProxy> hooks;
  hooks.emplace_back(create(registry, "hook", type, options_json));
  return HookList(std::move(hooks), /*rank=*/0, run, {});
}

void measure(const char* bench_plugins, const char* plugins, uint64_t calls) {
  PluginRegistry registry({.folders = {{bench_plugins, "argument"}, {plugins, "argument"}},
                           .services = services(),
                           .vetting = Vetting::kNone});
  NoRun run;
  const LrSchedulerProxy schedule(create(registry, "lr_scheduler", "constant"));
  HookList counter =
      one_hook(registry, "bench_stopwatch", R"({"warmup": 1, "steps": 1, "path": ""})", run);
  const uint64_t op_calls = std::max<uint64_t>(1, calls / 20);
  HookList op_caller =
      one_hook(registry, "bench_op_caller", R"({"calls": )" + std::to_string(op_calls) + "}", run);
  const at::Tensor a = at::ones({8});
  const at::Tensor b = at::ones({8});
  const at::NoGradGuard no_grad;

  constexpr int kRounds = 11;  // in turn; the first warms up
  std::vector<double> call;
  std::vector<double> dispatch;
  std::vector<double> op;
  double total = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double of_call = ns_a_call(calls, [&] {
      for (uint64_t i = 0; i < calls; ++i) {
        total += schedule.factor(i, calls);
      }
    });
    const double of_dispatch = ns_a_call(calls, [&] {
      for (uint64_t i = 0; i < calls; ++i) {
        counter.fire(TENON_EVENT_BEFORE_FORWARD);
      }
    });
    const double of_op = ns_a_call(op_calls, [&] { op_caller.fire(TENON_EVENT_BEFORE_FORWARD); });
    const double of_direct = ns_a_call(op_calls, [&] {
      for (uint64_t i = 0; i < op_calls; ++i) {
        at::Tensor sum = at::add(a, b);
        total += static_cast<double>(sum.use_count());
      }
    });
    if (round > 0) {
      call.push_back(of_call);
      dispatch.push_back(of_dispatch);
      op.push_back(of_op - of_direct);
    }
  }
  std::fprintf(stderr, "checksum %g\n", total);  // so that the compiler keeps all loops
  std::printf("{\"call_ns\": %.3f, \"dispatch_ns\": %.3f, \"call_op_ns\": %.3f}\n",
              median(call),
              median(dispatch),
              median(op));
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  const uint64_t calls = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 0;
  if (calls == 0) {
    std::fprintf(stderr, "usage: boundary BENCH_PLUGINS PLUGINS CALLS\n");
    return 2;
  }
  at::set_num_threads(1);
  try {
    tenon::measure(argv[1], argv[2], calls);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "boundary: %s\n", error.what());
    return 1;
  }
  tenon::shutdown_plugins();
  return 0;
}
