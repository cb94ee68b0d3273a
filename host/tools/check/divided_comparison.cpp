// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/divided_comparison.hpp"

#include <tenon/draft/tensor.h>

#include "host/error/error.hpp"
#include "host/model/divided_graph.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/tools/check/each_model.hpp"
#include "host/tools/check/tensor_views.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tenon {
namespace {

using Kind = ResultKey::Kind;

bool is_same_value(const ComparedTensors& tensors) {
  return is_close(
      tensors.found, tensors.expected, result_tolerance(tensors.expected.scalar_type()));
}

// "0.5 at [0, 2], expected 0.25"
std::string difference_text(const at::Tensor& found, const at::Tensor& expected) {
  if (!found.defined() || !expected.defined()) {
    return found.defined() ? "one, expected none" : "none, expected one";
  }
  if (found.sizes() != expected.sizes()) {
    return "the shape " + shape_text(found.sizes()) + ", expected " + shape_text(expected.sizes());
  }
  const at::Tensor a = found.to(at::kDouble).flatten();
  const at::Tensor b = expected.to(at::kDouble).flatten();
  // A NaN counts as the largest difference.
  int64_t rest = at::argmax((a - b).abs().nan_to_num(1e300, 1e300, 1e300)).item<int64_t>();
  const auto value = [rest](const at::Tensor& of) { return of.select(0, rest).item<double>(); };
  std::string text = formatted("{}", value(a));
  const std::string wanted = formatted("{}", value(b));
  std::vector<std::string> indices;
  for (int64_t d = found.dim(); d-- > 0;) {
    indices.insert(indices.begin(), formatted("{}", rest % found.size(d)));
    rest /= found.size(d);
  }
  if (!indices.empty()) {
    text += " at [" + joined(indices) + "]";
  }
  return text + ", expected " + wanted;
}

}  // namespace

DividedComparison::DividedComparison(ModelTrial& whole,
                                     DividedTrial& ranks,
                                     WholeCall call,
                                     std::vector<int64_t> pieces)
    : whole_(whole), ranks_(ranks), call_(std::move(call)), pieces_(std::move(pieces)) {
  run();
}

void DividedComparison::run() {
  one_ = run_block(whole_,
                   call_.block,
                   call_.inputs,
                   call_.weights,
                   {.samples = whole_.num_samples(), .is_train = call_.is_train},
                   call_.backward);
  divided_ = ranks_.run(call_, pieces_);
}

std::string DividedComparison::division() const {
  std::string text = formatted("{} ranks", ranks_.num_ranks());
  for (std::size_t r = 0; r < pieces_.size(); ++r) {
    text += (r == 0                    ? " with "
             : r + 1 == pieces_.size() ? " and "
                                       : ", ") +
            formatted("{}", pieces_[r]);
  }
  return text + (pieces_.empty() ? "" : " positions") + " divide it";
}

// ---- what must be equal ----

std::size_t DividedComparison::num_results(Kind kind) const {
  switch (kind) {
    case Kind::kOutput:
      return one_.outputs.size();
    case Kind::kAux: {
      std::size_t most = one_.aux.size();
      for (const RankResult& result : divided_.results) {
        most = std::max(most, result.aux.size());
      }
      return most;
    }
    case Kind::kInput:
      return one_.gradients.inputs.size();
    case Kind::kParameter:
      return one_.gradients.parameters.size();
    case Kind::kBuffer:
      return one_.buffers.size();
  }
  return 0;
}

DividedComparison::Comparisons DividedComparison::compared(const ResultKey& key) const {
  const ModelBlock& block = graph().blocks[call_.block];
  switch (key.kind) {
    case Kind::kAux:
      return of_aux(key.index);
    case Kind::kBuffer:
      return of_buffer(key.index);
    case Kind::kParameter:
      if (adds_up(key.index)) {
        return {{.found = sum_of_parameters(key.index),
                 .expected = one_.gradients.parameters[key.index],
                 .where = "the sum over ranks is"}};
      }
      return each_rank(key);
    case Kind::kInput:
      if (ranks_.graph().values[block.inputs[key.index]].is_divided) {
        return {{.found = sum_of_inputs(key.index),
                 .expected = one_.gradients.inputs[key.index],
                 .where = "the sum over ranks is"}};
      }
      return each_rank(key);
    case Kind::kOutput:
      return each_rank(key);
  }
  return {};
}

DividedComparison::Comparisons DividedComparison::each_rank(const ResultKey& key) const {
  const ModelBlock& block = graph().blocks[call_.block];
  Comparisons all;
  for (uint32_t r = 0; r < divided_.results.size(); ++r) {
    const RankResult& result = divided_.results[r];
    const std::string where = formatted("rank {} has", r);
    if (key.kind == Kind::kOutput) {
      const at::Tensor& whole = one_.outputs[key.index];
      all.push_back({.found = result.outputs[key.index],
                     .expected = ranks_.held(whole, block.outputs[key.index], r, pieces_),
                     .where = where});
    } else if (key.kind == Kind::kInput) {
      const at::Tensor& whole = one_.gradients.inputs[key.index];
      all.push_back({.found = result.gradients.inputs[key.index],
                     .expected = ranks_.held(whole, block.inputs[key.index], r, pieces_),
                     .where = where});
    } else {
      all.push_back({.found = result.gradients.parameters[key.index],
                     .expected = one_.gradients.parameters[key.index],
                     .where = where});
    }
  }
  return all;
}

// With pieces, ranks have sums of different tokens. Each rank has the count of all.
DividedComparison::Comparisons DividedComparison::of_aux(std::size_t i) const {
  const auto in = [i](const RankResult& result) {
    return i < result.aux.size() ? result.aux[i] : AuxLoss();
  };
  const AuxLoss whole = in(one_);
  Comparisons all;
  at::Tensor sum;
  for (uint32_t r = 0; r < divided_.results.size(); ++r) {
    const AuxLoss aux = in(divided_.results[r]);
    const std::string where = formatted("rank {} has", r);
    if (!has_pieces() || !aux.sum.defined()) {
      all.push_back({.found = aux.sum, .expected = whole.sum, .where = where + " the sum"});
    } else {
      sum = sum.defined() ? sum + aux.sum : aux.sum;
    }
    all.push_back({.found = aux.count, .expected = whole.count, .where = where + " the count"});
  }
  if (sum.defined()) {
    all.push_back({.found = sum, .expected = whole.sum, .where = "ranks have the sum"});
  }
  return all;
}

DividedComparison::Comparisons DividedComparison::of_buffer(std::size_t i) const {
  Comparisons all;
  for (uint32_t r = 0; r < divided_.results.size(); ++r) {
    all.push_back({.found = divided_.results[r].buffers[i],
                   .expected = one_.buffers[i],
                   .where = formatted("rank {} has", r)});
  }
  return all;
}

at::Tensor DividedComparison::sum_of_inputs(std::size_t i) const {
  const uint32_t v = graph().blocks[call_.block].inputs[i];
  at::Tensor sum = at::zeros_like(one_.gradients.inputs[i]);
  for (uint32_t r = 0; r < divided_.results.size(); ++r) {
    add_part(
        sum, *ranks_.part_of_value(r, v, sum.sizes()), divided_.results[r].gradients.inputs[i]);
  }
  return sum;
}

at::Tensor DividedComparison::sum_of_parameters(std::size_t i) const {
  const uint32_t p = graph().blocks[call_.block].parameters[i];
  at::Tensor sum = at::zeros_like(one_.gradients.parameters[i]);
  for (uint32_t r = 0; r < divided_.results.size(); ++r) {
    const at::Tensor& gradient = divided_.results[r].gradients.parameters[i];
    const std::optional<Box>& part = ranks_.part(r, p);
    if (part && gradient.sizes() != sum.sizes()) {
      add_part(sum, *part, gradient);
    } else {
      sum.add_(gradient);
    }
  }
  return sum;
}

// Whether the gradient of a parameter is the sum over ranks.
bool DividedComparison::adds_up(std::size_t parameter) const {
  const ModelParameter& p = graph().parameters[graph().blocks[call_.block].parameters[parameter]];
  return has_pieces() || p.split.has_value() || (p.flags & TENON_PARAM_INSIDE) != 0;
}

bool DividedComparison::is_equal(const ResultKey& key) const {
  return std::ranges::all_of(compared(key), is_same_value);
}

// ---- what differs ----

std::optional<ResultKey> DividedComparison::first_difference() const {
  for (const Kind kind :
       {Kind::kOutput, Kind::kAux, Kind::kInput, Kind::kParameter, Kind::kBuffer}) {
    for (std::size_t i = 0; i < num_results(kind); ++i) {
      if (!is_equal({kind, i})) {
        return ResultKey{kind, i};
      }
    }
  }
  return std::nullopt;
}

std::string DividedComparison::name_of(const ResultKey& key) const {
  const ModelBlock& block = graph().blocks[call_.block];
  const auto i = key.index;
  switch (key.kind) {
    case Kind::kOutput:
      return "output \"" + graph().values[block.outputs[i]].name + "\"";
    case Kind::kAux:
      return "the auxiliary loss \"" + (i < one_.aux.size() ? one_.aux[i].name : std::string("?")) +
             "\"";
    case Kind::kInput:
      return "the gradient by \"" + graph().values[block.inputs[i]].name + "\"";
    case Kind::kParameter:
      return "the gradient by \"" + graph().parameters[block.parameters[i]].name + "\"";
    case Kind::kBuffer:
      return "the next value of buffer \"" + graph().buffers[block.buffers[i]].name + "\"";
  }
  return "";
}

std::string DividedComparison::numbers_of(const ResultKey& key) const {
  const Comparisons all = compared(key);
  const auto wrong = std::ranges::find_if_not(all, is_same_value);
  return wrong == all.end() ? ""
                            : wrong->where + " " + difference_text(wrong->found, wrong->expected);
}

// ---- what causes a difference ----

bool DividedComparison::has_whole_gradients(std::size_t parameter) const {
  return std::ranges::all_of(each_rank({Kind::kParameter, parameter}), is_same_value);
}

bool DividedComparison::has_sum_of_gradients(std::size_t parameter) const {
  return is_same_value({.found = sum_of_parameters(parameter),
                        .expected = one_.gradients.parameters[parameter],
                        .where = ""});
}

bool DividedComparison::is_different_on_ranks(const ResultKey& key) const {
  if (key.kind != Kind::kOutput) {
    return false;
  }
  const Comparisons all = compared(key);
  const uint32_t v = graph().blocks[call_.block].outputs[key.index];
  return !ranks_.graph().values[v].is_divided && !has_pieces() &&
         !std::ranges::all_of(all, [&all](const ComparedTensors& of) {
           return is_same_value({.found = of.found, .expected = all.front().found, .where = ""});
         });
}

bool DividedComparison::is_equal_again(const ResultKey& key) {
  RankResult one = std::move(one_);
  DividedOutcome divided = std::move(divided_);
  bool equal = false;
  try {
    run();
    equal = divided_.failure.empty() && key.index < num_results(key.kind) && is_equal(key);
  } catch (const Error&) {
    equal = false;  // the block refuses such parameters
  }
  one_ = std::move(one);
  divided_ = std::move(divided);
  return equal;
}

bool DividedComparison::is_equal_without(const ResultKey& key, uint32_t p) {
  const at::AutoGradMode no_grad(false);
  const at::Tensor leaf = whole_.store().leaf(p).detach();
  const at::Tensor before = leaf.clone();
  leaf.zero_();
  const bool equal = is_equal_again(key);
  leaf.copy_(before);
  return equal;
}

bool DividedComparison::is_equal_without_aux(const ResultKey& key) {
  if (call_.backward != BlockBackward::kAll || one_.aux.empty()) {
    return false;
  }
  call_.backward = BlockBackward::kOutputsOnly;
  const bool equal = is_equal_again(key);
  call_.backward = BlockBackward::kAll;
  return equal;
}

}  // namespace tenon
