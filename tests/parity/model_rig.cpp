// SPDX-License-Identifier: Apache-2.0
#include "tests/parity/model_rig.hpp"

#include "host/model/joined_graph.hpp"
#include "host/model/parametrization_start.hpp"
#include "host/plugin/parametrization_proxy.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"

#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/plugins/made_component.hpp"

namespace tenon {

namespace {

// Modules are built in torch's default dtype, which the host sets to the run's.
ModelProxy make_model(const std::string& type, const std::string& options, at::ScalarType dtype) {
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
  return ModelProxy(make_component("model", type, options));
}

ExecBase exec_base(at::ScalarType dtype) {
  ExecBase base;
  base.seed = 3;
  base.compute_dtype = dtype;
  base.tensors = tensor_service();
  base.ops = op_service();
  return base;
}

// All blocks, except those that compute an output beside the logits that most tests do not read.
ModelGraph graph_of(ModelProxy& proxy,
                    const std::vector<std::string>* outputs,
                    const std::function<void(ModelGraph&)>& edit) {
  ModelGraph graph = describe_model(proxy);
  if (edit) {
    edit(graph);
  }
  std::vector<uint32_t> read;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const std::string& name = graph.values[v].name;
    const bool is_read = outputs == nullptr ? name != "token_logps"
                                            : std::ranges::find(*outputs, name) != outputs->end();
    if (is_read && graph.values[v].maker != kNoIndex) {
      read.push_back(v);
    }
  }
  skip_unread_blocks(graph, read);
  return graph;
}

}  // namespace

ModelRig::ModelRig(const std::string& type,
                   const std::string& options,
                   at::ScalarType dtype,
                   RecomputeMode recompute)
    : ModelRig(type, options, dtype, recompute, nullptr, nullptr) {}

ModelRig::ModelRig(const std::string& type,
                   const std::string& options,
                   at::ScalarType dtype,
                   RecomputeMode recompute,
                   const std::vector<std::string>& outputs)
    : ModelRig(type, options, dtype, recompute, &outputs, nullptr) {}

ModelRig::ModelRig(const std::string& type,
                   const std::string& options,
                   at::ScalarType dtype,
                   RecomputeMode recompute,
                   const std::vector<std::string>& outputs,
                   const std::function<void(ModelGraph&)>& edit)
    : ModelRig(type, options, dtype, recompute, &outputs, edit) {}

ModelRig::ModelRig(const std::string& type,
                   const std::string& options,
                   at::ScalarType dtype,
                   RecomputeMode recompute,
                   const std::function<void(ModelGraph&)>& edit)
    : ModelRig(type, options, dtype, recompute, nullptr, edit) {}

ModelRig::ModelRig(const std::string& type,
                   const std::string& options,
                   at::ScalarType dtype,
                   RecomputeMode recompute,
                   const std::vector<std::string>* outputs,
                   const std::function<void(ModelGraph&)>& edit)
    : proxy_(make_model(type, options, dtype)),
      graph_(graph_of(proxy_, outputs, edit)),
      store_(graph_, {dtype, at::kCPU, [](uint32_t) { return 0U; }}),
      base_(exec_base(dtype)),
      frame_(proxy_.instance().host(), base_),
      runner_(proxy_, store_, base_, recompute, nullptr, &rows_) {
  store_.initialise(proxy_, frame_.exec(), /*seed=*/7);
  start_parametrizations();
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kFloat));
}

// On one rank, the leaves are the stored values.
void ModelRig::start_parametrizations() {
  const at::NoGradGuard guard;
  for (uint32_t k = 0; k < graph_.parametrizations.size(); ++k) {
    const ModelParametrization& made = graph_.parametrizations[k];
    at::Tensor value;
    std::vector<at::Tensor> reals;
    for (const uint32_t p : made.reals) {
      reals.push_back(store_.leaf(p).detach());
      value = p == made.parameter ? reals.back().clone() : value;
    }
    std::vector<at::Tensor> buffers;
    for (const uint32_t b : made.buffers) {
      buffers.push_back(store_.buffer(b));
    }
    const ExecFrame frame(made.proxy->instance().host(), base_);
    made.proxy->start(
        frame.exec(), value.defined() ? value : drawn_value(store_, 7)(k), reals, buffers);
  }
}

void ModelRig::forward(const std::map<std::string, at::Tensor>& fields, const CallPoint& point) {
  auto schema = std::make_shared<std::vector<FieldInfo>>();
  Batch batch;
  for (const auto& [name, tensor] : fields) {
    FieldInfo info;
    info.name = name;
    info.dtype = static_cast<uint32_t>(tensor.scalar_type());
    schema->push_back(info);
    batch.fields.push_back(tensor);
    batch.samples = tensor.size(0);
  }
  batch.schema = std::move(schema);
  runner_.forward(batch, point);
}

at::Tensor ModelRig::output(const std::string& name) {
  return runner_.value(graph_.find_output(name).value());
}

void ModelRig::backward(const std::string& output, const at::Tensor& grad) {
  backward({{output, grad}});
}

void ModelRig::backward(const std::vector<std::pair<std::string, at::Tensor>>& grads) {
  for (FlatGroup& group : store_.groups()) {
    group.clear_grads();
  }
  rows_.grads.clear();
  for (const auto& [output, grad] : grads) {
    runner_.add_grad(graph_.find_output(output).value(), grad);
  }
  runner_.backward(1);
}

void ModelRig::GivenRows::start(const Batch*, const CallPoint&, Lookup) {}

at::Tensor ModelRig::GivenRows::rows(uint32_t v, const at::Tensor&) {
  return given.at(v);
}

void ModelRig::GivenRows::take_grad(uint32_t v, const at::Tensor& grad) {
  grads[v] = grad;
}

void ModelRig::set_rows(const std::string& value, const at::Tensor& rows) {
  rows_.given[value_index(value)] = rows;
}

at::Tensor ModelRig::row_grad(const std::string& value) const {
  return rows_.grads.at(value_index(value));
}

uint32_t ModelRig::value_index(const std::string& name) const {
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    if (graph_.values[v].name == name) {
      return v;
    }
  }
  throw std::out_of_range("the model has no value " + name);
}

uint32_t ModelRig::parameter_index(const std::string& name) const {
  for (uint32_t p = 0; p < graph_.parameters.size(); ++p) {
    if (graph_.parameters[p].name == name) {
      return p;
    }
  }
  throw std::out_of_range("the model has no parameter " + name);
}

void ModelRig::set_parameter(const std::string& name, const at::Tensor& value) {
  const at::NoGradGuard guard;
  at::Tensor leaf = store_.leaf(parameter_index(name));
  if (leaf.sizes() != value.sizes()) {
    throw std::invalid_argument(name + " has another shape");
  }
  leaf.detach().copy_(value);
}

at::Tensor ModelRig::parameter(const std::string& name) const {
  return store_.leaf(parameter_index(name)).detach();
}

at::Tensor ModelRig::grad(const std::string& name) const {
  const ParameterStore::Position& position = store_.position(parameter_index(name));
  return store_.groups()[position.group].grad_view(position.entry);
}

at::Tensor ModelRig::buffer(const std::string& name) {
  for (uint32_t b = 0; b < graph_.buffers.size(); ++b) {
    if (graph_.buffers[b].name == name) {
      return store_.buffer(b);
    }
  }
  throw std::out_of_range("the model has no buffer " + name);
}

}  // namespace tenon
