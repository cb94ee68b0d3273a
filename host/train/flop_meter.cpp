// SPDX-License-Identifier: Apache-2.0
#include "host/train/flop_meter.hpp"

#include <tenon/model.h>

#include <c10/util/accumulate.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

namespace tenon {
namespace {

// Lengths of the sequences of a batch, also if it is a part of them; empty ones do not count.
std::vector<int64_t> lengths_of(const Batch& batch) {
  std::vector<int64_t> lengths;
  for (const BatchSequence& sequence :
       batch.positions.has_value() ? batch.positions->sequences : batch.sequences) {
    if (sequence.length > 0) {
      lengths.push_back(sequence.length);
    }
  }
  return lengths;
}

double elements_of(const ModelParameter& parameter) {
  return static_cast<double>(c10::multiply_integers(parameter.shape));
}

}  // namespace

// ---- models ----

ModelFlops::ModelFlops(Parts parts)
    : parts_(std::move(parts)),
      declared_(parts_.models, parts_.graph, parts_.exec, parts_.fields),
      sizes_(parts_.models.size()),
      facts_(parts_.graph, parts_.is_trainable) {
  probe();
}

bool ModelFlops::has_sequences() const {
  return std::ranges::any_of(parts_.graph.values, [](const ModelValue& value) {
    return value.source_kind == TENON_SOURCE_BATCH && value.axes.has_value() &&
           std::ranges::any_of(*value.axes, [](const Axis& axis) { return axis.name == "T"; });
  });
}

// Asks about two tokens: as one sequence, they have one pair of a query and an earlier key more
// than as two.
void ModelFlops::probe() {
  if (!has_sequences()) {
    why_no_size_ = "no input of the model has an axis T";
    return;
  }
  const auto joined = declared_.forward({{"B", 1}, {"T", 2}});
  const auto apart = joined.has_value() ? declared_.forward({{"B", 2}, {"T", 1}}) : std::nullopt;
  if (!apart.has_value()) {
    why_no_size_ = declared_.why_not();
    return;
  }
  const std::vector<int64_t> ones = {1, 1};
  const auto packed = declared_.forward({{"B", 1}, {"T", 2}}, ones);
  is_packing_known_ = packed.has_value() && packed->by_block == apart->by_block;
  for (size_t b = 0; b < parts_.graph.blocks.size(); ++b) {
    of_pair_.push_back(std::max(0.0, joined->by_block[b] - apart->by_block[b]));
    of_token_.push_back(apart->by_block[b] / 2 - of_pair_.back());
  }
  measure_sizes(*joined);
}

void ModelFlops::measure_sizes(const DeclaredFlops::Answer& pair) {
  for (uint32_t m = 0; m < parts_.models.size(); ++m) {
    ModelSize size = size_of(m, pair);
    size.trainable = m == 0 ? size.trainable : size.parameters;  // no formula has forwards alone
    if (size.heads > 0) {
      sizes_[m] = size;
    } else {
      why_no_size_ = "the model '" + parts_.models[m].instance().type() +
                     "' has no attention, which the formula counts";
    }
  }
}

// Attention takes two operations for each feature of a query in its product with a key, and in the
// sum of values.
ModelSize ModelFlops::size_of(uint32_t model, const DeclaredFlops::Answer& pair) const {
  const ModelGraph& graph = parts_.graph;
  ModelSize size;
  for (uint32_t p = 0; p < graph.parameters.size(); ++p) {
    const ModelParameter& parameter = graph.parameters[p];
    if (parameter.model != model || parameter.same_as != kNoIndex) {
      continue;
    }
    const double elements = elements_of(parameter);
    size.parameters += elements;
    size.trainable += parts_.is_trainable(p) ? elements : 0;
    size.embedding += is_looked_up(p) ? elements : 0;
  }
  for (size_t b = 0; b < graph.blocks.size(); ++b) {
    const ModelBlock& block = graph.blocks[b];
    if (block.model != model) {
      continue;
    }
    size.heads += of_pair_[b] / 4;
    size.hidden += of_pair_[b] > 0 ? static_cast<double>(pair.widths[b]) : 0;
    // Matrices of experts that a token does not choose.
    const double all = matrix_elements(block, false);
    const double unused = of_token_[b] > 0 ? std::max(0.0, all - of_token_[b] / 2) : 0;
    size.parameters -= unused;
    size.trainable -= all > 0 ? unused * matrix_elements(block, true) / all : 0;
  }
  return size;
}

// Parameters of two axes or more in blocks without products.
bool ModelFlops::is_looked_up(uint32_t p) const {
  const ModelParameter& parameter = parts_.graph.parameters[p];
  return parameter.shape.size() >= 2 && !parameter.blocks.empty() &&
         std::ranges::none_of(parameter.blocks,
                              [this](uint32_t b) { return of_token_[b] + of_pair_[b] > 0; });
}

double ModelFlops::matrix_elements(const ModelBlock& block, bool trainable_only) const {
  double elements = 0;
  for (const uint32_t p : block.parameters) {
    const ModelParameter& parameter = parts_.graph.parameters[p];
    const bool counts = !trainable_only || parts_.is_trainable(p);
    elements += parameter.shape.size() >= 2 && counts ? elements_of(parameter) : 0;
  }
  return elements;
}

// A product of activations has the gradients of both, each of as many operations; a product with a
// weight has that of the activation, and that of the weight if it is trained. With 0 tokens, all
// products are counted as with weights.
double ModelFlops::backward(uint32_t b, double forward, double tokens) const {
  if (!facts_.has_backward(b)) {
    return 0;
  }
  const double by_weights = tokens > 0 ? of_token_[b] * tokens : forward;
  const double all = matrix_elements(parts_.graph.blocks[b], false);
  const double trained = all > 0 ? matrix_elements(parts_.graph.blocks[b], true) / all : 1;
  return by_weights * (1 + trained) + 2 * (forward - by_weights);
}

const std::optional<BlockFlops>& ModelFlops::of(const Batch& batch) {
  BatchSizes sizes{.axes = declared_.sizes_of(batch),
                   .lengths = lengths_of(batch),
                   .is_packed = batch.packed_samples.has_value()};
  if (last_ != sizes) {
    of_last_ = count(sizes);
    last_ = std::move(sizes);
  }
  return of_last_;
}

// The sequences of a batch as one row without padding. Without lengths, the batch as it is.
std::optional<BlockFlops> ModelFlops::count(const BatchSizes& batch) {
  if (has_sequences() && of_token_.empty()) {
    why_not_exact_ = why_no_size_;
    return std::nullopt;
  }
  const std::vector<int64_t>& lengths = batch.lengths;
  std::map<std::string, int64_t> sizes = batch.axes;
  double tokens = 0;
  if (!lengths.empty() && is_packing_known_) {
    for (const int64_t length : lengths) {
      tokens += static_cast<double>(length);
    }
    sizes["B"] = 1;
    sizes["T"] = static_cast<int64_t>(tokens);
  } else if (batch.is_packed ||
             std::ranges::adjacent_find(lengths, std::not_equal_to<>()) != lengths.end()) {
    why_not_exact_ = "`infer` of the model ignores the lengths of sequences";
    return std::nullopt;
  }
  const auto answer = declared_.forward(
      sizes, tokens > 0 ? std::span<const int64_t>(lengths) : std::span<const int64_t>());
  if (!answer.has_value()) {
    why_not_exact_ = declared_.why_not();
    return std::nullopt;
  }
  BlockFlops flops{.forward = answer->by_block, .backward = {}};
  for (uint32_t b = 0; b < flops.forward.size(); ++b) {
    flops.backward.push_back(backward(b, flops.forward[b], tokens));
    flops.trained_forward += parts_.graph.blocks[b].model == 0 ? flops.forward[b] : 0;
  }
  return flops;
}

// ---- the meter ----

FlopMeter::FlopMeter(ModelFlops model, std::vector<uint32_t> num_forwards, const Peak& peak)
    : model_(std::move(model)), num_forwards_(std::move(num_forwards)), peak_(peak) {
  for (size_t i = 0; i < kNumFormulas; ++i) {
    recent_[i].id = i < flop_formulas().size() ? flop_formulas()[i].id : kExactFlops;
    total_.formulas.push_back({.id = recent_[i].id});
  }
  total_.is_peak_measured = peak.is_measured;
  if (!model_.why_no_size().empty()) {
    for (size_t i = 0; i < flop_formulas().size(); ++i) {
      fail(i, model_.why_no_size());
    }
  }
}

// Once a formula cannot count a batch, its total is unknown.
void FlopMeter::fail(size_t formula, const std::string& why) {
  if (recent_[formula].why_not.empty()) {
    recent_[formula].why_not = why;
  }
}

void FlopMeter::add(const Batch& batch) {
  if (batch.samples == 0) {
    return;
  }
  add_formulas(batch, add_exact(batch));
}

void FlopMeter::drop_recent() {
  for (FormulaFlops& formula : recent_) {
    formula.model = 0;
    formula.hardware = 0;
  }
}

// Returns the share of the trained model's forward that is recomputed; NaN if it is unknown.
double FlopMeter::add_exact(const Batch& batch) {
  constexpr size_t kExact = kNumFormulas - 1;
  const std::optional<BlockFlops>& exact = model_.of(batch);
  if (!exact.has_value()) {
    fail(kExact, model_.why_not_exact());
    return std::ranges::any_of(num_forwards_, [](uint32_t n) { return n > 1; })
               ? std::numeric_limits<double>::quiet_NaN()
               : 0.0;
  }
  double flops = 0;
  double again = 0;
  for (size_t b = 0; b < exact->forward.size(); ++b) {
    flops += exact->forward[b] + exact->backward[b];
    again += (num_forwards_[b] - 1) * exact->forward[b];
  }
  recent_[kExact].model += flops;
  recent_[kExact].hardware += flops + again;
  return exact->trained_forward > 0 ? again / exact->trained_forward : 0.0;
}

// A forward is a third of a formula's operations. A further model only runs forward.
void FlopMeter::add_formulas(const Batch& batch, double recomputed) {
  SequenceSums sums;
  for (const int64_t length : lengths_of(batch)) {
    sums.add(static_cast<double>(length));
  }
  for (size_t i = 0; i < flop_formulas().size(); ++i) {
    if (batch.sequences.empty()) {
      fail(i, "the batches have no lengths of sequences");
    }
    if (!recent_[i].why_not.empty()) {
      continue;
    }
    const double trained = flop_formulas()[i].flops(*model_.size(0), sums);
    double flops = trained;
    for (size_t m = 1; m < model_.num_models(); ++m) {
      flops += flop_formulas()[i].flops(*model_.size(m), sums) / 3;
    }
    recent_[i].model += flops;
    recent_[i].hardware += flops + trained / 3 * recomputed;
  }
}

FlopReport FlopMeter::report(Group& ranks, double seconds) {
  std::array<double, 2 * kNumFormulas + 1> sums{};
  for (size_t i = 0; i < kNumFormulas; ++i) {
    sums[2 * i] = recent_[i].model;
    sums[2 * i + 1] = recent_[i].hardware;
  }
  sums.back() = peak_.flops;
  ranks.all_reduce(std::span<double>(sums), Reduce::kSum, "operations of training");
  FlopReport report{.peak = sums.back(),
                    .is_peak_measured = peak_.is_measured,
                    .seconds = seconds,
                    .formulas = {}};
  total_.peak = report.peak;
  total_.seconds += seconds;
  for (size_t i = 0; i < kNumFormulas; ++i) {
    FormulaFlops& all = total_.formulas[i];
    FormulaFlops one = recent_[i];
    one.model = one.why_not.empty() ? sums[2 * i] : 0;
    one.hardware = one.why_not.empty() ? sums[2 * i + 1] : 0;
    all.why_not = one.why_not;
    all.model = one.why_not.empty() ? all.model + one.model : 0;
    all.hardware = one.why_not.empty() ? all.hardware + one.hardware : 0;
    report.formulas.push_back(std::move(one));
    recent_[i].model = 0;
    recent_[i].hardware = 0;
  }
  return report;
}

}  // namespace tenon
