// SPDX-License-Identifier: Apache-2.0
#include "host/model/parameter_store.hpp"

#include <tenon/model.h>

#include "host/device/random_state.hpp"
#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/model/group_layout.hpp"
#include "host/model/state_hash.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/initializer.hpp"
#include "host/tensor/philox.hpp"
#include "host/tensor/shape_text.hpp"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/accumulate.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

// True if p is tied or used by several blocks. A materialized parameter must not be: its leaf
// belongs to one module.
bool has_own_group(const ModelGraph& graph, uint32_t p) {
  size_t users = graph.parameters[p].blocks.size();
  for (const auto& other : graph.parameters) {
    if (other.same_as == p) {
      users += other.blocks.size();
    }
  }
  return users != 1;
}

std::vector<FlatParameter> flat_parameters(const ModelGraph& graph, const GroupLayout& group) {
  std::vector<FlatParameter> parameters;
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    const ModelParameter& parameter = graph.parameters[group.parameters[i]];
    parameters.push_back({.id = group.parameters[i],
                          .partition = group.partitions[i],
                          .trainable = group.is_trainable,
                          .shape = parameter.shape,
                          .name = parameter.name,
                          .block = group.block,
                          .box = parameter.stored_part(),
                          .seen_box = parameter.seen_part()});
  }
  return parameters;
}

constexpr uint32_t kStateVersion = 1;

// Calls take(name, tensor, part) for this rank's part of each wanted parameter.
template <class Take>
void each_part(const std::vector<FlatGroup>& groups,
               const std::function<bool(uint32_t p)>& is_wanted,
               const std::string& prefix,
               Take take) {
  for (const FlatGroup& group : groups) {
    for (size_t e = 0; e < group.entries().size(); ++e) {
      const FlatParameter& parameter = group.entries()[e].parameter;
      const FlatPart& part = group.part(e);
      if (part.length() > 0 && is_wanted(parameter.id)) {
        take(state_path(prefix, "values/" + parameter.name),
             group.data_view(e),
             StatePart{.piece = part.piece,
                       .is_sliced = group.sharing().num_slices > 1,
                       .num_copies = group.sharing().num_copies,
                       .is_saved = !group.sharing().is_copy});
      }
    }
  }
}

}  // namespace

FlatSharing ParameterLayout::sharing_of(const GroupLayout& group) const {
  FlatSharing of = group.is_unsharded ? unsharded : sharing;
  const RankIndex copy = of.num_slices > 1 ? role.copy_of_slice(group.num_copies)
                                           : role.copy_of_whole(group.num_copies);
  of.is_copy = group.holders.size() > 1 && group.holders.front() != role.pipeline().index;
  of.is_counted = copy.index == 0 && !of.is_copy && !group.is_elsewhere;
  of.num_copies = group.num_copies;
  of.is_elsewhere = group.is_elsewhere;
  return of;
}

ParameterStore::ParameterStore(const ModelGraph& graph, const ParameterLayout& layout)
    : graph_(graph),
      device_(layout.device),
      built_dtype_(is_narrow(layout.dtype) ? at::kFloat : layout.dtype),
      stored_dtype_(layout.dtype),
      seen_dtype_(layout.seen_dtype.value_or(layout.dtype)),
      positions_(graph.parameters.size()),
      leaves_(graph.parameters.size()) {
  const auto laid_out = lay_out_groups(graph,
                                       {.stored = layout.dtype,
                                        .seen = layout.seen_dtype.value_or(layout.dtype),
                                        .partition_of = layout.partition_of,
                                        .is_unsharded = layout.is_unsharded,
                                        .block_of = layout.block_of});
  for (const GroupLayout& group : laid_out) {
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      positions_[group.parameters[i]] = {groups_.size(), i, group.is_trainable};
    }
    groups_.emplace_back(group.name,
                         group.stored,
                         layout.device,
                         flat_parameters(graph, group),
                         group.seen,
                         layout.sharing_of(group));
  }
  for (const auto p : c10::irange(static_cast<uint32_t>(graph.parameters.size()))) {
    if (graph.parameters[p].same_as == kNoIndex) {
      point_leaf(p);
    }
  }
  for (const auto p : c10::irange(static_cast<uint32_t>(graph.parameters.size()))) {
    const uint32_t same_as = graph.parameters[p].same_as;
    if (same_as != kNoIndex) {
      positions_[p] = positions_[same_as];
      leaves_[p] = leaves_[same_as];
    }
  }
  for (const auto& buffer : graph.buffers) {
    buffers_.push_back(at::zeros(
        buffer.shape, at::TensorOptions().dtype(seen_dtype(buffer.dtype)).device(device_)));
  }
}

at::ScalarType ParameterStore::seen_dtype(uint32_t dtype) const {
  return resolved_dtype(dtype, seen_dtype_);
}

at::ScalarType ParameterStore::stored_dtype(uint32_t dtype) const {
  return resolved_dtype(dtype, stored_dtype_);
}

// variable_data gives the leaf a separate version counter. Otherwise, autograd would reject an
// update of the buffer between the forward and backward of a block.
void ParameterStore::point_leaf(uint32_t p) {
  const Position& position = positions_[p];
  const FlatGroup& group = groups_[position.group];
  if (group.sharing().is_elsewhere) {
    return;
  }
  leaves_[p] = group.block_view(position.entry).variable_data();
  leaves_[p].set_requires_grad(position.trainable);
}

void ParameterStore::initialise(ModelProxy& model, const tenon_exec& exec, uint64_t seed) {
  draw_parameters(seed);
  build(0, model, exec, seed);
  publish();
}

void ParameterStore::initialise_further(uint32_t model,
                                        ModelProxy& proxy,
                                        const tenon_exec& exec,
                                        uint64_t seed) {
  build(model, proxy, exec, seed);
  publish();
}

void ParameterStore::build(uint32_t model,
                           ModelProxy& proxy,
                           const tenon_exec& exec,
                           uint64_t seed) {
  for (const auto b : c10::irange(static_cast<uint32_t>(graph_.blocks.size()))) {
    const ModelBlock& block = graph_.blocks[b];
    if (!block.has(TENON_BLOCK_MATERIALIZED) || block.model != model || block.is_elsewhere) {
      continue;
    }
    seed_default_generator(random_bits(seed, stream_of(block.name), 0));
    std::vector<at::Tensor> built = built_parameters(proxy, exec, b);
    for (size_t i = 0; i < built.size(); ++i) {
      adopt(block, block.parameters[i], std::move(built[i]));
    }
  }
  for (size_t i = 0; i < buffers_.size(); ++i) {
    // start_parametrizations() sets the buffers of a parametrization.
    if (graph_.buffers[i].model != model || graph_.buffers[i].is_real) {
      continue;
    }
    at::Tensor made = at::zeros(buffers_[i].sizes(), buffers_[i].options().device(at::kCPU));
    proxy.fill_buffer(exec, graph_.buffers[i].number, borrow_mutable(made));
    buffers_[i].copy_(made);
  }
}

void ParameterStore::draw_parameters(uint64_t seed) {
  for (const auto p : c10::irange(static_cast<uint32_t>(graph_.parameters.size()))) {
    const ModelParameter& parameter = graph_.parameters[p];
    if (parameter.same_as != kNoIndex || parameter.init == TENON_INIT_MODULE ||
        parameter.is_elsewhere) {
      continue;
    }
    const Position& position = positions_[p];
    FlatGroup& group = groups_[position.group];
    const FlatPart& part = group.part(position.entry);
    fill_init(parameter.init,
              parameter.init_a,
              parameter.init_b,
              seed,
              parameter.name,
              part.piece,
              group.data().narrow(0, part.in_slice, part.length()));
  }
}

std::vector<at::Tensor> ParameterStore::built_parameters(ModelProxy& model,
                                                         const tenon_exec& exec,
                                                         uint32_t b) const {
  const ModelBlock& block = graph_.blocks[b];
  return model.materialize(exec, block.number, block.parameters.size());
}

void ParameterStore::adopt(const ModelBlock& block, uint32_t p, at::Tensor built) {
  const ModelParameter& parameter = graph_.parameters[p];
  const std::string of_block = "block '" + block.name + "' built parameter '" + parameter.name;
  if (!built.defined() || built.sizes() != at::IntArrayRef(parameter.shape)) {
    throw Error("model.bad_graph",
                of_block + "' as " +
                    (built.defined() ? shape_text(built.sizes()) : std::string("nothing")) +
                    ", but declared it as " + shape_text(parameter.shape));
  }
  if (parameter.same_as != kNoIndex || has_own_group(graph_, p)) {
    throw Error("model.bad_graph",
                "parameter '" + parameter.name + "' of block '" + block.name +
                    "' is shared with another block; parameters of modules cannot be: declare it "
                    "in a block without a module");
  }
  const Position& position = positions_[p];
  FlatGroup& group = groups_[position.group];
  const FlatPart& part = group.part(position.entry);
  group.data().narrow(0, part.in_slice, part.length()).copy_(values_of(part.piece, built.detach()));
  const at::ScalarType wanted = resolved_dtype(parameter.dtype, built_dtype_);
  if (built.scalar_type() != wanted) {
    throw Error("model.bad_graph",
                of_block + "' as " + c10::toString(built.scalar_type()) + ", but declared it as " +
                    c10::toString(wanted) + "; build it with the default dtype");
  }
  built.set_data(group.block_view(position.entry).variable_data());
  built.set_requires_grad(position.trainable);
  leaves_[p] = std::move(built);
}

void ParameterStore::snapshot_model(uint32_t model,
                                    StateTree& tree,
                                    const std::string& prefix) const {
  tree.set_version(prefix, kStateVersion);
  each_part(
      groups_,
      [&](uint32_t p) { return graph_.parameters[p].model == model; },
      prefix,
      [&tree](const std::string& name, const at::Tensor& values, const StatePart& part) {
        tree.put_part(name, values, part, StateTree::Copy::kYes);
      });
  for (size_t b = 0; b < buffers_.size(); ++b) {
    if (graph_.buffers[b].kind == TENON_BUFFER_STATE && graph_.buffers[b].model == model) {
      tree.put_tensor(state_path(prefix, "buffers/" + graph_.buffers[b].name),
                      buffers_[b],
                      StateTree::Copy::kYes);
    }
  }
}

void ParameterStore::load_model(uint32_t model, const StateTree& tree, const std::string& prefix) {
  each_part(
      groups_,
      [&](uint32_t p) { return graph_.parameters[p].model == model; },
      prefix,
      [&tree](const std::string& name, const at::Tensor& values, const StatePart& part) {
        if (!tree.is_excluded(name)) {
          tree.copy_tensor(name, values, part.piece);
        }
      });
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const std::string name = state_path(prefix, "buffers/" + graph_.buffers[b].name);
    if (graph_.buffers[b].kind == TENON_BUFFER_STATE && graph_.buffers[b].model == model &&
        !tree.is_excluded(name)) {
      tree.copy_tensor(name, buffers_[b]);
    }
  }
}

void ParameterStore::set_buffer(uint32_t b, const at::Tensor& value) {
  at::Tensor next = at::empty(buffers_[b].sizes(), buffers_[b].options());
  next.copy_(value.detach());
  replace_buffer(b, std::move(next));
}

void ParameterStore::keep_buffers() {
  kept_buffers_.resize(buffers_.size());
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (is_state(static_cast<uint32_t>(i))) {
      kept_buffers_[i] = buffers_[i];  // a step replaces it, and does not write into it
    }
  }
}

void ParameterStore::restore_buffers(const at::Tensor& is_wanted) {
  for (size_t i = 0; i < kept_buffers_.size(); ++i) {
    if (kept_buffers_[i].defined()) {
      buffers_[i] = is_wanted.defined() ? at::where(is_wanted.eq(1), kept_buffers_[i], buffers_[i])
                                        : kept_buffers_[i];
    }
  }
}

void ParameterStore::swap_kept_buffers() {
  for (size_t i = 0; i < kept_buffers_.size(); ++i) {
    if (kept_buffers_[i].defined()) {
      std::swap(buffers_[i], kept_buffers_[i]);
    }
  }
}

namespace {

void add_tensor(StateHash& hash, const std::string& name, const at::Tensor& value) {
  hash.add(name.data(), name.size());
  const at::Tensor bytes = value.detach().cpu().contiguous();
  hash.add(bytes.const_data_ptr(), bytes.nbytes());
}

}  // namespace

std::string ParameterStore::hash_of_model(uint32_t model, const WholeOfGroup& whole_of) {
  std::vector<std::string> by_parameter(positions_.size());
  for (FlatGroup& group : groups_) {
    // A group has parameters of one model.
    if (graph_.parameters[group.entries().front().parameter.id].model != model) {
      continue;
    }
    const std::vector<at::Tensor> whole = whole_of(group);
    for (size_t e = 0; e < whole.size(); ++e) {
      const FlatParameter& parameter = group.entries()[e].parameter;
      TENON_ASSERT(whole[e].numel() == c10::multiply_integers(parameter.shape),
                   "the hash of a model is that of whole parameters");
      StateHash hash;
      add_tensor(hash, parameter.name, whole[e]);
      by_parameter[parameter.id] = hash.text();
    }
  }
  StateHash hash;
  for (const std::string& text : by_parameter) {
    hash.add(text.data(), text.size());
  }
  for (size_t b = 0; b < buffers_.size(); ++b) {
    if (graph_.buffers[b].kind == TENON_BUFFER_STATE && graph_.buffers[b].model == model) {
      add_tensor(hash, graph_.buffers[b].name, buffers_[b]);
    }
  }
  return hash.text();
}

std::string ParameterStore::hash() {
  return hash([](FlatGroup& group) {
    std::vector<at::Tensor> whole;
    for (size_t e = 0; e < group.entries().size(); ++e) {
      whole.push_back(group.data_view(e));
    }
    return whole;
  });
}

std::string ParameterStore::hash_of_slices(uint32_t num_copies) const {
  StateHash hash;
  for (const FlatGroup& group : groups_) {
    if (group.sharing().num_copies == num_copies) {
      add_tensor(hash, group.name(), group.data());
    }
  }
  for (size_t b = 0; b < buffers_.size(); ++b) {
    add_tensor(hash, graph_.buffers[b].name, buffers_[b]);
  }
  return hash.text();
}

void ParameterStore::publish() {
  const at::AutoGradMode no_grad(false);
  for (FlatGroup& group : groups_) {
    group.publish();
  }
}

GraphFacts facts_of(const ParameterStore& store) {
  return GraphFacts(store.graph(), [&store](uint32_t p) { return store.is_trainable(p); });
}

}  // namespace tenon
