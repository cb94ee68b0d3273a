// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/model_trial.hpp"

#include <tenon/draft/tensor.h>
#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/model/compile_program.hpp"
#include "host/model/divided_graph.hpp"
#include "host/model/model_fields.hpp"
#include "host/model/program_visitor.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/default_dtype.hpp"
#include "host/tools/check/source_reader.hpp"
#include "host/train/components/recipe_model.hpp"
#include "host/train/components/run_dataset.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace tenon {
namespace {

constexpr int64_t kTrialSamples = 4;   // as in input guesses
constexpr int64_t kRowsPerSample = 3;  // of a lookup whose ids have an open second axis
constexpr std::size_t kMaxBlocks = 8;  // that a check of each block runs
constexpr int64_t kMaxElements = 30'000'000;
constexpr double kNoise = 0.05;
constexpr uint64_t kNoiseSeed = 17;

bool is_model_of_recipe(Subject& subject, const CheckedComponent& checked) {
  return checked.use != nullptr && checked.use == &subject.recipe().model.use;
}

ModelProxy make_model(Subject& subject, const CheckedComponent& checked, at::ScalarType dtype) {
  const DefaultDtype of_run(dtype);
  return ModelProxy(subject.create(checked));
}

// Guessed batches have no optional inputs: their numbers have meanings that a guess breaks.
bool is_guessed(const ModelValue& value) {
  return value.source_kind == TENON_SOURCE_BATCH && !value.is_optional;
}

at::Tensor copy_of(const at::Tensor& value) {
  return value.defined() ? value.clone() : value;
}

// A model of modules builds them to describe their parameters and buffers.
ModelGraph graph_of(Subject& subject,
                    const CheckedComponent& checked,
                    ModelProxy& proxy,
                    at::ScalarType dtype) {
  const DefaultDtype of_run(dtype);
  subject.note("describe of " + checked.name());
  return is_model_of_recipe(subject, checked) ? recipe_model(proxy, subject.recipe().model)
                                              : describe_model(proxy);
}

// Each rank keeps the gradients that its blocks give: `inside` is where all ranks add them.
ModelGraph divided_graph(ModelGraph graph, RankIndex tensor) {
  divide_graph(graph, tensor, IndivisibleBlocks::kRunWhole);
  for (ModelParameter& parameter : graph.parameters) {
    parameter.flags |= tensor.count > 1 && !parameter.split ? TENON_PARAM_INSIDE : 0;
  }
  return graph;
}

ParameterLayout layout_of(at::ScalarType dtype, RankIndex tensor) {
  return {.dtype = dtype,
          .device = at::kCPU,
          .partition_of = [](uint32_t) { return 0U; },
          .role = RankRole(Mesh({.tensor = tensor.count}, tensor.count, tensor.index))};
}

}  // namespace

std::optional<std::string> why_not_checked(Subject& subject,
                                           const CheckedComponent& checked,
                                           ComponentInstance instance) {
  ModelProxy proxy(std::move(instance));
  const int64_t elements = graph_of(subject, checked, proxy, at::kFloat).num_elements();
  subject.note("destroy of " + checked.name());
  if (elements <= kMaxElements) {
    return std::nullopt;
  }
  return formatted(
      "{} has {} elements in its parameters, and at most {} are checked; pass a recipe with a "
      "smaller model: --recipe FILE",
      checked.name(),
      elements,
      kMaxElements);
}

ModelTrial::ModelTrial(Subject& subject,
                       const CheckedComponent& checked,
                       at::ScalarType dtype,
                       RankIndex tensor)
    : subject_(subject),
      checked_(checked),
      name_(checked.name()),
      base_(check_exec_base(subject.request(), dtype)),
      proxy_(make_model(subject, checked, dtype)),
      graph_(divided_graph(graph_of(subject, checked, proxy_, dtype), tensor)),
      store_(graph_, layout_of(dtype, tensor)),
      frame_(proxy_.instance().host(), base_),
      facts_(facts_of(store_)),
      blocks_(proxy_, store_, base_, facts_.values_with_gradient()) {
  subject.note("materialize or fill_buffer of " + name_);
  const DefaultDtype of_run(dtype);
  store_.initialise(proxy_, frame_.exec(), subject.request().seed);
  add_noise();
}

// Initial values are often zero or one, for which many mistakes do not show.
void ModelTrial::add_noise() {
  const at::AutoGradMode no_grad(false);
  std::mt19937_64 generator(subject_.request().seed + kNoiseSeed);
  for (uint32_t p = 0; p < graph_.parameters.size(); ++p) {
    if (graph_.parameters[p].same_as == kNoIndex && store_.is_trainable(p)) {
      const at::Tensor leaf = store_.leaf(p).detach();
      leaf.add_(random_tensor(leaf.sizes().vec(), at::kDouble, -kNoise, kNoise, generator)
                    .to(leaf.scalar_type()));
    }
  }
}

bool ModelTrial::has_samples(uint32_t v) const {
  const auto& axes = graph_.values[v].axes;
  return !axes.has_value() || (!axes->empty() && axes->front().name == "B");
}

bool ModelTrial::is_per_sample() const {
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    if (given_[v].defined() && !has_samples(v)) {
      return false;
    }
  }
  return true;
}

std::vector<at::Tensor> ModelTrial::guessed_values(const InputGuess& guess,
                                                   std::mt19937_64& generator) const {
  std::vector<Port> ports;
  for (const ModelValue& value : graph_.values) {
    if (is_guessed(value)) {
      ports.push_back({.name = value.source, .dtype = value.dtype, .axes = value.axes});
    }
  }
  const SampleInputs inputs = make_inputs(ports, guess, base_.compute_dtype, generator);
  std::vector<at::Tensor> given(graph_.values.size());
  std::size_t next = 0;
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    if (is_guessed(graph_.values[v])) {
      given[v] = inputs[next++];
    }
  }
  return given;
}

std::vector<at::Tensor> ModelTrial::values_of(const Batch& batch) const {
  std::vector<at::Tensor> given(graph_.values.size());
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    const ModelValue& value = graph_.values[v];
    if (value.source_kind == TENON_SOURCE_BATCH) {
      const at::Tensor* const field = batch.find(value.source);
      if (field == nullptr) {
        continue;  // an optional input
      }
      const bool is_compute = value.dtype == TENON_CLASS_COMPUTE && field->is_floating_point();
      given[v] = is_compute ? field->to(base_.compute_dtype) : *field;
    }
  }
  return given;
}

// None without a recipe that trains this model, or if its dataset has no samples.
std::optional<Batch> ModelTrial::batch_of_recipe() {
  if (!is_model_of_recipe(subject_, checked_)) {
    return std::nullopt;
  }
  const Recipe& recipe = subject_.recipe();
  subject_.note("create of the dataset of the recipe");
  RunDataset dataset(subject_.factory(), recipe.data.train, "data/train", recipe.seed, false);
  SourceReader reader(subject_, "the dataset of the recipe", dataset.source());
  check_model_fields(
      graph_, readable_fields(*dataset.source().info().schema), dataset.source().name());
  return reader.first_batch(kTrialSamples);
}

bool ModelTrial::accepts(std::vector<at::Tensor> given, int64_t samples, RefusedInputs& refused) {
  given_ = std::move(given);
  samples_ = samples;
  try {
    values_ = run_all(samples);
    return true;
  } catch (const StatusError& error) {
    if (error.code() == TENON_UNSUPPORTED) {
      is_unsupported_ = true;
      reason_ = error.message();
      return false;
    }
    refused.add(error);
  }
  return false;
}

bool ModelTrial::find_batch() {
  RefusedInputs refused;
  batch_ = batch_of_recipe();
  if (batch_.has_value()) {
    if (accepts(values_of(*batch_), batch_->samples, refused)) {
      return true;
    }
  } else {
    for (const InputGuess& guess : input_guesses()) {
      std::mt19937_64 generator = subject_.generator();
      if (accepts(guessed_values(guess, generator), kTrialSamples, refused)) {
        return true;
      }
    }
  }
  if (!is_unsupported_) {
    reason_ = "no batch was found that " + name_ + " accepts: " + refused.reason();
    if (!batch_.has_value()) {
      reason_ += "; pass a recipe that trains it: --recipe FILE";
    }
  }
  return false;
}

// Returns rows of a table for value `v`: random numbers, the same for equal shapes.
at::Tensor ModelTrial::rows_of(uint32_t v, int64_t samples, const std::vector<at::Tensor>& values) {
  const ModelValue& value = graph_.values[v];
  const ModelLookup& lookup = *value.lookup;
  std::vector<int64_t> shape;
  const at::Tensor* ids = nullptr;
  if (lookup.pooling == TENON_POOL_NONE) {
    ids = lookup.ids != kNoIndex ? &values[lookup.ids]
          : batch_.has_value()   ? batch_->find(lookup.column)
                                 : nullptr;
  }
  if (ids != nullptr && ids->defined()) {
    shape = ids->sizes().vec();
    shape.front() = samples;
    shape.push_back(lookup.dim);
  } else {
    for (const Axis& axis : *value.axes) {
      shape.push_back(axis.size >= 0 ? axis.size : kRowsPerSample);
    }
    shape.front() = samples;
    shape.back() = lookup.dim;
    if (lookup.pooling == TENON_POOL_FIRST_N) {
      shape[1] = lookup.length;
    }
  }
  std::mt19937_64 generator(subject_.request().seed + v);
  return random_tensor(
      shape, blocks_.border_dtype(v).value_or(base_.compute_dtype), -1, 1, generator);
}

// Runs the forward of an evaluation, and keeps all values.
class ModelTrial::RunAll final : public ProgramVisitor {
 public:
  RunAll(ModelTrial& trial, const Program& program, int64_t samples)
      : trial_(trial), program_(program), samples_(samples) {
    for (const at::Tensor& given : trial.given_) {
      const auto v = static_cast<uint32_t>(values.size());
      const bool is_cut = given.defined() && samples < trial.samples_ && trial.has_samples(v);
      values.push_back(is_cut ? given.narrow(0, 0, samples) : given);
    }
  }

  void visit(const Instruction& instruction) override {
    if (instruction.op == Op::kRows) {
      for (const uint32_t v : program_.values(instruction)) {
        if (!values[v].defined()) {
          values[v] = trial_.rows_of(v, samples_, values);
        }
      }
    } else if (instruction.op == Op::kForward) {
      forward(instruction.block);
    }
  }

  std::vector<at::Tensor> values;  // of the graph

 private:
  void forward(uint32_t b) {
    const ModelBlock& block = trial_.graph_.blocks[b];
    std::vector<at::Tensor> inputs;
    for (const uint32_t v : block.inputs) {
      inputs.push_back(copy_of(values[v]));  // a block that writes changes only its own
    }
    const BlockTape tape = trial_.forward(b, inputs, {.samples = samples_, .is_train = false});
    for (std::size_t i = 0; i < block.outputs.size(); ++i) {
      const uint32_t v = block.outputs[i];
      values[v] = trial_.blocks_.at_border(v, tape.outputs[i]);
    }
  }

  ModelTrial& trial_;
  const Program& program_;
  const int64_t samples_;
};

std::vector<at::Tensor> ModelTrial::run_all(int64_t samples) {
  const std::vector<GroupFacts> groups = group_facts(store_, graph_);
  const Program program = compile_program(PassKind::kEvaluate, facts_, groups, {});
  RunAll all(*this, program, samples);
  interpret(program, Section::kForward, {}, all);
  return std::move(all.values);
}

std::vector<uint32_t> ModelTrial::some_blocks() const {
  std::vector<uint32_t> blocks;
  const auto count = static_cast<uint32_t>(graph_.blocks.size());
  for (uint32_t b = 0; b < count; ++b) {
    if (count <= kMaxBlocks || b < kMaxBlocks / 2 || b >= count - kMaxBlocks / 2) {
      blocks.push_back(b);
    }
  }
  return blocks;
}

std::vector<at::Tensor> ModelTrial::inputs_of(uint32_t b) const {
  std::vector<at::Tensor> inputs;
  for (const uint32_t v : graph_.blocks[b].inputs) {
    inputs.push_back(copy_of(values_[v]));
  }
  return inputs;
}

BlockTape ModelTrial::forward(uint32_t b,
                              const std::vector<at::Tensor>& inputs,
                              const BlockCall& call) {
  const ModelBlock& block = graph_.blocks[b];
  subject_.note("forward of block \"" + block.name + "\" of " + name_);
  const DefaultDtype of_run(base_.compute_dtype);
  if (call.ranks != nullptr) {
    blocks_.divide(*call.ranks);
  }
  blocks_.begin(
      {.step = call.step, .microbatch = 0, .is_train = call.is_train}, call.samples, call.divided);
  BlockTape tape = blocks_.make_tape(b);
  const bool records = call.is_train && !block.has(TENON_BLOCK_HAND_WRITTEN);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) {
      tape.inputs.emplace_back();  // an optional input that is absent
      continue;
    }
    at::Tensor leaf = inputs[i].detach();
    if (records && facts_.has_gradient(block.inputs[i]) && leaf.is_floating_point()) {
      leaf.requires_grad_(true);
    }
    tape.inputs.push_back(std::move(leaf));
  }
  // Each call starts from the same buffers, as a recompute does.
  const std::vector<at::Tensor> buffers = store_.buffers();
  blocks_.forward(
      b,
      {.records = records, .is_recompute = call.is_recompute, .salt = b, .pieces = call.pieces},
      tape);
  StepSums& sums = blocks_.sums();
  sums.apply();
  next_buffers_.clear();
  for (uint32_t i = 0; i < graph_.buffers.size(); ++i) {
    next_buffers_.push_back(sums.at_end_of_step(i));
  }
  store_.buffers() = buffers;
  sums.clear();
  add_loads(sums, tape.aux);
  if (call.divided != nullptr) {
    for (at::Tensor& loads : sums.load_sums()) {
      loads.copy_(call.divided->group->sum(loads, "loads of experts"));
    }
  }
  return tape;
}

std::vector<at::Tensor> ModelTrial::next_buffers(uint32_t b) const {
  std::vector<at::Tensor> next;
  for (const uint32_t i : graph_.blocks[b].buffers) {
    next.push_back(next_buffers_[i]);
  }
  return next;
}

double ModelTrial::value_of(const AuxLoss& aux) const {
  const auto [sum, count] = sum_and_count(blocks_.sums(), aux);
  return aux.weight * (sum.item<double>() / count.item<double>());
}

BlockGradients ModelTrial::backward(uint32_t b,
                                    BlockTape& tape,
                                    const std::vector<at::Tensor>& grads) {
  const ModelBlock& block = graph_.blocks[b];
  subject_.note("backward of block \"" + block.name + "\" of " + name_);
  for (FlatGroup& group : store_.groups()) {
    group.clear_grads();
  }
  const DefaultDtype of_run(base_.compute_dtype);
  const at::AutoGradMode no_grad(false);
  BlockGradients result{.inputs = std::vector<at::Tensor>(block.inputs.size()), .parameters = {}};
  for (const ValueGrad& of : blocks_.backward(b, b, tape, grads, {})) {
    const auto at = std::ranges::find(block.inputs, of.value) - block.inputs.begin();
    at::Tensor& sum = result.inputs[static_cast<std::size_t>(at)];
    sum = sum.defined() ? sum + of.grad : of.grad;
  }
  for (const uint32_t p : block.parameters) {
    const ParameterStore::Position& position = store_.position(p);
    FlatGroup& group = store_.groups()[position.group];
    const bool has_grad = position.trainable && group.entries()[position.entry].has_grad;
    result.parameters.push_back(has_grad ? group.grad_view(position.entry).clone() : at::Tensor());
  }
  return result;
}

void ModelTrial::take_over(ModelTrial& other) {
  const at::AutoGradMode no_grad(false);
  for (uint32_t p = 0; p < graph_.parameters.size(); ++p) {
    const at::Tensor whole = other.store_.leaf(p).detach();
    const std::optional<Box>& part = graph_.parameters[p].part;
    store_.leaf(p).detach().copy_(part ? part_of(whole, *part) : whole);
  }
  for (uint32_t i = 0; i < graph_.buffers.size(); ++i) {
    const at::Tensor& value = other.store_.buffer(i);
    if (value.scalar_type() == store_.buffer(i).scalar_type()) {
      store_.replace_buffer(i, value);  // shared: no call writes to a buffer
    } else {
      store_.buffer(i).copy_(value);
    }
  }
  const auto converted = [&](const std::vector<at::Tensor>& from) {
    std::vector<at::Tensor> to;
    for (const at::Tensor& value : from) {
      to.push_back(value.defined() && value.scalar_type() == other.dtype()
                       ? value.to(base_.compute_dtype)
                       : value);
    }
    return to;
  };
  given_ = converted(other.given_);
  values_ = converted(other.values_);
  samples_ = other.samples_;
  batch_ = other.batch_;
}

void ModelTrial::move_parameters() {
  const at::AutoGradMode no_grad(false);
  constexpr int64_t kOffset = 64;  // in elements, so that the new place is aligned
  for (uint32_t p = 0; p < graph_.parameters.size(); ++p) {
    if (graph_.parameters[p].same_as != kNoIndex) {
      continue;
    }
    at::Tensor leaf = store_.leaf(p);
    const at::Tensor old = leaf.detach();
    at::Tensor memory = at::empty({kOffset + leaf.numel()}, leaf.options().requires_grad(false));
    at::Tensor moved = memory.narrow(0, kOffset, leaf.numel()).view(leaf.sizes());
    moved.copy_(old);
    leaf.set_data(moved);
    if (old.is_floating_point()) {
      old.fill_(std::numeric_limits<double>::quiet_NaN());
    }
  }
}

}  // namespace tenon
