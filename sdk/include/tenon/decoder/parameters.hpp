// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a decoder's blocks: declared with their tensors in files, and read by a block
// in the same order.
#ifndef TENON_DECODER_PARAMETERS_HPP
#define TENON_DECODER_PARAMETERS_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/weights_layout.hpp>
#include <tenon/decoder/spec.hpp>
#include <tenon/torch/model.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* The tensor of files that has a parameter, or a slice of one. */
struct DecoderTensor {
  std::string tensor;
  std::string parameter;
  uint32_t flags = 0;
  int64_t first = 0; /* its first row in the tensor */
  int64_t index = 0; /* the slice, with TENON_LAYOUT_SLICE */
};

/* How a matrix [out, in] is declared, beside its name. */
struct DecoderMatrix {
  int64_t out = 0;
  int64_t in = 0;
  uint32_t axis = 0; /* that ranks may divide, into `units` */
  int64_t units = 1;
  double deviation = 0.02;
  /* Tensor of files that holds it from row `first` on; empty: its own. Without ".weight". */
  std::string tensor = {};
  int64_t first = 0;
  uint32_t flags = TENON_PARAM_LINEAR;
};

/* Declares parameters and their tensors in files. Names lack ".weight" and ".bias".
 *
 * Errors   those of the graph
 * Threads  [main], during `describe` */
class DecoderParameters {
 public:
  DecoderParameters(TorchGraph& graph, std::vector<DecoderTensor>& tensors)
      : graph_(&graph), tensors_(&tensors) {}

  /* The names that follow are relative to this one; matrices are transposed in files if
   * `is_transposed`. */
  void enter(std::string prefix, bool is_transposed) {
    prefix_ = std::move(prefix);
    is_transposed_ = is_transposed;
  }

  void matrix(const std::string& name, const DecoderMatrix& m) {
    const std::string parameter = prefix_ + name + ".weight";
    const std::string tensor = m.tensor.empty() ? parameter : prefix_ + m.tensor + ".weight";
    tensors_->push_back(
        {tensor, parameter, is_transposed_ ? uint32_t{TENON_LAYOUT_TRANSPOSED} : 0U, m.first, 0});
    ids_.push_back(graph_->parameter(parameter,
                                     {m.out, m.in},
                                     Init::normal(0.0, m.deviation),
                                     m.flags,
                                     {m.axis, {m.axis == 0 ? m.out : m.in}, {m.units}}));
  }
  /* A bias of `n` outputs that ranks divide into `units`; 0: each has all of it. */
  void bias(const std::string& name, int64_t n, int64_t units) {
    const Split split = units == 0 ? Split{} : Split{0, {n}, {units}};
    vector(name + ".bias", n, Init::zeros(), split);
  }
  void norm(const std::string& name, int64_t n, NormKind kind) {
    vector(name + ".weight", n, kind == NormKind::kRmsPlusOne ? Init::zeros() : Init::ones(), {});
    if (kind == NormKind::kLayer) {
      vector(name + ".bias", n, Init::zeros(), {});
    }
  }
  /* The matrices [out, in] of all experts, [X, out, in]. Files have one tensor for each, named
   * `experts` + number + "." + `in_files` + ".weight". */
  void expert_matrix(const std::string& experts,
                     const std::string& in_files,
                     int64_t num_experts,
                     int64_t out,
                     int64_t in,
                     double deviation) {
    const std::string parameter = prefix_ + experts + in_files + ".weight";
    for (int64_t i = 0; i < num_experts; ++i) {
      tensors_->push_back({prefix_ + experts + std::to_string(i) + "." + in_files + ".weight",
                           parameter,
                           TENON_LAYOUT_SLICE,
                           0,
                           i});
    }
    ids_.push_back(
        graph_->parameter(parameter, {num_experts, out, in}, Init::normal(0.0, deviation)));
  }
  /* Maps a buffer to a tensor of files. */
  void map_buffer(const std::string& name) { tensors_->push_back({name, name, 0, 0, 0}); }
  /* A parameter that an earlier block has declared. */
  void reuse(ParameterId id) { ids_.push_back(id); }
  const std::vector<ParameterId>& so_far() const { return ids_; }

  /* Returns the parameters since the last call: those of the next block. */
  std::vector<ParameterId> take() { return std::exchange(ids_, {}); }

 private:
  void vector(const std::string& name, int64_t n, Init init, const Split& split) {
    tensors_->push_back({prefix_ + name, prefix_ + name, 0, 0, 0});
    ids_.push_back(graph_->parameter(prefix_ + name, {n}, init, TENON_PARAM_NO_DECAY, split));
  }

  TorchGraph* graph_;
  std::vector<DecoderTensor>* tensors_;
  std::vector<ParameterId> ids_;
  std::string prefix_;
  bool is_transposed_ = false;
};

/* Reads the parameters of a block in the order in which they were declared. `Call` is a BlockCall
 * or a GenerationCall, which must outlive the cursor. */
class ParameterCursor {
 public:
  template <class Call>
  explicit ParameterCursor(const Call& call)
      : call_(&call), parameter_([](const void* of, size_t i) -> const at::Tensor& {
          return static_cast<const Call*>(of)->parameter(i);
        }) {}

  const at::Tensor& take() { return parameter_(call_, next_++); }
  ops::OptionalTensor take_if(bool is_there) {
    return is_there ? ops::OptionalTensor(take()) : ops::OptionalTensor();
  }
  /* Takes the parameters of a norm, and applies it to the last axis of `x`. */
  at::Tensor norm(NormKind kind, double eps, const at::Tensor& x) {
    const at::Tensor& weight = take();
    switch (kind) {
      case NormKind::kRmsPlusOne:
        return ops::rms_norm(x, weight + 1.0, eps);
      case NormKind::kLayer:
        return ops::layer_norm(x, weight, take(), eps);
      case NormKind::kRms:
        break;
    }
    return ops::rms_norm(x, weight, eps);
  }

 private:
  const void* call_;
  const at::Tensor& (*parameter_)(const void* call, size_t i);
  size_t next_ = 0;
};

TENON_NAMESPACE_END

#endif
