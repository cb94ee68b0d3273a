// SPDX-License-Identifier: Apache-2.0
#include "host/train/non_finite_origin.hpp"

#include <tenon/model.h>

#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <exception>
#include <optional>
#include <set>

namespace tenon {
namespace {

// Infinities may be intended, for example in a mask. If the loss is finite in spite of them, only
// NaN is suspect.
enum class Suspect { kNanOnly, kNanAndInfinite };

int64_t num_suspects(const at::Tensor& tensor, Suspect suspect) {
  if (!tensor.defined() || !tensor.is_floating_point()) {
    return 0;
  }
  const at::Tensor bad = suspect == Suspect::kNanOnly ? at::isnan(tensor) : ~at::isfinite(tensor);
  return bad.sum().item<int64_t>();
}

int64_t num_not_finite(const at::Tensor& tensor) {
  return num_suspects(tensor, Suspect::kNanAndInfinite);
}

bool are_finite(const std::vector<at::Tensor>& scalars) {
  for (const at::Tensor& scalar : scalars) {
    if (!std::isfinite(scalar.item<double>())) {
      return false;
    }
  }
  return true;
}

std::string holds(int64_t n) {
  return " holds " + counted(n, "non-finite value");
}

std::string parameter_text(const ModelGraph& graph, uint32_t p) {
  const ModelParameter& parameter = graph.parameters[p];
  return "parameter '" + parameter.name + "' of block '" +
         graph.blocks[parameter.blocks.front()].name + "'";
}

class Search {
 public:
  Search(ProgramRunner& model,
         MicrobatchState& values,
         ParameterStore& parameters,
         const LossSet& losses,
         OriginSearch extent)
      : model_(model),
        values_(values),
        parameters_(parameters),
        losses_(losses),
        graph_(parameters.graph()),
        extent_(extent) {}

  std::optional<NonFiniteOrigin> in_forward(const PastMicrobatch& microbatch,
                                            const CallPoint& point) {
    const bool is_loss_finite = are_finite(*microbatch.sums);
    const Suspect suspect = is_loss_finite ? Suspect::kNanOnly : Suspect::kNanAndInfinite;
    std::optional<NonFiniteOrigin> found;
    model_.replay(values_, *microbatch.batch, point, [&](uint32_t b) {
      if (!found.has_value()) {
        found = in_block(b, suspect);
      }
      return found.has_value() && extent_ == OriginSearch::kUntilFound;
    });
    if (found.has_value()) {
      return found;
    }
    const std::optional<std::string> of_losses = in_losses(microbatch);
    return of_losses.has_value() ? std::optional(cause(*of_losses)) : std::nullopt;
  }

  // Finds the first non-finite gradient in backward order: in the last block that has one.
  std::optional<std::string> in_gradients() const {
    std::optional<uint32_t> first;
    std::set<uint32_t> seen;
    size_t num_found = 0;
    int64_t num_values = 0;
    for (size_t b = graph_.blocks.size(); b-- > 0;) {
      for (uint32_t p : graph_.blocks[b].parameters) {
        p = graph_.parameters[p].same_as == kNoIndex ? p : graph_.parameters[p].same_as;
        const auto& position = parameters_.position(p);
        const FlatGroup& group = parameters_.groups()[position.group];
        if (!position.trainable || !group.entries()[position.entry].has_grad ||
            !seen.insert(p).second) {
          continue;
        }
        const int64_t n = num_not_finite(group.grad_view(position.entry));
        if (n > 0) {
          ++num_found;
          if (!first.has_value()) {
            first = p;
            num_values = n;
          }
        }
      }
    }
    if (!first.has_value()) {
      return std::nullopt;
    }
    std::string text = "the gradient of " + parameter_text(graph_, *first) + holds(num_values);
    if (num_found > 1) {
      text += formatted(", the first of {} such gradients in the backward", num_found);
    }
    return text + ", while the forward is finite";
  }

  std::optional<std::string> in_parameters() const {
    for (uint32_t p = 0; p < graph_.parameters.size(); ++p) {
      if (const int64_t n = num_in_parameter(p)) {
        return parameter_text(graph_, p) + holds(n);
      }
    }
    return std::nullopt;
  }

 private:
  static NonFiniteOrigin cause(std::string text) {
    return {OriginDistance::kForward, std::move(text)};
  }

  std::optional<NonFiniteOrigin> in_block(uint32_t b, Suspect suspect) const {
    const ModelBlock& block = graph_.blocks[b];
    for (const uint32_t out : block.outputs) {
      const int64_t n = num_suspects(values_.value(out), suspect);
      if (n == 0) {
        continue;
      }
      for (const uint32_t in : block.inputs) {
        const int64_t of_input = num_not_finite(values_.value(in));
        if (of_input > 0 && graph_.values[in].source_kind == TENON_SOURCE_BATCH) {
          return cause(field_text(graph_.values[in].source, of_input) + "; block '" + block.name +
                       "' reads it");
        }
        if (of_input > 0 && is_of_other_rank(in)) {
          return NonFiniteOrigin{
              OriginDistance::kUnknown,
              "value '" + graph_.values[in].name + "' of an earlier stage" + holds(of_input)};
        }
      }
      for (const uint32_t p : block.parameters) {
        if (const int64_t of_parameter = num_in_parameter(p)) {
          return cause(parameter_text(graph_, p) + holds(of_parameter));
        }
      }
      for (const uint32_t i : block.buffers) {
        if (const int64_t of_buffer = num_not_finite(parameters_.buffer(i))) {
          return cause("buffer '" + graph_.buffers[i].name + "' of block '" + block.name + "'" +
                       holds(of_buffer));
        }
      }
      return NonFiniteOrigin{OriginDistance::kOutput,
                             "output '" + graph_.values[out].name + "' of block '" + block.name +
                                 "'" + holds(n) +
                                 ", while its parameters and what it reads are finite"};
    }
    return std::nullopt;
  }

  std::optional<std::string> in_losses(const PastMicrobatch& microbatch) const {
    const size_t num_losses = microbatch.sums->empty() ? 0 : losses_.size();
    for (size_t l = 0; l < num_losses; ++l) {
      const bool is_sum_finite = std::isfinite((*microbatch.sums)[l].item<double>());
      if (is_sum_finite && std::isfinite((*microbatch.counts)[l].item<double>())) {
        continue;
      }
      for (const std::string& field : losses_.fields_read(l)) {
        const at::Tensor* const value = microbatch.batch->find(field);
        if (const int64_t n = value != nullptr ? num_not_finite(*value) : 0) {
          return field_text(field, n) + "; loss '" + losses_.name(l) + "' reads it";
        }
      }
      std::string text = is_sum_finite ? "the count of loss '" : "the value of loss '";
      text.append(losses_.name(l)).append("' is non-finite, while its inputs are finite");
      return text;
    }
    return std::nullopt;
  }

  // Whether a stage of another rank makes the value.
  bool is_of_other_rank(uint32_t v) const {
    const uint32_t maker = graph_.values[v].maker;
    return maker != kNoIndex && graph_.blocks[maker].is_elsewhere;
  }

  static std::string field_text(const std::string& field, int64_t n) {
    return "field '" + field + "' of the batch" + holds(n);
  }

  // Counts non-finite values in the copy that blocks use, if it exists. A copy in a narrower dtype
  // may be infinite where the stored values are finite.
  int64_t num_in_parameter(uint32_t p) const {
    const auto& position = parameters_.position(p);
    const FlatGroup& group = parameters_.groups()[position.group];
    return num_not_finite(group.has_whole() ? group.unsharded_view(position.entry)
                                            : group.data_view(position.entry));
  }

  ProgramRunner& model_;
  MicrobatchState& values_;
  ParameterStore& parameters_;
  const LossSet& losses_;
  const ModelGraph& graph_;
  OriginSearch extent_;
};

}  // namespace

NonFiniteOrigin find_non_finite_origin(ProgramRunner& model,
                                       MicrobatchState& values,
                                       ParameterStore& parameters,
                                       const LossSet& losses,
                                       const std::vector<PastMicrobatch>& microbatches,
                                       uint64_t step,
                                       OriginSearch extent) {
  const at::AutoGradMode no_grad(false);
  const bool is_alone = extent == OriginSearch::kUntilFound;
  Search search(model, values, parameters, losses, extent);
  std::optional<NonFiniteOrigin> found;
  for (uint32_t i = 0; i < microbatches.size() && !(is_alone && found.has_value()); ++i) {
    if (microbatches[i].batch->samples == 0) {
      model.replay(
          values, *microbatches[i].batch, CallPoint{step, i, true}, [](uint32_t) { return false; });
      continue;
    }
    std::optional<NonFiniteOrigin> here;
    try {
      here = search.in_forward(microbatches[i], CallPoint{step, i, true});
    } catch (const std::exception&) {
      if (!is_alone) {
        throw;  // the other ranks are still in the search
      }
      model.clear(values);  // a plugin that fails in the recompute does not end the run
    }
    if (here.has_value() && !found.has_value()) {
      found = std::move(here);
      found->text += microbatches.size() > 1 ? formatted(" (microbatch {})", i) : "";
    }
  }
  if (found.has_value()) {
    return *found;
  }
  if (const auto in_gradients = search.in_gradients()) {
    return {OriginDistance::kGradient, *in_gradients};
  }
  if (const auto in_parameters = search.in_parameters()) {
    return {OriginDistance::kParameter, *in_parameters};
  }
  return {OriginDistance::kUnknown,
          "it cannot be seen any more where, since all is finite on a second look"};
}

NonFiniteOrigin non_finite_gradient(const ModelGraph& graph,
                                    const std::vector<uint32_t>& parameters,
                                    const at::Tensor& norms) {
  const at::Tensor values = norms.cpu();
  std::optional<uint32_t> last;
  size_t num_found = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!std::isfinite(values[static_cast<int64_t>(i)].item<double>())) {
      last = parameters[i];
      ++num_found;
    }
  }
  if (!last.has_value()) {
    return {OriginDistance::kUnknown, "a loss is non-finite, while all gradients are finite"};
  }
  return {
      OriginDistance::kGradient,
      formatted("the gradients of {} of {} parameters are non-finite, that of {} the first in the "
                "backward",
                num_found,
                parameters.size(),
                parameter_text(graph, *last))};
}

}  // namespace tenon
