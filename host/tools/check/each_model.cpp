// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/each_model.hpp"

#include "host/error/error.hpp"
#include "host/tools/check/sample_inputs.hpp"
#include "host/tools/check/tensor_views.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr double kTolerance64 = 1e-10;
constexpr double kTolerance32 = 1e-4;

// Finds a batch in fp64. Returns why there is none, if there is none.
std::optional<std::string> why_no_batch_in_fp64(ModelTrial& trial) {
  try {
    return trial.find_batch() ? std::nullopt : std::optional(trial.reason());
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace

CheckResult for_each_model(Subject& subject, Precision precision, const ModelBody& body) {
  return subject.for_each_instance(
      "model",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        if (const auto reason = why_not_checked(subject, checked, std::move(instance))) {
          findings.add_skipped(*reason);
          return;
        }
        auto trial = std::make_unique<ModelTrial>(subject, checked, at::kDouble);
        if (const auto refusal = why_no_batch_in_fp64(*trial)) {
          const bool is_unsupported = trial->is_unsupported();
          trial = std::make_unique<ModelTrial>(subject, checked, at::kFloat);
          if (!trial->find_batch()) {
            findings.add_skipped(trial->reason());
            return;
          }
          if (precision == Precision::kDouble) {
            if (is_unsupported) {
              findings.add_skipped(*refusal);
            } else {
              findings.add_problem(checked.name() + " runs in fp32, but not in fp64: " + *refusal);
            }
            return;
          }
        }
        findings.add_examined();
        body(*trial, findings);
      });
}

std::string of_block(const ModelTrial& trial, uint32_t b) {
  return "block \"" + trial.graph().blocks[b].name + "\" of " + trial.name();
}

const std::string& output_name(const ModelTrial& trial, uint32_t b, std::size_t i) {
  return trial.graph().values[trial.graph().blocks[b].outputs[i]].name;
}

double result_tolerance(at::ScalarType dtype) {
  return dtype == at::kDouble ? kTolerance64 : kTolerance32;
}

bool depends_on_step(ModelTrial& trial, uint32_t b) {
  const auto outputs_at = [&](uint64_t step) {
    return copies_of(
        trial
            .forward(b,
                     trial.inputs_of(b),
                     {.samples = trial.num_samples(), .step = step, .is_recompute = true})
            .outputs);
  };
  const uint64_t step = BlockCall().step;
  const std::vector<at::Tensor> one = outputs_at(step);
  const std::vector<at::Tensor> next = outputs_at(step + 1);
  return !std::ranges::equal(one, next, is_same_to_the_bit);
}

}  // namespace tenon
