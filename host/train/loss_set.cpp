// SPDX-License-Identifier: Apache-2.0
#include "host/train/loss_set.hpp"

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/tensor/field_match.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

namespace tenon {

struct LossSet::Binding {
  Port port;
  std::optional<uint32_t> value;  // of the model; else a batch field
  std::string field;
  bool is_mapped = false;
};

struct LossSet::Entry {
  NamedLoss loss;
  ExecFrame frame;
  std::vector<Binding> bindings;
  // Of the call under way.
  std::vector<at::Tensor> inputs;
  std::vector<const tenon_tensor*> handles;
  at::Tensor sum;
};

namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "nothing" : text;
}

std::string loss_text(const NamedLoss& loss) {
  return "loss '" + loss.name + "' (" + loss.proxy.instance().type() + ")";
}

Described described(const Port& port) {
  return {port.dtype, port.axes.has_value() ? &*port.axes : nullptr};
}

}  // namespace

LossSet::LossSet(std::vector<NamedLoss> losses,
                 const ModelGraph& graph,
                 const std::string& model_name,
                 const ExecBase& base)
    : graph_(graph), compute_dtype_(base.compute_dtype) {
  for (NamedLoss& loss : losses) {
    for (const auto& [port, target] : loss.inputs) {
      const auto& ports = loss.proxy.info().ports;
      if (std::none_of(ports.begin(), ports.end(), [&, &name = port](const Port& p) {
            return p.name == name;
          })) {
        std::vector<std::string> names;
        names.reserve(ports.size());
        for (const Port& p : ports) {
          names.push_back(p.name);
        }
        throw Error(
            "loss.unknown_input",
            loss_text(loss) + " has no input '" + port + "'; its inputs are " + joined(names));
      }
    }
    std::vector<Binding> bindings;
    for (const Port& port : loss.proxy.info().ports) {
      Binding binding{port, std::nullopt, port.name, false};
      const auto mapped = loss.inputs.find(port.name);
      if (mapped != loss.inputs.end()) {
        binding.is_mapped = true;
        binding.field = mapped->second;
        const std::string prefix = model_name + ".";
        if (mapped->second.starts_with(prefix)) {
          binding.value = graph.find_output(mapped->second.substr(prefix.size()));
          if (!binding.value.has_value()) {
            throw Error("loss.unknown_input",
                        loss_text(loss) + " wants '" + mapped->second +
                            "', but the outputs of model '" + model_name + "' are " +
                            joined(graph.output_names()));
          }
        }
      }
      if (!binding.value.has_value()) {
        binding.value = graph.find_output(binding.field);
      }
      if (binding.value.has_value()) {
        const ModelValue& value = graph.values[*binding.value];
        const Described have{value.dtype, value.axes.has_value() ? &*value.axes : nullptr};
        if (const auto difference = mismatch(have, described(port))) {
          throw Error("loss.input_mismatch",
                      "input '" + port.name + "' of " + loss_text(loss) +
                          " and the model's output '" + value.name + "' differ: " + *difference);
        }
      }
      bindings.push_back(std::move(binding));
    }
    ExecFrame frame(loss.proxy.instance().host(), base);
    entries_.push_back({std::move(loss), frame, std::move(bindings), {}, {}, {}});
  }
}

LossSet::~LossSet() = default;

void LossSet::check_fields(const std::vector<FieldInfo>& fields, const std::string& dataset) const {
  for (const Entry& entry : entries_) {
    for (const Binding& binding : entry.bindings) {
      if (binding.value.has_value()) {
        continue;
      }
      const auto at = find_field(fields, binding.field);
      if (!at.has_value()) {
        if (binding.port.is_optional() && !binding.is_mapped) {
          continue;
        }
        std::vector<std::string> names;
        names.reserve(fields.size());
        for (const FieldInfo& field : fields) {
          names.push_back(field.name);
        }
        throw Error("loss.unknown_input",
                    loss_text(entry.loss) + " reads '" + binding.field +
                        "', which is neither an output of the model (" +
                        joined(graph_.output_names()) + ") nor a field of " + dataset + " (" +
                        joined(names) + "); map it with \"inputs\"");
      }
      const FieldInfo& field = fields[*at];
      if (const auto difference = mismatch({field.dtype, &field.axes}, described(binding.port))) {
        throw Error("loss.input_mismatch",
                    "input '" + binding.port.name + "' of " + loss_text(entry.loss) +
                        " and the field '" + field.name + "' of " + dataset +
                        " differ: " + *difference);
      }
    }
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

bool LossSet::count_from_batch() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& e) {
    return e.loss.proxy.info().counts_from_batch;
  });
}

// Fills the call's inputs. Without a runner the model's outputs are left out.
void LossSet::gather(Entry& entry, const ModelRunner* runner, const Batch& batch, bool record) {
  entry.inputs.clear();
  for (const Binding& binding : entry.bindings) {
    at::Tensor input;
    if (binding.value.has_value()) {
      if (runner != nullptr) {
        input = runner->value(*binding.value).detach();
        if (record && runner->needs_grad(*binding.value) && input.is_floating_point()) {
          input.set_requires_grad(true);
        }
      }
    } else if (const at::Tensor* field = batch.find(binding.field)) {
      input = *field;
      if (binding.port.dtype == TENON_CLASS_COMPUTE && input.defined() &&
          input.is_floating_point()) {
        input = input.to(compute_dtype_);
      }
    }
    entry.inputs.push_back(std::move(input));
  }
  entry.handles.clear();
  for (const at::Tensor& input : entry.inputs) {
    entry.handles.push_back(input.defined() ? borrow(input) : nullptr);
  }
}

at::Tensor LossSet::count_one(Entry& entry, const CallPlace& place) {
  const at::AutoGradMode no_grad(false);
  entry.frame.move_to(place);
  at::Tensor count = take_handle(
      entry.loss.proxy.count(entry.frame.exec(), entry.handles.data(), entry.handles.size()));
  if (count.numel() != 1) {
    entry.loss.proxy.instance().identity().fail_result("count gave a tensor that is no scalar");
  }
  return count.reshape({}).to(at::kDouble);
}

std::vector<at::Tensor> LossSet::count(const Batch& batch, const CallPlace& place) {
  std::vector<at::Tensor> counts;
  for (Entry& entry : entries_) {
    gather(entry, nullptr, batch, false);
    counts.push_back(count_one(entry, place));
  }
  return counts;
}

std::vector<at::Tensor> LossSet::count(const ModelRunner& runner,
                                       const Batch& batch,
                                       const CallPlace& place) {
  std::vector<at::Tensor> counts;
  for (Entry& entry : entries_) {
    gather(entry, &runner, batch, false);
    counts.push_back(count_one(entry, place));
  }
  return counts;
}

std::vector<at::Tensor> LossSet::compute(const ModelRunner& runner,
                                         const Batch& batch,
                                         const CallPlace& place) {
  std::vector<at::Tensor> sums;
  for (Entry& entry : entries_) {
    const LossProxy& proxy = entry.loss.proxy;
    gather(entry, &runner, batch, place.is_train);
    entry.frame.move_to(place);
    const at::AutoGradMode mode(place.is_train && !proxy.has_backward());
    entry.sum =
        take_handle(proxy.compute(entry.frame.exec(), entry.handles.data(), entry.handles.size()));
    if (entry.sum.numel() != 1 || !entry.sum.is_floating_point()) {
      proxy.instance().identity().fail_result("compute must give a floating-point scalar");
    }
    sums.push_back(entry.sum.detach().reshape({}));
    if (!place.is_train) {
      entry.inputs.clear();
      entry.sum.reset();
    }
  }
  return sums;
}

void LossSet::backward(ModelRunner& runner, const std::vector<at::Tensor>& seeds) {
  const at::AutoGradMode no_grad(false);
  for (size_t i = entries_.size(); i-- > 0;) {
    Entry& entry = entries_[i];
    const LossProxy& proxy = entry.loss.proxy;
    std::vector<size_t> wanted;
    std::vector<at::Tensor> leaves;
    for (size_t k = 0; k < entry.inputs.size(); ++k) {
      if (entry.inputs[k].defined() && entry.inputs[k].requires_grad()) {
        wanted.push_back(k);
        leaves.push_back(entry.inputs[k]);
      }
    }
    const at::Tensor seed = seeds[i].to(entry.sum.scalar_type()).view_as(entry.sum);
    std::vector<at::Tensor> grads(wanted.size());
    if (proxy.has_backward()) {
      std::vector<tenon_tensor*> handles(entry.inputs.size(), nullptr);
      std::vector<HandleGuard> guards;
      const auto take_all = [&] {
        for (tenon_tensor* handle : handles) {
          guards.emplace_back(handle);
        }
      };
      try {
        proxy.backward(entry.frame.exec(),
                       entry.handles.data(),
                       entry.handles.size(),
                       borrow(seed),
                       handles.data());
      } catch (...) {
        take_all();
        throw;
      }
      take_all();
      for (size_t k = 0; k < wanted.size(); ++k) {
        grads[k] = guards[wanted[k]].take();
        if (grads[k].defined() && grads[k].sizes() != leaves[k].sizes()) {
          proxy.instance().identity().fail_result(
              "backward gave a gradient of another shape than the input");
        }
      }
    } else if (!leaves.empty() && entry.sum.requires_grad()) {
      try {
        grads =
            torch::autograd::grad({entry.sum}, leaves, {seed}, false, false, /*allow_unused=*/true);
      } catch (const c10::Error& error) {
        throw Error("plugin.failed",
                    "backward of " + loss_text(entry.loss) + ": " + error.what_without_backtrace());
      }
    }
    for (size_t k = wanted.size(); k-- > 0;) {
      if (grads[k].defined()) {
        runner.add_grad(*entry.bindings[wanted[k]].value, std::move(grads[k]));
      }
    }
    entry.inputs.clear();
    entry.sum.reset();
  }
}

}  // namespace tenon
