// SPDX-License-Identifier: Apache-2.0
//
// Letters in comments: L a weighted sum of a block's outputs, T positions.
#include <tenon/model.h>

#include "host/error/status.hpp"
#include "host/model/positions_axis.hpp"
#include "host/model/sequence_runner.hpp"
#include "host/plugin/component_identity.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/block_gradients.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/each_model.hpp"
#include "host/tools/check/model_trial.hpp"
#include "host/tools/check/sample_inputs.hpp"
#include "host/tools/check/subject.hpp"
#include "host/tools/check/tensor_views.hpp"
#include "host/tools/check/trial_text.hpp"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Relative to the largest element: of fp32 beside fp64.
constexpr double kPrecisionTolerance = 2e-3;

// Everything that a description states, so that two can be compared.
std::string text_of_graph(const ModelGraph& graph) {
  std::string text;
  for (const ModelValue& value : graph.values) {
    text +=
        formatted("value {} {} {} {}\n", value.name, value.dtype, value.source_kind, value.source);
  }
  for (const ModelParameter& parameter : graph.parameters) {
    text += formatted("parameter {} {} {} {} {} {}\n",
                      parameter.name,
                      shape_text(parameter.shape),
                      parameter.dtype,
                      parameter.flags,
                      parameter.init,
                      parameter.same_as);
  }
  for (const ModelBlock& block : graph.blocks) {
    text += formatted("block {} of unit {} {} of {} inputs, {} parameters, {} outputs\n",
                      block.name,
                      block.unit_name(),
                      block.flags,
                      block.inputs.size(),
                      block.parameters.size(),
                      block.outputs.size());
  }
  return text;
}

// Returns the name of the first output or auxiliary loss that differs, or "".
std::string difference_of(const ModelTrial& trial,
                          uint32_t b,
                          const BlockTape& found,
                          const BlockTape& expected,
                          double tolerance) {
  const auto is_equal = [&](const at::Tensor& x, const at::Tensor& y) {
    return tolerance == 0 ? is_same_to_the_bit(x, y) : is_close(x, y, tolerance);
  };
  for (std::size_t i = 0; i < found.outputs.size(); ++i) {
    if (!is_equal(found.outputs[i], expected.outputs[i])) {
      return "output \"" + output_name(trial, b, i) + "\"";
    }
  }
  if (found.aux.size() != expected.aux.size()) {
    return "the number of auxiliary losses";
  }
  for (std::size_t i = 0; i < found.aux.size(); ++i) {
    if (!is_equal(found.aux[i].sum, expected.aux[i].sum)) {
      return "the auxiliary loss \"" + found.aux[i].name + "\"";
    }
  }
  return "";
}

// Compares gradients by name. Returns the first that differs, or "".
std::string gradient_difference(const ModelTrial& trial,
                                uint32_t b,
                                const BlockGradients& found,
                                const BlockGradients& expected,
                                double tolerance) {
  const ModelBlock& block = trial.graph().blocks[b];
  for (std::size_t i = 0; i < found.inputs.size(); ++i) {
    if (!is_close(found.inputs[i], expected.inputs[i], tolerance)) {
      return "the gradient by \"" + trial.graph().values[block.inputs[i]].name + "\"";
    }
  }
  for (std::size_t i = 0; i < found.parameters.size(); ++i) {
    if (!is_close(found.parameters[i], expected.parameters[i], tolerance)) {
      return "the gradient by \"" + trial.graph().parameters[block.parameters[i]].name + "\"";
    }
  }
  return "";
}

// What a block gives for its inputs: outputs, and gradients for random gradients of the outputs.
struct BlockResult {
  BlockTape tape;
  BlockGradients gradients;
};

BlockResult result_of(Subject& subject,
                      ModelTrial& trial,
                      uint32_t b,
                      const std::vector<at::Tensor>& inputs) {
  const BlockCall call{.samples = trial.num_samples(), .is_recompute = true};
  BlockResult result{.tape = trial.forward(b, inputs, call), .gradients = {}};
  const std::vector<at::Tensor> outputs = copies_of(result.tape.outputs);
  if (trial.has_gradients(b)) {
    const std::vector<at::Tensor> weights = random_weights(subject, trial, b, result.tape);
    result.gradients = trial.backward(b, result.tape, weights);
  }
  result.tape.outputs = outputs;
  return result;
}

// Compares a block with moved parameters or other views of its inputs. A status is a right answer
// to views of inputs.
void compare_views(Subject& subject, ModelTrial& trial, uint32_t b, Findings& findings) {
  // An operator draws random numbers in the order of memory, which is that of the strides.
  if (depends_on_step(trial, b)) {
    findings.add_remark(of_block(trial, b) +
                        " gives other results in the next step, so it gets no views");
    return;
  }
  const std::vector<at::Tensor> inputs = trial.inputs_of(b);
  const BlockResult expected = result_of(subject, trial, b, inputs);
  for (const ViewKind kind : kViewKinds) {
    std::optional<BlockResult> found;
    try {
      found.emplace(result_of(subject, trial, b, views_of(inputs, kind)));
    } catch (const PluginError&) {
      continue;
    }
    std::string what = difference_of(trial, b, found->tape, expected.tape, result_tolerance(trial));
    if (what.empty()) {
      what = gradient_difference(
          trial, b, found->gradients, expected.gradients, result_tolerance(trial));
    }
    if (!what.empty()) {
      findings.add_problem(formatted(
          "{}: {} differs if the inputs are views {}", of_block(trial, b), what, view_name(kind)));
    }
  }
}

}  // namespace

CheckResult check_model_graph(Subject& subject) {
  return subject.for_each_instance(
      "model",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        if (const auto reason = why_not_checked(subject, checked, std::move(instance))) {
          findings.add_skipped(*reason);
          return;
        }
        const ModelTrial first(subject, checked, at::kFloat);
        findings.add_examined();
        const ModelTrial second(subject, checked, at::kFloat);
        if (text_of_graph(first.graph()) != text_of_graph(second.graph())) {
          findings.add_problem("two instances of " + checked.name() +
                               " with equal options describe different graphs");
        }
        findings.add_remark(formatted("{}: {} blocks, {} elements in {} parameters",
                                      checked.name(),
                                      first.graph().blocks.size(),
                                      first.graph().num_elements(),
                                      first.graph().parameters.size()));
      });
}

CheckResult check_model_results(Subject& subject) {
  return for_each_model(subject, Precision::kBest, [&](ModelTrial& trial, Findings& findings) {
    for (const uint32_t b : trial.some_blocks()) {
      try {
        result_of(subject, trial, b, trial.inputs_of(b));
      } catch (const Error& error) {
        findings.add_problem(error.message() + " [" + error.id() + "]");
      }
    }
  });
}

CheckResult check_model_recompute(Subject& subject) {
  return for_each_model(subject, Precision::kBest, [](ModelTrial& trial, Findings& findings) {
    constexpr uint64_t kStep = 7;
    std::vector<BlockTape> first;
    const std::vector<uint32_t> blocks = trial.some_blocks();
    const int64_t samples = trial.num_samples();
    const auto run = [&](uint32_t b, uint64_t step, bool is_recompute) {
      BlockTape tape = trial.forward(
          b, trial.inputs_of(b), {.samples = samples, .step = step, .is_recompute = is_recompute});
      tape.outputs = copies_of(tape.outputs);
      return tape;
    };
    for (const uint32_t b : blocks) {
      first.push_back(run(b, kStep, false));
    }
    // In reverse, as backward does, and with the other calls of a step in between.
    for (std::size_t i = blocks.size(); i-- > 0;) {
      const uint32_t b = blocks[i];
      if (trial.graph().blocks[b].has(TENON_BLOCK_NO_RECOMPUTE)) {
        continue;
      }
      static_cast<void>(run(b, kStep + 1, true));
      const BlockTape again = run(b, kStep, true);
      if (const std::string what = difference_of(trial, b, again, first[i], 0); !what.empty()) {
        findings.add_problem(of_block(trial, b) + ": " + what +
                             " has other bits if the block is run again");
      }
    }
  });
}

CheckResult check_model_gradients(Subject& subject) {
  return for_each_model(subject, Precision::kBest, [&](ModelTrial& trial, Findings& findings) {
    int num_compared = 0;
    for (const uint32_t b : trial.some_blocks()) {
      if (trial.has_gradients(b)) {
        ++num_compared;
        const GradientFindings found = compare_gradients(subject, trial, b);
        for (const std::string& problem : found.problems) {
          findings.add_problem(of_block(trial, b) + ": " + problem);
        }
        for (const std::string& difference : found.unrecorded) {
          findings.add_remark(of_block(trial, b) + ": " + difference);
        }
      }
    }
    if (num_compared == 0) {
      findings.add_remark(trial.name() + " has no parameter to train");
    }
    if (trial.dtype() != at::kDouble) {
      findings.add_remark(trial.name() + " refuses fp64, so its gradients were compared in fp32");
    }
  });
}

CheckResult check_model_fp64(Subject& subject) {
  return for_each_model(subject, Precision::kDouble, [&](ModelTrial& wide, Findings& findings) {
    const CheckedComponent& checked = wide.checked();
    ModelTrial narrow(subject, checked, at::kFloat);
    narrow.take_over(wide);
    const int64_t samples = wide.num_samples();
    for (const uint32_t b : wide.some_blocks()) {
      const BlockCall call{.samples = samples, .is_train = false};
      const BlockTape expected = wide.forward(b, wide.inputs_of(b), call);
      const BlockTape found = narrow.forward(b, narrow.inputs_of(b), call);
      for (std::size_t i = 0; i < found.outputs.size(); ++i) {
        const at::Tensor& output = found.outputs[i];
        if (output.is_floating_point() &&
            !is_close(
                output.to(at::kDouble), expected.outputs[i].to(at::kDouble), kPrecisionTolerance)) {
          findings.add_problem(of_block(wide, b) + ": output \"" + output_name(wide, b, i) +
                               "\" in fp64 is not that in fp32");
        }
      }
    }
  });
}

CheckResult check_model_views(Subject& subject) {
  return for_each_model(subject, Precision::kBest, [&](ModelTrial& trial, Findings& findings) {
    const std::vector<uint32_t> blocks = trial.some_blocks();
    std::vector<BlockResult> before;
    for (const uint32_t b : blocks) {
      compare_views(subject, trial, b, findings);
      before.push_back(result_of(subject, trial, b, trial.inputs_of(b)));
    }
    trial.move_parameters();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const uint32_t b = blocks[i];
      const BlockResult after = result_of(subject, trial, b, trial.inputs_of(b));
      std::string what =
          difference_of(trial, b, after.tape, before[i].tape, result_tolerance(trial));
      if (what.empty()) {
        what = gradient_difference(
            trial, b, after.gradients, before[i].gradients, result_tolerance(trial));
      }
      if (!what.empty()) {
        findings.add_problem(of_block(trial, b) + ": " + what +
                             " differs after the parameters were moved in memory");
      }
    }
  });
}

CheckResult check_model_reads_only(Subject& subject) {
  return for_each_model(subject, Precision::kBest, [&](ModelTrial& trial, Findings& findings) {
    const ModelGraph& graph = trial.graph();
    for (const uint32_t b : trial.some_blocks()) {
      const ModelBlock& block = graph.blocks[b];
      const std::vector<at::Tensor> inputs = trial.inputs_of(b);
      const std::vector<at::Tensor> inputs_before = copies_of(inputs);
      std::vector<at::Tensor> parameters;
      for (const uint32_t p : block.parameters) {
        parameters.push_back(trial.store().leaf(p).detach());
      }
      const std::vector<at::Tensor> parameters_before = copies_of(parameters);
      std::vector<at::Tensor> buffers;
      for (const uint32_t i : block.buffers) {
        buffers.push_back(trial.store().buffer(i));
      }
      const std::vector<at::Tensor> buffers_before = copies_of(buffers);
      // In an evaluation and a recompute, the host ignores the next values of buffers.
      trial.forward(b, inputs, {.samples = trial.num_samples(), .is_train = false});
      result_of(subject, trial, b, inputs);
      const auto compare = [&](const std::vector<at::Tensor>& now,
                               const std::vector<at::Tensor>& before,
                               const auto& name_of) {
        for (std::size_t i = 0; i < now.size(); ++i) {
          if (!is_same_to_the_bit(now[i], before[i])) {
            findings.add_problem(of_block(trial, b) + " wrote into " + name_of(i));
          }
        }
      };
      compare(inputs, inputs_before, [&](std::size_t i) {
        return "its input \"" + graph.values[block.inputs[i]].name + "\"";
      });
      compare(parameters, parameters_before, [&](std::size_t i) {
        return "parameter \"" + graph.parameters[block.parameters[i]].name + "\"";
      });
      compare(buffers, buffers_before, [&](std::size_t i) {
        return "buffer \"" + graph.buffers[block.buffers[i]].name + "\"";
      });
    }
  });
}

CheckResult check_model_sizes(Subject& subject) {
  return for_each_model(subject, Precision::kBest, [](ModelTrial& trial, Findings& findings) {
    if (!trial.is_per_sample()) {
      findings.add_remark(trial.name() + " reads a field that has no samples on its first axis");
      return;
    }
    for (const int64_t samples : {int64_t{2}, int64_t{1}, int64_t{0}}) {
      if (samples >= trial.num_samples()) {
        continue;
      }
      try {
        static_cast<void>(trial.run_all(samples));
      } catch (const PluginError& error) {
        if (samples == 0) {
          findings.add_remark(trial.name() +
                              " refuses a batch without samples: " + error.message());
          continue;
        }
        findings.add_problem(
            formatted("{} accepts a batch of {} samples, and refuses its first "
                      "{}: {}",
                      trial.name(),
                      trial.num_samples(),
                      samples,
                      error.message()));
      } catch (const Error& error) {
        findings.add_problem(formatted("with a batch of {} samples, {}", samples, error.message()));
      }
    }
  });
}

namespace {

// Runs a block on two ranges of T, and compares with the whole.
void compare_ranges(ModelTrial& trial, uint32_t b, Findings& findings) {
  const ModelGraph& graph = trial.graph();
  const ModelBlock& block = graph.blocks[b];
  const std::vector<at::Tensor> inputs = trial.inputs_of(b);
  const BlockCall call{.samples = trial.num_samples(), .is_train = false};
  const auto given = std::ranges::find_if(inputs, &at::Tensor::defined);
  if (given == inputs.end()) {
    return;
  }
  const uint32_t value = block.inputs[static_cast<std::size_t>(given - inputs.begin())];
  const int64_t length = given->size(*axis_of_positions(graph.values[value]));
  if (length < 2) {
    return;
  }
  const auto part = [&](int64_t begin, int64_t count) {
    std::vector<at::Tensor> of_part;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto axis = axis_of_positions(graph.values[block.inputs[i]]);
      of_part.push_back(inputs[i].defined() ? inputs[i].narrow(*axis, begin, count) : inputs[i]);
    }
    return copies_of(trial.forward(b, of_part, call).outputs);
  };
  const std::vector<at::Tensor> first = part(0, 1);
  const std::vector<at::Tensor> rest = part(1, length - 1);
  const BlockTape whole = trial.forward(b, inputs, call);
  for (std::size_t i = 0; i < whole.outputs.size(); ++i) {
    const int64_t axis = *axis_of_positions(graph.values[block.outputs[i]]);
    if (!is_close(at::cat({first[i], rest[i]}, axis), whole.outputs[i], result_tolerance(trial))) {
      findings.add_problem(of_block(trial, b) + " is flagged tokenwise, but output \"" +
                           output_name(trial, b, i) +
                           "\" differs if the block gets the positions in two parts");
    }
  }
}

}  // namespace

CheckResult check_model_tokenwise(Subject& subject) {
  return for_each_model(subject, Precision::kBest, [](ModelTrial& trial, Findings& findings) {
    const ModelGraph& graph = trial.graph();
    const auto has_positions = [&](uint32_t v) {
      return axis_of_positions(graph.values[v]).has_value();
    };
    int num_compared = 0;
    for (const uint32_t b : trial.some_blocks()) {
      const ModelBlock& block = graph.blocks[b];
      if (block.has(TENON_BLOCK_TOKENWISE) && !block.inputs.empty() &&
          std::ranges::all_of(block.inputs, has_positions) &&
          std::ranges::all_of(block.outputs, has_positions)) {
        compare_ranges(trial, b, findings);
        ++num_compared;
      }
    }
    if (num_compared == 0) {
      findings.add_remark(trial.name() + " has no block that is flagged tokenwise");
    }
  });
}

namespace {

std::optional<uint32_t> value_named(const ModelGraph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.values, name, &ModelValue::name);
  return found != graph.values.end()
             ? std::optional(static_cast<uint32_t>(found - graph.values.begin()))
             : std::nullopt;
}

// Runs the first sample in steps, and compares their logits with those of the whole sequence.
void compare_steps(ModelTrial& trial,
                   const GenerationProxy& generation,
                   const GenerationInfo& info,
                   Findings& findings) {
  const auto ids_value = value_named(trial.graph(), info.ids);
  const auto logits_value = value_named(trial.graph(), info.logits);
  if (!ids_value.has_value() || !logits_value.has_value()) {
    findings.add_problem(
        formatted("{} describes generation with the values \"{}\" and \"{}\", which "
                  "it does not both have",
                  trial.name(),
                  info.ids,
                  info.logits));
    return;
  }
  const at::Tensor ids = trial.value(*ids_value).select(0, 0).to(at::kLong).contiguous();
  const at::Tensor whole = trial.value(*logits_value).select(0, 0);
  const int64_t length = std::min(ids.numel(), info.max_positions);
  const auto* const data = ids.const_data_ptr<int64_t>();
  TrialText text(trial);
  SequenceInputs inputs;
  if (!text.fields().empty()) {
    inputs = {&text, &text};
  }
  for (const int64_t prompt : {int64_t{1}, length}) {
    const auto sequence =
        cached_sequence(trial.proxy(), trial.store(), trial.base(), generation, length, inputs);
    for (int64_t done = 0; done < length;) {
      const int64_t n = done == 0 ? prompt : 1;
      const at::Tensor logits = sequence->append({data + done, data + done + n});
      done += n;
      if (!is_close(logits, whole[done - 1].to(logits.scalar_type()), result_tolerance(trial))) {
        findings.add_problem(
            formatted("{}: the logits of position {} differ from those of the forward if the model "
                      "gets {} in its first step",
                      trial.name(),
                      done - 1,
                      prompt == 1 ? "one token" : "all tokens"));
        return;
      }
    }
  }
}

}  // namespace

CheckResult check_model_generation(Subject& subject) {
  return for_each_model(subject, Precision::kBest, [&](ModelTrial& trial, Findings& findings) {
    subject.note("generation of " + trial.name());
    const auto generation = GenerationProxy::of(trial.proxy().instance());
    if (!generation.has_value()) {
      findings.add_remark(trial.name() + " does not implement tenon.generation/1");
      return;
    }
    try {
      compare_steps(trial, *generation, generation->describe(), findings);
    } catch (const PluginError& error) {
      if (error.code() == TENON_UNSUPPORTED) {
        findings.add_remark(trial.name() + " refuses generation: " + error.message());
      } else {
        findings.add_problem(error.message() + " [" + error.id() + "]");
      }
    } catch (const Error& error) {
      findings.add_problem(error.message() + " [" + error.id() + "]");
    }
  });
}

}  // namespace tenon
