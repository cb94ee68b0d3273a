// SPDX-License-Identifier: Apache-2.0
//
// Results of attention that a block keeps between its forward and its recompute, so that the
// recompute does not compute attention again. Serves the host's own attention kernel only; other
// kernels are recomputed.
// Invariant: a recompute calls attention in the order of the forward. A kept result whose shape
// differs, or that was written in place since, is not used. Ranks that divide positions agree about
// what is kept: a call with a kept result may send nothing (divided_attention.hpp).
// Threads: a scope is of the thread that made it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tenon {

struct AttentionResult {
  at::Tensor y;
  at::Tensor sums;       // log(sum(exp(scores))), [B, H, T] f32
  uint32_t version = 0;  // of y, when it was kept
  bool is_away = false;  // y and sums were moved out of memory

  // Whether nothing has written to y since.
  bool is_unchanged() const;
  // Accepts y as it is.
  void renew();
};

class KeptAttention {
 public:
  // Copies nothing: keeps the memory of y.
  void keep(const at::Tensor& y, const at::Tensor& sums);
  // Returns the next result, which is then no longer kept; undefined tensors if there is none of
  // this shape.
  AttentionResult take(at::IntArrayRef shape);
  void clear();
  // Whether keep() was called since the last clear().
  bool has_kept() const { return !results_.empty(); }

  // All results in the order of their calls, to move their tensors elsewhere and back.
  std::vector<AttentionResult>& results() { return results_; }

 private:
  std::vector<AttentionResult> results_;
  size_t next_ = 0;
};

// Until its end, attention calls of this thread keep their results, take kept ones, or only count
// the bytes that they would keep.
class AttentionScope {
 public:
  enum class Use { kKeep, kTake };

  // Does nothing if `kept` is null.
  AttentionScope(KeptAttention* kept, Use use);
  // Counts in `bytes` what calls on `device` would keep. Call attention on meta tensors.
  AttentionScope(int64_t& bytes, at::Device device);
  ~AttentionScope();
  AttentionScope(const AttentionScope&) = delete;
  AttentionScope& operator=(const AttentionScope&) = delete;

  struct State {
    KeptAttention* kept = nullptr;
    Use use = Use::kKeep;
    int64_t* bytes = nullptr;
    at::Device device = at::kCPU;
  };

 private:
  State before_;
};

// Returns a kept result, or that of `compute`, as the scope of this thread asks.
AttentionResult attention_result(at::IntArrayRef shape,
                                 const std::function<AttentionResult()>& compute);

// For a scope that counts: adds the bytes of one call and returns true; the call then needs no
// values. `can_keep(device)` says whether the kernel of that device keeps results.
bool count_attention(const at::Tensor& query_BTHE,
                     const std::function<bool(at::Device device)>& can_keep);

// Whether the scope of this thread counts.
bool is_attention_counted();

// Returns how often this thread has computed attention by the host's kernel.
int64_t attention_runs();

}  // namespace tenon
