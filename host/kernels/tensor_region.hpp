// SPDX-License-Identifier: Apache-2.0
//
// The part of a block that ranks of a tensor group compute together, each with its part of the
// parameters, and the operators at its borders. Knows no engine: a higher folder sends the bytes.
//
//   operator           forward                                      gradient
//   tensor_in(x)       identity; with pieces of T: gather           sum over ranks; with pieces:
//                                                                   reduce-scatter
//   tensor_out(x)      sum over ranks; with pieces: reduce-scatter  identity; with pieces: gather
//   sum_over(x, m, w)  sum over ranks, each unit once               the same sum
//   max_over(x)        maximum over ranks                           none
//
// Each border is the adjoint of the other: a hand-written backward calls tensor_out where its
// forward called tensor_in, and the reverse. All ranks make the same calls in the same order.
// Without a region, and in a group of one rank, the operators return their input, converted as
// autocast says for tensor_in.
//
// Source: docs/decisions/0089-collectives-in-blocks.md; f and g of Shoeybi et al., Megatron-LM
// (2019), section 3; pieces of T: Korthikanti et al., Reducing Activation Recomputation in Large
// Transformer Models (2022), section 4.2.
// Threads: the region of a call is that of the thread; nodes of autograd keep it, since a backward
// may run on another thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// The ranks of a tensor group. Calls wait.
class TensorRanks {
 public:
  virtual ~TensorRanks() = default;
  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  // Replaces `whole` by its sum over ranks; narrow dtypes are added in fp32 and rounded once. The
  // same bits on all ranks.
  // Shapes  whole: contiguous
  // Errors  those of the engine, for these functions
  virtual void sum(at::Tensor& whole, std::string_view what) = 0;
  // Replaces `whole` by its maximum over ranks.
  virtual void max(at::Tensor& whole, std::string_view what) = 0;
  // Returns the tensors of all ranks, in rank order.
  // Shapes  part: contiguous, the same number of elements on all ranks
  virtual std::vector<at::Tensor> gather(const at::Tensor& part, std::string_view what) = 0;
  // Returns the sum over ranks of the r-th tensor that each passes, r being this rank.
  // Shapes  for_ranks [size()], contiguous, of equal sizes
  virtual at::Tensor sum_scatter(const std::vector<at::Tensor>& for_ranks,
                                 std::string_view what) = 0;
};

// What the operators know of a call of a block. Nodes of autograd share it.
struct TensorRegion : torch::CustomClassHolder {
  TensorRanks* ranks = nullptr;  // borrowed until the last backward
  std::string block;             // for errors and names of collectives
  // Positions of T that each rank holds outside of the region; empty: all hold all.
  std::vector<int64_t> pieces;
  std::atomic<int> number{0};  // of the operators called so far in the forward

  bool has_pieces() const { return !pieces.empty(); }
};
using TensorRegionPtr = c10::intrusive_ptr<TensorRegion>;

// Until its end, calls of the thread are in `region`; null: in none.
class TensorRegionScope {
 public:
  explicit TensorRegionScope(TensorRegionPtr region);
  ~TensorRegionScope();
  TensorRegionScope(const TensorRegionScope&) = delete;
  TensorRegionScope& operator=(const TensorRegionScope&) = delete;

 private:
  TensorRegionPtr before_;
};

// The region of this thread, if it has one of several ranks; else null.
const TensorRegionPtr& tensor_region();

// Errors  c10::Error, with block, rank and positions, if axis 1 has another size than T, or its
//         piece
at::Tensor tensor_in(const at::Tensor& x);
at::Tensor tensor_out(const at::Tensor& x);
// Returns the sum over ranks of `x`, which this rank computed over `mine` of `whole` elements; each
// element counts once, although several ranks may have it.
at::Tensor sum_over(const at::Tensor& x, int64_t mine, int64_t whole);
at::Tensor max_over(const at::Tensor& x);

// ---- divided classes: this rank has rows [rank * V / t, ...) of a weight of `whole` rows V ----

// This rank's term of embedding(): rows of ids that it lacks are 0, and the sum over ranks is the
// embedding. If `whole` is the number of rows that this rank has, it is embedding().
// Shapes  weight [whole / t, D], ids integers [...], the result [..., D]
at::Tensor embedding_over(const at::Tensor& weight, const at::Tensor& ids, int64_t whole);
// cross_entropy() and token_logps() (head_loss.hpp) of x, in the region, and divided classes. The
// result is the same on all ranks, and whole: it leaves the region by itself. The gradient of x is
// this rank's term, as of any product in the region.
at::Tensor cross_entropy_over(const at::Tensor& x,
                              const at::Tensor& weight,
                              const at::Tensor& labels,
                              int64_t whole,
                              const std::optional<at::Tensor>& bias,
                              int64_t ignore_index,
                              double label_smoothing,
                              double z_loss);
at::Tensor token_logps_over(const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& labels,
                            int64_t whole,
                            const std::optional<at::Tensor>& bias,
                            int64_t ignore_index,
                            double temperature);

}  // namespace tenon
