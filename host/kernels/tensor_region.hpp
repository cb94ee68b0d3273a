// SPDX-License-Identifier: Apache-2.0
//
// The part of a block that ranks of a tensor group compute together, each with its part of the
// parameters; tensor_borders.hpp has the operators. Knows no engine: a higher folder sends the
// bytes. All ranks call the same operators in the same order.
//
// Source: docs/decisions/0089-collectives-in-blocks.md
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
  std::atomic<int64_t> number{0};     // of the operators called so far
  std::optional<c10::Device> device;  // of the tensors exchanged so far

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
  friend const TensorRegionPtr& tensor_region();

  TensorRegionPtr region_;  // null in a group of one rank
  const TensorRegionScope* before_;
};

// The region of this thread, if it has one of several ranks; else null.
const TensorRegionPtr& tensor_region();

}  // namespace tenon
