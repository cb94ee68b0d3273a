// SPDX-License-Identifier: Apache-2.0
#include "host/model/parametrization_start.hpp"

#include "host/error/error.hpp"
#include "host/plugin/parametrization_proxy.hpp"
#include "host/tensor/initializer.hpp"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <numeric>

namespace tenon {
namespace {

// The whole tensors of one parametrization, on the CPU.
class WholeTensors {
 public:
  WholeTensors(ParameterStore& store, ShardedParameters& sharded)
      : store_(store), sharded_(sharded) {}

  std::vector<at::Tensor> reals(const ModelParametrization& made) {
    std::map<size_t, std::vector<at::Tensor>> groups;
    std::vector<at::Tensor> whole;
    for (const uint32_t p : made.reals) {
      const ParameterStore::Position& position = store_.position(p);
      auto& group = groups[position.group];
      if (group.empty()) {
        group = sharded_.gather_stored(store_.groups()[position.group]);
      }
      whole.push_back(
          group[position.entry].to(at::TensorOptions().device(at::kCPU), false, /*copy=*/true));
    }
    return whole;
  }

  std::vector<at::Tensor> buffers(const ModelParametrization& made) const {
    std::vector<at::Tensor> whole;
    for (const uint32_t b : made.buffers) {
      whole.push_back(
          store_.buffer(b).to(at::TensorOptions().device(at::kCPU), false, /*copy=*/true));
    }
    return whole;
  }

  // Keeps this rank's part.
  void keep_reals(const ModelParametrization& made, const std::vector<at::Tensor>& whole) {
    for (size_t i = 0; i < made.reals.size(); ++i) {
      const ParameterStore::Position& position = store_.position(made.reals[i]);
      FlatGroup& group = store_.groups()[position.group];
      const FlatPart& part = group.part(position.entry);
      group.data().narrow(0, part.in_slice, part.length()).copy_(values_of(part.piece, whole[i]));
    }
  }

  void keep_buffers(const ModelParametrization& made, const std::vector<at::Tensor>& whole) {
    for (size_t i = 0; i < made.buffers.size(); ++i) {
      store_.buffer(made.buffers[i]).copy_(whole[i]);
    }
  }

 private:
  ParameterStore& store_;
  ShardedParameters& sharded_;
};

template <class Body>
void with_name(const ModelGraph& graph, const ModelParametrization& made, Body body) {
  try {
    body();
  } catch (const Error& error) {
    throw error.with_context("parameter '" + graph.parameters[made.parameter].name + "'");
  }
}

}  // namespace

std::vector<uint32_t> all_parametrizations(const ModelGraph& graph) {
  std::vector<uint32_t> all(graph.parametrizations.size());
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

UnstoredValue drawn_value(const ParameterStore& store, uint64_t seed) {
  return [&store, seed](uint32_t k) {
    const ModelParametrization& made = store.graph().parametrizations[k];
    const ModelParameter& parameter = store.graph().parameters[made.parameter];
    at::Tensor value =
        at::empty(made.shape, at::TensorOptions().dtype(store.stored_dtype(made.dtype)));
    fill_init(parameter.init,
              parameter.init_a,
              parameter.init_b,
              seed,
              parameter.name,
              TensorPiece(made.shape),
              value);
    return value;
  };
}

void start_parametrizations(const std::vector<uint32_t>& which,
                            ParameterStore& store,
                            ShardedParameters& sharded,
                            const ExecBase& base,
                            const UnstoredValue& unstored) {
  if (which.empty()) {
    return;
  }
  const at::AutoGradMode no_grad(false);
  sharded.resolve();
  WholeTensors tensors(store, sharded);
  for (const uint32_t k : which) {
    const ModelParametrization& made = store.graph().parametrizations[k];
    std::vector<at::Tensor> reals = tensors.reals(made);
    std::vector<at::Tensor> buffers = tensors.buffers(made);
    at::Tensor value;
    for (size_t i = 0; i < made.reals.size(); ++i) {
      if (made.reals[i] == made.parameter) {
        value = reals[i].clone();
      }
    }
    if (!value.defined()) {
      value = unstored(k);
    }
    const ExecFrame frame(made.proxy->instance().host(), base);
    with_name(store.graph(), made, [&] { made.proxy->start(frame.exec(), value, reals, buffers); });
    tensors.keep_reals(made, reals);
    tensors.keep_buffers(made, buffers);
  }
  sharded.publish();
}

}  // namespace tenon
