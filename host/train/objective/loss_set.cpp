// SPDX-License-Identifier: Apache-2.0
#include "host/train/objective/loss_set.hpp"

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/plugin/own_handles.hpp"
#include "host/plugin/plugin_gradients.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/tensor/trace_span.hpp"
#include "host/text/formatted.hpp"
#include "host/train/objective/batch_range.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

namespace tenon {

struct LossSet::Entry {
  NamedLoss loss;
  ExecFrame frame;
  InputBinding binding;
};

namespace {

std::string loss_text(const NamedLoss& loss) {
  return "loss '" + loss.name + "' (" + loss.proxy.instance().type() + ")";
}

std::string text_of(const at::Tensor& tensor) {
  return std::string(c10::toString(tensor.scalar_type())) + " " + shape_text(tensor.sizes()) +
         " on " + tensor.device().str();
}

// Operators that change nothing take a noticeable part of a step with few samples.
at::Tensor as_scalar(const at::Tensor& tensor) {
  return tensor.dim() == 0 ? tensor : tensor.reshape({});
}

// Returns a count or a sum of whole sequences on the rank that counts them, and 0 on the others.
at::Tensor counted(at::Tensor number, const DividedSequences* whole) {
  return whole == nullptr || whole->group->is_first() ? std::move(number) : at::zeros_like(number);
}

// Returns a seed, a scalar of Double, with the dtype, device and shape of `sum`.
at::Tensor seed_like(const at::Tensor& sum, const at::Tensor& seed) {
  if (sum.dim() == 0 && sum.is_cpu() && seed.is_cpu()) {
    return at::scalar_tensor(seed.item<double>(), at::dtype(sum.scalar_type()));
  }
  return seed.to(sum.device(), sum.scalar_type()).view_as(sum);
}

}  // namespace

LossSet::LossSet(std::vector<NamedLoss> losses,
                 const ModelGraph& graph,
                 const std::string& model_name,
                 const ExecBase& base)
    : compute_dtype_(base.compute_dtype) {
  for (NamedLoss& loss : losses) {
    InputBinding binding({PortOwner::Kind::kLoss, loss_text(loss)},
                         loss.proxy.info().ports,
                         loss.inputs,
                         graph,
                         model_name);
    ExecFrame frame(loss.proxy.instance().host(), base);
    entries_.push_back({std::move(loss), frame, std::move(binding)});
  }
}

LossSet::~LossSet() = default;

void LossSet::check_fields(const std::vector<FieldInfo>& fields, const std::string& dataset) const {
  for (const Entry& entry : entries_) {
    entry.binding.check_fields(fields, dataset);
  }
}

size_t LossSet::size() const {
  return entries_.size();
}
const std::string& LossSet::name(size_t i) const {
  return entries_[i].loss.name;
}
double LossSet::weight(size_t i) const {
  return entries_[i].loss.weight;
}
std::vector<std::string> LossSet::fields_read(size_t i) const {
  return entries_[i].binding.fields();
}

std::string LossSet::text(size_t i) const {
  return loss_text(entries_[i].loss);
}

std::vector<uint32_t> LossSet::values_read(size_t i) const {
  return entries_[i].binding.values();
}

bool LossSet::is_additive_over_tokens(size_t i) const {
  return entries_[i].loss.proxy.info().additive_over == TENON_ADDITIVE_TOKENS;
}

void LossSet::check_by_source(const std::string& dataset, bool is_packed) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::string why = why_not_by_source(i, is_packed);
    if (!why.empty()) {
      throw Error("loss.not_by_source",
                  "/train/loss_by_source: " + text(i) + " cannot be split by the sources of " +
                      dataset + ": " + why + "; set it to false");
    }
  }
}

std::string LossSet::why_not_by_source(size_t i, bool is_packed) const {
  const uint32_t additive = entries_[i].loss.proxy.info().additive_over;
  if (additive == TENON_ADDITIVE_NONE) {
    return "it is no sum over samples";
  }
  if (is_packed && additive != TENON_ADDITIVE_TOKENS) {
    return "it is no sum over tokens, and packed rows have tokens of several sources";
  }
  return entries_[i].binding.why_no_ranges();
}

void LossSet::check_additive(int64_t num_parts) const {
  for (size_t i = 0; num_parts > 1 && i < entries_.size(); ++i) {
    if (entries_[i].loss.proxy.info().additive_over != TENON_ADDITIVE_NONE) {
      continue;
    }
    throw Error(
        "loss.not_additive",
        formatted("{} compares the samples of a microbatch with each other, so its sum over the "
                  "{} microbatches of a step, over all ranks, differs from the loss of one "
                  "large batch, which \"normalize\": \"items\" requires; set "
                  "/train/normalize to \"microbatch\", or use one microbatch per step. A "
                  "loss that is a sum over samples must declare additive_over",
                  text(i),
                  num_parts));
  }
}

bool LossSet::count_from_batch() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& e) {
    return e.loss.proxy.info().counts_from_batch;
  });
}

at::Tensor LossSet::count_one(Entry& entry, const BoundInputs& inputs, const CallPoint& point) {
  const at::AutoGradMode no_grad(false);
  entry.frame.move_to(point);
  at::Tensor count =
      take_handle(entry.loss.proxy.count(entry.frame.exec(), inputs.handles(), inputs.size()));
  if (count.numel() != 1 || count.scalar_type() != at::kDouble || count.is_meta()) {
    entry.loss.proxy.instance().identity().fail_result("count returned " + text_of(count) +
                                                       "; it must return a scalar of Double");
  }
  count = as_scalar(count);
  // On a device, reading the count would wait for it. train.non_finite says what happens to a count
  // that is NaN or infinite.
  if (const double* const value = count.is_cpu() ? count.const_data_ptr<double>() : nullptr;
      value != nullptr && *value < 0 && std::isfinite(*value)) {
    entry.loss.proxy.instance().identity().fail_result(
        formatted("count returned {}; a count is a number from 0 on", *value));
  }
  return count;
}

bool LossSet::sees_parts(const Entry& entry, const std::vector<FieldInfo>& schema) const {
  return entry.loss.proxy.info().additive_over == TENON_ADDITIVE_TOKENS &&
         entry.binding.is_over_positions(schema);
}

bool LossSet::sees_parts(size_t i, const std::vector<FieldInfo>& schema) const {
  return sees_parts(entries_[i], schema);
}

const DividedSequences* LossSet::seen_whole(const Entry& entry,
                                            const Batch& batch,
                                            const DividedSequences* divided) const {
  return divided == nullptr || sees_parts(entry, *batch.schema) ? nullptr : divided;
}

bool LossSet::sees_units(const Entry& entry, const TensorGroup& tensor) const {
  return entry.loss.proxy.info().is_divisible && entry.binding.is_over_units(tensor.size());
}

TensorRegionPtr LossSet::new_region(const Entry& entry, TensorGroup* tensor) const {
  return tensor != nullptr && sees_units(entry, *tensor) ? tensor->new_region(loss_text(entry.loss))
                                                         : TensorRegionPtr();
}

SeenWhole LossSet::seen_whole(const Entry& entry,
                              const MicrobatchState& values,
                              const Batch& batch) const {
  TensorGroup* const tensor = values.tensor();
  return {.sequences = seen_whole(entry, batch, values.divided()),
          .units = tensor != nullptr && !sees_units(entry, *tensor) ? tensor : nullptr};
}

std::vector<at::Tensor> LossSet::count(const Batch& batch,
                                       const CallPoint& point,
                                       SequenceGroup* sequences) {
  std::optional<DividedSequences> divided;
  if (sequences != nullptr) {
    divided = {.group = sequences, .parts = sequences->parts_of(batch)};
  }
  std::vector<at::Tensor> counts;
  for (Entry& entry : entries_) {
    const DividedSequences* const whole =
        seen_whole(entry, batch, divided.has_value() ? &*divided : nullptr);
    const BoundInputs inputs = entry.binding.gather(
        nullptr, batch, InputBinding::Outputs::kAbsent, compute_dtype_, {.sequences = whole});
    counts.push_back(counted(count_one(entry, inputs, point), whole));
  }
  return counts;
}

std::vector<at::Tensor> LossSet::count(const MicrobatchState& values,
                                       const Batch& batch,
                                       const CallPoint& point) {
  std::vector<at::Tensor> counts;
  for (Entry& entry : entries_) {
    const SeenWhole whole = seen_whole(entry, values, batch);
    const BoundInputs inputs = entry.binding.gather(
        &values, batch, InputBinding::Outputs::kDetached, compute_dtype_, whole);
    const TensorRegionScope region(new_region(entry, values.tensor()));
    counts.push_back(counted(count_one(entry, inputs, point), whole.sequences));
  }
  return counts;
}

std::vector<at::Tensor> LossSet::compute(const MicrobatchState& values,
                                         const Batch& batch,
                                         const CallPoint& point,
                                         LossCalls& calls,
                                         std::vector<SourceSums>* by_source) {
  calls.clear();
  std::vector<at::Tensor> sums;
  for (Entry& entry : entries_) {
    const TraceSpan span("compute of loss", entry.loss.name);
    const LossProxy& proxy = entry.loss.proxy;
    const SeenWhole whole = seen_whole(entry, values, batch);
    TensorRegionPtr region = new_region(entry, values.tensor());
    const TensorRegionScope scope(region);
    BoundInputs inputs = entry.binding.gather(
        &values,
        batch,
        point.is_train ? InputBinding::Outputs::kLeaves : InputBinding::Outputs::kDetached,
        compute_dtype_,
        whole);
    entry.frame.move_to(point);
    if (by_source != nullptr) {  // before the call that `backward` follows
      add_by_source(sums.size(), inputs, batch, *by_source);
    }
    const at::AutoGradMode mode(point.is_train && !proxy.has_backward());
    at::Tensor sum =
        take_handle(proxy.compute(entry.frame.exec(), inputs.handles(), inputs.size()));
    const at::ScalarType least = compute_dtype_ == at::kDouble ? at::kDouble : at::kFloat;
    if (sum.numel() != 1 || !sum.is_floating_point() || sum.is_meta() ||
        c10::elementSize(sum.scalar_type()) < c10::elementSize(least)) {
      proxy.instance().identity().fail_result(
          "compute returned " + text_of(sum) + "; it must return a scalar of " +
          c10::toString(least) + ", whatever the dtype of its inputs");
    }
    if (point.is_train && !proxy.has_backward() && inputs.has_leaf() && !sum.requires_grad() &&
        sum.item<double>() != 0) {
      proxy.instance().identity().fail_result(
          "compute returned a sum that autograd has not recorded, and the loss has no backward, so "
          "there is no gradient and nothing would be trained; compute the sum with operators on "
          "the "
          "inputs, or implement backward");
    }
    sums.push_back(counted(as_scalar(sum.requires_grad() ? sum.detach() : sum), whole.sequences));
    if (point.is_train) {
      calls.push_back({std::move(inputs), std::move(sum), whole, std::move(region)});
    }
  }
  return sums;
}

// Uses the inputs of the whole call, as views.
void LossSet::add_by_source(size_t i,
                            const BoundInputs& inputs,
                            const Batch& batch,
                            std::vector<SourceSums>& to) {
  const at::AutoGradMode no_grad(false);
  Entry& entry = entries_[i];
  const LossProxy& proxy = entry.loss.proxy;
  for (const BatchRange& range : ranges_by_source(batch)) {
    auto of = std::ranges::find(to, range.part, &SourceSums::part);
    if (of == to.end()) {
      const std::vector<at::Tensor> zeros(entries_.size(), at::zeros({}, at::kDouble));
      of = to.insert(to.end(), {.part = range.part, .sums = zeros, .counts = zeros});
    }
    const BoundInputs part = entry.binding.range_of(inputs, batch, range);
    const at::Tensor count =
        take_handle(proxy.count(entry.frame.exec(), part.handles(), part.size()));
    const at::Tensor sum =
        take_handle(proxy.compute(entry.frame.exec(), part.handles(), part.size()));
    of->sums[i] = of->sums[i] + as_scalar(sum.detach()).to(at::kDouble);
    of->counts[i] = of->counts[i] + as_scalar(count);
  }
}

void LossSet::backward(MicrobatchState& values,
                       const CallPoint& point,
                       LossCalls& calls,
                       const std::vector<at::Tensor>& seeds) {
  const at::AutoGradMode no_grad(false);
  for (size_t i = entries_.size(); i-- > 0;) {
    Entry& entry = entries_[i];
    entry.frame.move_to(point);
    const LossCall call = std::move(calls[i]);
    const TraceSpan span("backward of loss", entry.loss.name);
    const LossProxy& proxy = entry.loss.proxy;
    std::vector<size_t> wanted;
    std::vector<at::Tensor> leaves;
    for (size_t k = 0; k < call.inputs.size(); ++k) {
      if (call.inputs[k].defined() && call.inputs[k].requires_grad()) {
        wanted.push_back(k);
        leaves.push_back(call.inputs[k]);
      }
    }
    const at::Tensor seed = seed_like(call.sum, seeds[i]);
    std::vector<at::Tensor> grads(wanted.size());
    const TensorRegionScope region(call.region);
    if (proxy.has_backward()) {
      OwnHandles handles(call.inputs.size());
      proxy.backward(entry.frame.exec(),
                     call.inputs.handles(),
                     call.inputs.size(),
                     borrow(seed),
                     handles.data());
      std::vector<at::Tensor> all = handles.take(proxy.instance().identity(), "backward");
      for (size_t k = 0; k < wanted.size(); ++k) {
        grads[k] = std::move(all[wanted[k]]);
        if (grads[k].defined() &&
            (grads[k].sizes() != leaves[k].sizes() || grads[k].device() != leaves[k].device() ||
             !grads[k].is_floating_point())) {
          proxy.instance().identity().fail_result(
              formatted("backward returned the gradient {} for input number {}, which is {}",
                        text_of(grads[k]),
                        wanted[k],
                        text_of(leaves[k])));
        }
      }
    } else if (!leaves.empty() && call.sum.requires_grad()) {
      try {
        grads = plugin_gradients(proxy.instance().identity(), {call.sum}, leaves, {seed});
      } catch (const Error& error) {
        throw error.with_context("backward of " + loss_text(entry.loss));
      }
    }
    for (size_t k = wanted.size(); k-- > 0;) {
      if (grads[k].defined()) {
        at::Tensor grad = entry.binding.part_of(wanted[k], std::move(grads[k]), call.whole);
        values.add_grad_of_part(*entry.binding.value(wanted[k]), std::move(grad));
      }
    }
  }
  calls.clear();
}

}  // namespace tenon
