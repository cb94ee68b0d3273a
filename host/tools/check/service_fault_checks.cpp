// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/interface_table.hpp"
#include "host/plugin/stateful_proxy.hpp"
#include "host/plugin/vet_components.hpp"
#include "host/tensor/handle_pool.hpp"
#include "host/tensor/state/state_bridge.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/faulty_functions.hpp"
#include "host/tools/check/service_faults.hpp"
#include "host/tools/check/subject.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <malloc.h>
#include <optional>
#include <string>
#include <utility>

namespace tenon {
namespace {

// Calls of an instance that fail in turn. A component that reads a long list makes more.
constexpr uint64_t kMostFaults = 200;
// An instance that leaks does so each time; the first few times, caches grow. malloc() counts a
// freed block in the cache of a thread as in use, so growth is confirmed by more lives: the cache
// takes at most 7 blocks of each of 64 sizes.
constexpr int kNumWarm = 2;
constexpr int kNumMeasured = 3;
constexpr int kNumConfirmed = 64;
constexpr const char* kNothing = "no component can be created alone; pass a recipe that uses it";
constexpr int kTrialLimits = 5;     // of the time for loading; less than the check has
constexpr int64_t kLeastLeak = 16;  // bytes; the smallest block of the allocator

// Bytes of malloc() in use; 0 under a sanitizer.
int64_t allocated_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

template <class Spec>
tenon_status* accept_spec(tenon_model_builder* builder, const Spec* /*spec*/, uint32_t* out_index) {
  *out_index = (*static_cast<uint32_t*>(builder->impl))++;
  return nullptr;
}

void describe_with_faults(const ComponentInstance& model) {
  uint32_t count = 0;
  tenon_model_builder builder =
      faulty_object(tenon_model_builder{.struct_size = sizeof(tenon_model_builder),
                                        .impl = &count,
                                        .add_value = accept_spec<tenon_value_spec>,
                                        .add_parameter = accept_spec<tenon_parameter_spec>,
                                        .add_buffer = accept_spec<tenon_buffer_spec>,
                                        .add_block = accept_spec<tenon_block_spec>});
  const auto* const table = table_of<tenon_model>(model, TENON_MODEL_ID);
  model.call("describe", [&] { return table->describe(model.self(), &builder); });
}

// How the life of an instance ended: its error, or none.
struct LifeEnd {
  std::string call = {};
  std::optional<Error> error = std::nullopt;
};

// Creates an instance, saves it, describes it and destroys it, until a call fails.
LifeEnd live_once(Subject& subject, const CheckedComponent& checked, const std::string& fault) {
  LifeEnd end;
  const auto begin = [&](const char* call) {
    end.call = call;
    subject.note(formatted("{} of {}{}", call, checked.name(), fault));
  };
  try {
    begin("create");
    ComponentInstance instance = ComponentInstance::create(
        *checked.component,
        {.options_json = checked.options, .place = "/check", .mesh = &lone_mesh()});
    if (checked.component->kind == "model") {
      begin("describe");
      describe_with_faults(instance);
    }
    if (const std::optional<StatefulProxy> state = StatefulProxy::of(instance)) {
      begin("snapshot");
      StateTree tree;
      StateWriter writer(tree, "state", state->version(), state->host());
      tenon_state_writer faulty = faulty_object(*writer.abi());
      state->snapshot(faulty);
    }
    begin(checked.component->kind == "model" ? "destroy" : "describe or destroy");
    if (checked.component->kind != "model") {
      describe_instance(std::move(instance));
    }
  } catch (const Error& error) {
    end.error = error;
  }
  return end;
}

// Returns what an instance did wrong after the failure of one call of a service; "" if nothing.
std::string problem_of_end(const LifeEnd& end, const std::string& name) {
  const std::string when = formatted("after {} of the host had failed", failed_function());
  if (!end.error) {
    return formatted("{} of {} succeeds {}", end.call, name, when);
  }
  const std::string& message = end.error->message();
  if (message.find("failed without a message") != std::string::npos) {
    return formatted("{} of {} returns a status without a message {}", end.call, name, when);
  }
  const bool is_passed_on = message.find(kPlannedText) != std::string::npos;
  return is_passed_on || is_fault_released()
             ? ""
             : formatted(
                   "{} of {} does not release the status of the host {}", end.call, name, when);
}

// Fails call `at_call` of the instance, and returns what it did wrong; "" if nothing.
std::string problem_of_fault(Subject& subject, const CheckedComponent& checked, uint64_t at_call) {
  int64_t least_growth = std::numeric_limits<int64_t>::max();
  const auto is_leak = [&] { return least_growth >= kLeastLeak; };
  for (int i = 0; i < kNumWarm + kNumMeasured || (i < kNumConfirmed && is_leak()); ++i) {
    const int64_t handles = HandlePool::get().num_live();
    const int64_t blocks = num_live_blocks();
    const int64_t bytes = allocated_bytes();
    {
      plan_fault(at_call);
      const LifeEnd end = live_once(
          subject, checked, formatted(", in which service call {} of the host fails", at_call));
      if (std::string problem = problem_of_end(end, checked.name()); !problem.empty()) {
        return problem;
      }
    }
    if (const int64_t more = HandlePool::get().num_live() - handles; more > 0) {
      return formatted("{} leaves {} tensor handles after {} of the host had failed",
                       checked.name(),
                       more,
                       failed_function());
    }
    if (const int64_t more = num_live_blocks() - blocks; more > 0) {
      return formatted("{} leaves {} blocks of the memory service after {} of the host had failed",
                       checked.name(),
                       more,
                       failed_function());
    }
    if (i >= kNumWarm) {
      least_growth = std::min(least_growth, allocated_bytes() - bytes);
    }
  }
  return is_leak() ? formatted("{} leaves {} bytes of memory after {} of the host had failed",
                               checked.name(),
                               least_growth,
                               failed_function())
                   : "";
}

std::string problem_of_component(Subject& subject, const CheckedComponent& checked) {
  plan_fault(0);
  const LifeEnd good = live_once(subject, checked, "");
  if (good.error) {
    return "";  // options.defaults reports it
  }
  const uint64_t count = std::min(num_counted_calls(), kMostFaults);
  for (uint64_t at_call = 1; at_call <= count; ++at_call) {
    if (std::string problem = problem_of_fault(subject, checked, at_call); !problem.empty()) {
      return problem;
    }
  }
  return "";
}

}  // namespace

CheckResult check_failing_services(Subject& subject) {
  CheckRequest request = subject.request();
  request.services = faulty_services(request.services);
  Subject faulty(request, subject.info(), nullptr);
  const std::optional<CheckResult> result = faulty.try_apart(
      [](Subject& apart) -> std::string {
        std::string none = kNothing;
        for (const CheckedComponent& checked : apart.components()) {
          const bool has_nested = checked.use != nullptr && !checked.use->nested.empty();
          if (!checked.problem.empty() || has_nested) {
            continue;
          }
          if (std::string problem = problem_of_component(apart, checked); !problem.empty()) {
            return problem;
          }
          none.clear();
        }
        return none;
      },
      request.load_limit* kTrialLimits);
  if (result && result->found.front() == kNothing) {
    return skipped(kNothing);
  }
  return result.value_or(passed());
}

}  // namespace tenon
