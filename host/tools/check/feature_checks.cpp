// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/feature_proxy.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/at_once.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/sample_columns.hpp"
#include "host/tools/check/sample_inputs.hpp"
#include "host/tools/check/subject.hpp"

#include <ATen/core/grad_mode.h>

#include <array>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr std::size_t kMaxInputs = 3;
constexpr int64_t kNumSamples = 7;
constexpr std::size_t kFeatureThreads = 4;
constexpr int kCallsOfThread = 8;

std::vector<int64_t> first_samples(int64_t count) {
  std::vector<int64_t> samples(static_cast<std::size_t>(count));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

// A feature, and inputs of types that it accepts.
class FeatureTrial {
 public:
  FeatureTrial(Subject& subject,
               const CheckedComponent& checked,
               ComponentInstance instance,
               std::vector<ColumnType> inputs)
      : subject_(subject),
        checked_(checked),
        feature_(std::move(instance)),
        frame_(feature_.instance().host(), check_exec_base(subject.request())),
        inputs_(std::move(inputs)) {
    subject.note("infer of " + checked.name());
    outputs_ = feature_.infer(inputs_);
  }

  const CheckedComponent& checked() const { return checked_; }
  const std::vector<ColumnType>& input_types() const { return inputs_; }
  const std::vector<ColumnType>& outputs() const { return outputs_; }
  const FeatureProxy& feature() const { return feature_; }
  const tenon_exec& exec() const { return frame_.exec(); }

  // `feature "hash" of i64, one per sample`.
  std::string name() const {
    std::string types;
    for (const ColumnType& type : inputs_) {
      types += (types.empty() ? "" : "; ") + describe(type);
    }
    return checked_.name() + " of " + types;
  }

  std::vector<Column> inputs_of(const std::vector<int64_t>& samples, EmptyLists empty) const {
    std::vector<Column> columns;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      columns.push_back(make_column(inputs_[i], samples, subject_.request().seed + i, empty));
    }
    return columns;
  }

  // The calls of instances of this type, in one call of the plugin, on equal inputs.
  std::vector<std::vector<Column>> run_together(const std::vector<const FeatureTrial*>& others,
                                                const std::vector<int64_t>& samples,
                                                EmptyLists empty) const {
    subject_.note("run of " + checked_.name());
    // Separate columns for each, since a bad feature may write into them.
    std::vector<std::vector<Column>> inputs(others.size());
    std::vector<FeatureCall> calls;
    for (std::size_t i = 0; i < others.size(); ++i) {
      inputs[i] = inputs_of(samples, empty);
      calls.push_back(call_of(*others[i], inputs[i]));
    }
    FeatureProxy::run(exec(), calls, static_cast<int64_t>(samples.size()));
    std::vector<std::vector<Column>> results;
    for (FeatureCall& call : calls) {
      results.push_back(std::move(call.outputs));
    }
    return results;
  }

  std::vector<Column> run(const std::vector<int64_t>& samples, EmptyLists empty) const {
    return run_together({this}, samples, empty).front();
  }

  // By several threads at once: says nothing to the parent.
  std::vector<Column> run_at_once(const std::vector<Column>& inputs, int64_t samples) const {
    FeatureCall call = call_of(*this, inputs);
    FeatureProxy::run(exec(), {&call, 1}, samples);
    return std::move(call.outputs);
  }

 private:
  static FeatureCall call_of(const FeatureTrial& trial, const std::vector<Column>& inputs) {
    FeatureCall call{.feature = &trial.feature_, .inputs = {}, .outputs = {}};
    for (const Column& column : inputs) {
      call.inputs.push_back(&column);
    }
    return call;
  }

  Subject& subject_;
  const CheckedComponent& checked_;
  FeatureProxy feature_;
  ExecFrame frame_;
  std::vector<ColumnType> inputs_;
  std::vector<ColumnType> outputs_;
};

// Returns a trial, or nothing if the feature refuses these inputs with TENON_INVALID.
std::unique_ptr<FeatureTrial> trial_with(Subject& subject,
                                         const CheckedComponent& checked,
                                         const std::vector<ColumnType>& types,
                                         RefusedInputs& refused) {
  try {
    auto trial = std::make_unique<FeatureTrial>(subject, checked, subject.create(checked), types);
    trial->run(first_samples(2), EmptyLists::kNo);
    return trial;
  } catch (const Error& error) {
    refused.add(error);
    return nullptr;
  }
}

using FeatureBody = std::function<void(const FeatureTrial& trial, Findings& findings)>;

// Calls `body` for each type of inputs that a feature accepts.
CheckResult for_each_feature(Subject& subject, const FeatureBody& body) {
  return subject.for_each_instance(
      "feature",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        { const ComponentInstance unused = std::move(instance); }  // infer is called once for each
        const at::AutoGradMode no_grad(false);
        RefusedInputs refused;
        bool is_examined = false;
        for (std::size_t count = 1; count <= kMaxInputs; ++count) {
          for (const ColumnType& type : column_types()) {
            const auto trial =
                trial_with(subject, checked, std::vector<ColumnType>(count, type), refused);
            if (trial != nullptr) {
              is_examined = true;
              body(*trial, findings);
            }
          }
        }
        if (is_examined) {
          findings.add_examined();
        } else {
          findings.add_skipped("no columns were found that " + checked.name() +
                               " accepts: " + refused.reason());
        }
      });
}

// A status is a right answer to samples without entries. Returns how the trial is to be called.
EmptyLists accepted_lists(const FeatureTrial& trial) {
  try {
    trial.run(first_samples(kNumSamples), EmptyLists::kSome);
    return EmptyLists::kSome;
  } catch (const PluginError& error) {
    if (error.code() != TENON_INVALID) {
      throw;
    }
    return EmptyLists::kNo;
  }
}

// Returns the number of the first output that differs, or nothing.
std::optional<std::size_t> differing_output(const std::vector<Column>& a,
                                            const std::vector<Column>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::vector<at::Tensor> x = a[i].tensors();
    const std::vector<at::Tensor> y = b[i].tensors();
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (x.size() != y.size() || !is_same_to_the_bit(x[k], y[k])) {
        return i;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

CheckResult check_feature_results(Subject& subject) {
  return for_each_feature(subject, [](const FeatureTrial& trial, Findings& findings) {
    const EmptyLists lists = accepted_lists(trial);
    if (lists == EmptyLists::kNo) {
      findings.add_remark(trial.name() + " refuses samples without entries");
    }
    for (const int64_t samples : {kNumSamples, int64_t{1}, int64_t{0}}) {
      try {
        trial.run(first_samples(samples), lists);
      } catch (const Error& error) {
        findings.add_problem(formatted("with {} samples: {}", samples, error.message()));
      }
    }
  });
}

CheckResult check_feature_repeatable(Subject& subject) {
  return for_each_feature(subject, [&](const FeatureTrial& trial, Findings& findings) {
    const EmptyLists lists = accepted_lists(trial);
    const std::vector<int64_t> samples = first_samples(kNumSamples);
    const std::vector<Column> inputs = trial.inputs_of(samples, lists);
    const std::vector<Column> first = trial.run_at_once(inputs, kNumSamples);
    if (differing_output(inputs, trial.inputs_of(samples, lists))) {
      findings.add_problem("run of " + trial.name() + " wrote into its inputs");
    }
    if (const auto at = differing_output(first, trial.run(samples, lists))) {
      findings.add_problem(
          formatted("output {} of {} differs if run is called again", *at, trial.name()));
    }
    const FeatureTrial other(
        subject, trial.checked(), subject.create(trial.checked()), trial.input_types());
    if (const auto at = differing_output(first, other.run(samples, lists))) {
      findings.add_problem(
          formatted("output {} of {} differs in another instance", *at, trial.name()));
    }
  });
}

CheckResult check_feature_rows(Subject& subject) {
  return for_each_feature(subject, [](const FeatureTrial& trial, Findings& findings) {
    const EmptyLists lists = accepted_lists(trial);
    const std::vector<Column> whole = trial.run(first_samples(kNumSamples), lists);
    const std::array<std::vector<int64_t>, 3> batches = {
        std::vector<int64_t>{3, 0}, std::vector<int64_t>{6, 5, 4, 2, 1}, std::vector<int64_t>{5}};
    for (const std::vector<int64_t>& batch : batches) {
      const std::vector<Column> part = trial.run(batch, lists);
      for (std::size_t k = 0; k < part.size(); ++k) {
        if (trial.outputs()[k].width < 0) {
          continue;  // as wide as the longest sample of the batch
        }
        for (std::size_t i = 0; i < batch.size(); ++i) {
          const auto sample = static_cast<std::size_t>(batch[i]);
          if (bytes_of_sample(part[k], i) != bytes_of_sample(whole[k], sample)) {
            findings.add_problem(
                formatted("output {} of {} differs for a sample that is in a batch of {} "
                          "in place of {}",
                          k,
                          trial.name(),
                          batch.size(),
                          kNumSamples));
            return;
          }
        }
      }
    }
  });
}

CheckResult check_feature_at_once(Subject& subject) {
  return for_each_feature(subject, [&](const FeatureTrial& trial, Findings& findings) {
    const EmptyLists lists = accepted_lists(trial);
    const std::vector<int64_t> samples = first_samples(kNumSamples);
    const std::vector<Column> expected = trial.run(samples, lists);
    const FeatureTrial other(
        subject, trial.checked(), subject.create(trial.checked()), trial.input_types());
    for (const std::vector<Column>& found : trial.run_together({&trial, &other}, samples, lists)) {
      if (const auto at = differing_output(expected, found)) {
        findings.add_problem(
            formatted("output {} of {} differs if one call runs two instances", *at, trial.name()));
      }
    }
    std::array<bool, kFeatureThreads> differs{};
    // Each call gets separate columns, since a bad feature may write into them.
    const auto samples_of_thread = [&](std::size_t i) {
      return std::vector<int64_t>(samples.begin() + static_cast<std::ptrdiff_t>(i), samples.end());
    };
    std::vector<std::vector<Column>> alone;
    for (std::size_t i = 0; i < kFeatureThreads; ++i) {
      alone.push_back(trial.run(samples_of_thread(i), lists));
    }
    subject.note("run of " + trial.name() + " by several threads at once");
    run_at_once(kFeatureThreads, [&](std::size_t i) {
      const std::vector<int64_t> of_thread = samples_of_thread(i);
      for (int call = 0; call < kCallsOfThread; ++call) {
        const std::vector<Column> inputs = trial.inputs_of(of_thread, lists);
        const std::vector<Column> found = trial.run_at_once(inputs, std::ssize(of_thread));
        differs[i] = differs[i] || differing_output(alone[i], found).has_value();
      }
    });
    for (const bool is_wrong : differs) {
      if (is_wrong) {
        findings.add_problem(trial.name() + " gives other results if several threads call run");
        return;
      }
    }
  });
}

}  // namespace tenon
