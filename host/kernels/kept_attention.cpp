// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/kept_attention.hpp"

#include <utility>

namespace tenon {
namespace {

AttentionScope::State& scope_state() {
  thread_local AttentionScope::State state;
  return state;
}

int64_t& attention_runs_here() {
  thread_local int64_t runs = 0;
  return runs;
}

uint32_t version_of(const at::Tensor& x) {
  return x.unsafeGetTensorImpl()->version_counter().current_version();
}

// A second tensor of the same memory and version counter, without a place in an autograd graph.
at::Tensor same_memory(const at::Tensor& x) {
  const auto* const impl = x.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(),
                                                  /*allow_tensor_metadata_change=*/false));
}

}  // namespace

bool AttentionResult::is_unchanged() const {
  return y.defined() && version_of(y) == version;
}

void AttentionResult::renew() {
  version = version_of(y);
}

void KeptAttention::keep(const at::Tensor& y, const at::Tensor& sums) {
  results_.push_back({.y = same_memory(y), .sums = sums, .version = version_of(y)});
}

AttentionResult KeptAttention::take(at::IntArrayRef shape) {
  if (next_ == results_.size()) {
    return {};
  }
  AttentionResult result = std::exchange(results_[next_++], {});
  return result.is_unchanged() && result.y.sizes() == shape ? result : AttentionResult();
}

void KeptAttention::clear() {
  results_.clear();
  next_ = 0;
}

AttentionScope::AttentionScope(KeptAttention* kept, Use use) : before_(scope_state()) {
  scope_state() = {.kept = kept, .use = use};
}

AttentionScope::AttentionScope(int64_t& bytes, at::Device device) : before_(scope_state()) {
  scope_state() = {.bytes = &bytes, .device = device};
}

AttentionScope::~AttentionScope() {
  scope_state() = before_;
}

AttentionResult attention_result(at::IntArrayRef shape,
                                 const std::function<AttentionResult()>& compute) {
  const AttentionScope::State& now = scope_state();
  if (now.kept != nullptr && now.use == AttentionScope::Use::kTake) {
    if (AttentionResult result = now.kept->take(shape); result.y.defined()) {
      return result;
    }
  }
  ++attention_runs_here();
  AttentionResult result = compute();
  if (now.kept != nullptr && now.use == AttentionScope::Use::kKeep) {
    now.kept->keep(result.y, result.sums);
  }
  return result;
}

bool count_attention(const at::Tensor& query_BTHE,
                     const std::function<bool(at::Device device)>& can_keep) {
  const AttentionScope::State& now = scope_state();
  if (now.bytes == nullptr) {
    return false;
  }
  if (!can_keep(now.device)) {
    return true;
  }
  const int64_t sums = query_BTHE.size(0) * query_BTHE.size(1) * query_BTHE.size(2);
  *now.bytes += (query_BTHE.numel() + sums) * static_cast<int64_t>(sizeof(float));
  return true;
}

bool is_attention_counted() {
  return scope_state().bytes != nullptr;
}

int64_t attention_runs() {
  return attention_runs_here();
}

}  // namespace tenon
