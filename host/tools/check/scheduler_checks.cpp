// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/lr_scheduler_proxy.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/subject.hpp"

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr uint64_t kScheduleSteps = 10000;

}  // namespace

CheckResult check_factors(Subject& subject) {
  return subject.for_each_instance(
      "lr_scheduler",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        const LrSchedulerProxy schedule(std::move(instance));
        findings.add_examined();
        subject.note("factor of " + checked.name());
        double largest = 0;
        // The proxy throws for a factor that is negative or non-finite.
        for (uint64_t step = 0; step < kScheduleSteps; ++step) {
          largest = std::max(largest, schedule.factor(step, kScheduleSteps));
        }
        if (largest == 0) {
          findings.add_problem(formatted(
              "the factor of {} is 0 at each of {} steps", checked.name(), kScheduleSteps));
        }
      });
}

CheckResult check_pure_factors(Subject& subject) {
  return subject.for_each_instance(
      "lr_scheduler",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        const LrSchedulerProxy schedule(std::move(instance));
        const LrSchedulerProxy other(subject.create(checked));
        findings.add_examined();
        subject.note("factor of " + checked.name());
        std::vector<double> factors;
        for (uint64_t step = 0; step < kScheduleSteps; ++step) {
          factors.push_back(schedule.factor(step, kScheduleSteps));
        }
        // A run that resumes asks a new instance, from a later step on.
        for (uint64_t step = kScheduleSteps; step-- > 0;) {
          const double again = other.factor(step, kScheduleSteps);
          if (std::bit_cast<uint64_t>(again) != std::bit_cast<uint64_t>(factors[step])) {
            findings.add_problem(
                formatted("factor of {} at step {} is {}, and {} if the steps are "
                          "asked in another order",
                          checked.name(),
                          step,
                          factors[step],
                          again));
            return;
          }
        }
      });
}

}  // namespace tenon
