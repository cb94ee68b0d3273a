// SPDX-License-Identifier: Apache-2.0
#include "host/model/declared_flops.hpp"

#include <tenon/model.h>

#include "host/model/inferred_block.hpp"
#include "host/model/program_visitor.hpp"
#include "host/plugin/model_proxy.hpp"

#include <utility>

namespace tenon {
namespace {

void learn_axes(const ModelValue& value,
                at::IntArrayRef shape,
                std::map<std::string, int64_t>& sizes) {
  for (size_t d = 0; value.axes.has_value() && d < value.axes->size() && d < shape.size(); ++d) {
    if (!(*value.axes)[d].name.empty()) {
      sizes[(*value.axes)[d].name] = shape[d];
    }
  }
}

}  // namespace

DeclaredFlops::DeclaredFlops(ModelList models,
                             const ModelGraph& graph,
                             const ExecBase& base,
                             std::set<std::string> fields)
    : models_(std::move(models)),
      graph_(graph),
      order_(forward_order(GraphFacts(graph, [](uint32_t) { return false; }))),
      base_(base),
      fields_(std::move(fields)) {
  for (size_t i = 0; i < models_.size(); ++i) {
    frames_.emplace_back(models_[i].instance().host(), base_);
    frames_.back().move_to({.step = 1, .microbatch = 0, .is_train = i == 0});
  }
}

std::map<std::string, int64_t> DeclaredFlops::sizes_of(const Batch& batch) const {
  std::map<std::string, int64_t> sizes;
  for (const ModelValue& value : graph_.values) {
    const at::Tensor* const field =
        value.source_kind == TENON_SOURCE_BATCH ? batch.find(value.source) : nullptr;
    if (field != nullptr) {
      learn_axes(value, field->sizes(), sizes);
    }
  }
  sizes["B"] = batch.samples;
  if (batch.positions.has_value()) {
    sizes["T"] = batch.positions->whole;
  }
  return sizes;
}

std::optional<DeclaredFlops::Answer> DeclaredFlops::forward(
    const std::map<std::string, int64_t>& sizes, std::span<const int64_t> lengths) {
  std::map<std::string, int64_t> known = sizes;
  std::vector<std::optional<Shape>> shapes(graph_.values.size());
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    if (graph_.values[v].maker == kNoIndex && !is_absent(graph_.values[v])) {
      shapes[v] = shape_of(graph_.values[v], known);
    }
  }
  Answer answer;
  for (const uint32_t b : order_) {
    if (!ask(b, shapes, known, lengths, answer)) {
      return std::nullopt;
    }
  }
  return answer;
}

bool DeclaredFlops::is_absent(const ModelValue& value) const {
  return value.is_optional && value.source_kind == TENON_SOURCE_BATCH &&
         !fields_.contains(value.source);
}

std::optional<DeclaredFlops::Shape> DeclaredFlops::shape_of(
    const ModelValue& value, const std::map<std::string, int64_t>& sizes) const {
  if (!value.axes.has_value()) {
    return std::nullopt;
  }
  Shape shape;
  for (const Axis& axis : *value.axes) {
    const auto known = sizes.find(axis.name);
    if (axis.size < 0 && (axis.name.empty() || known == sizes.end())) {
      return std::nullopt;
    }
    shape.push_back(axis.size >= 0 ? axis.size : known->second);
  }
  return shape;
}

// Returns the shapes of a block's inputs, null for those that are absent, or nothing if one is
// unknown.
std::optional<std::vector<const DeclaredFlops::Shape*>> DeclaredFlops::gather(
    const ModelBlock& block, const std::vector<std::optional<Shape>>& shapes) {
  std::vector<const Shape*> inputs;
  for (const uint32_t v : block.inputs) {
    const ModelValue& value = graph_.values[v];
    if (!shapes[v].has_value() && !is_absent(value)) {
      why_not_ = "the shape of '" + value.name + "' is unknown without running the model";
      return std::nullopt;
    }
    inputs.push_back(shapes[v].has_value() ? &*shapes[v] : nullptr);
  }
  return inputs;
}

// Asks about one block, and adds what it declares. Returns false if it declares nothing.
bool DeclaredFlops::ask(uint32_t b,
                        std::vector<std::optional<Shape>>& shapes,
                        std::map<std::string, int64_t>& sizes,
                        std::span<const int64_t> lengths,
                        Answer& answer) {
  const ModelBlock& block = graph_.blocks[b];
  const ModelProxy& model = models_.of(block);
  if (!model.has_infer()) {
    why_not_ = "the model '" + model.instance().type() + "' does not implement `infer`";
    return false;
  }
  const auto inputs = gather(block, shapes);
  if (!inputs.has_value()) {
    return false;
  }
  const std::optional<InferredBlock> inferred =
      infer_block(model, block, base_, frames_[block.model].exec(), *inputs, lengths);
  if (!inferred.has_value()) {
    why_not_ = "`infer` of block '" + block.name + "' is not supported by the model";
    return false;
  }
  answer.by_block.push_back(inferred->flops);
  answer.widths.push_back(0);
  for (size_t i = 0; i < block.outputs.size(); ++i) {
    const Shape& shape = inferred->output_shapes[i];
    shapes[block.outputs[i]] = shape;
    learn_axes(graph_.values[block.outputs[i]], shape, sizes);
    if (i == 0 && !shape.empty()) {
      answer.widths.back() = shape.back();
    }
  }
  return true;
}

}  // namespace tenon
