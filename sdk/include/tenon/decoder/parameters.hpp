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
  uint32_t axis = 0; /* that tensor ranks may divide, into `units` */
  int64_t units = 0; /* 0: each rank has all of it */
  double deviation = 0.02;
  /* Tensor of files that holds it from row `first` on; empty: its own. Without ".weight". */
  std::string tensor = {};
  int64_t first = 0;
  uint32_t flags = TENON_PARAM_LINEAR;
  Split split = {}; /* of several parts, instead of `axis` and `units` */

  Split division() const {
    if (units == 0) {
      return split;
    }
    return {axis, {axis == 0 ? out : in}, {units}};
  }
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
    ids_.push_back(graph_->parameter(
        parameter, {m.out, m.in}, Init::normal(0.0, m.deviation), m.flags, m.division()));
  }
  /* A bias of `n` outputs that ranks divide into `units`; 0: each has all of it. */
  void bias(const std::string& name, int64_t n, int64_t units) {
    bias(name, n, units == 0 ? Split{} : Split{0, {n}, {units}});
  }
  void bias(const std::string& name, int64_t n, const Split& split) {
    vector(name + ".bias", n, Init::zeros(), split);
  }
  /* A norm of `n` features, which ranks may divide. `flags`: TENON_PARAM_INSIDE if a divided region
   * uses it undivided. */
  void norm(const std::string& name,
            int64_t n,
            NormKind kind,
            const Split& split = {},
            uint32_t flags = 0) {
    const Init init = kind == NormKind::kRmsPlusOne ? Init::zeros() : Init::ones();
    vector(name + ".weight", n, init, split, flags);
    if (kind == NormKind::kLayer) {
      vector(name + ".bias", n, Init::zeros(), split, flags);
    }
  }
  /* The matrices [out, in] of all experts, [X, out, in], which ranks divide into single rows or
   * columns: `axis` 0 or 1. Files have one tensor for each, named `experts` + number + "." +
   * `in_files` + ".weight". */
  void expert_matrix(const std::string& experts,
                     const std::string& in_files,
                     int64_t num_experts,
                     int64_t out,
                     int64_t in,
                     uint32_t axis,
                     double deviation) {
    const std::string parameter = prefix_ + experts + in_files + ".weight";
    for (int64_t i = 0; i < num_experts; ++i) {
      tensors_->push_back({prefix_ + experts + std::to_string(i) + "." + in_files + ".weight",
                           parameter,
                           TENON_LAYOUT_SLICE,
                           0,
                           i});
    }
    const int64_t width = axis == 0 ? out : in;
    ids_.push_back(graph_->parameter(parameter,
                                     {num_experts, out, in},
                                     Init::normal(0.0, deviation),
                                     0,
                                     {axis + 1, {width}, {width}}));
  }
  /* Maps a buffer to a tensor of files. */
  void map_buffer(const std::string& name) { tensors_->push_back({name, name, 0, 0, 0}); }
  /* A parameter that an earlier block has declared. */
  void reuse(ParameterId id) { ids_.push_back(id); }
  const std::vector<ParameterId>& so_far() const { return ids_; }

  /* Returns the parameters since the last call: those of the next block. */
  std::vector<ParameterId> take() { return std::exchange(ids_, {}); }

 private:
  void vector(
      const std::string& name, int64_t n, Init init, const Split& split, uint32_t flags = 0) {
    tensors_->push_back({prefix_ + name, prefix_ + name, 0, 0, 0});
    ids_.push_back(
        graph_->parameter(prefix_ + name, {n}, init, TENON_PARAM_NO_DECAY | flags, split));
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
  /* The same of `whole` features, of which this rank has those of `x` and of the parameters. */
  at::Tensor norm_over(NormKind kind, double eps, const at::Tensor& x, int64_t whole) {
    const int64_t mine = x.size(-1);
    if (mine == whole) {
      return norm(kind, eps, x);
    }
    const auto mean = [mine, whole](const at::Tensor& of) {
      return ops::sum_over(of.sum(-1, /*keepdim=*/true), mine, whole) / static_cast<double>(whole);
    };
    at::Tensor y = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
    if (kind == NormKind::kLayer) {
      y = y - mean(y);
    }
    y = y * at::rsqrt(mean(y.square()) + eps);
    const at::Tensor& weight = take();
    y = y * (kind == NormKind::kRmsPlusOne ? weight + 1.0 : weight);
    return (kind == NormKind::kLayer ? y + take() : y).to(x.scalar_type());
  }

 private:
  const void* call_;
  const at::Tensor& (*parameter_)(const void* call, size_t i);
  size_t next_ = 0;
};

TENON_NAMESPACE_END

#endif
