// SPDX-License-Identifier: Apache-2.0
//
// Rows of V = W + (alpha / rank) B A, each scaled to a trained magnitude. The norms of the rows
// count as constants in gradients. If tensor ranks divide the columns, they add up the squares of a
// row.
//
// Source   Liu et al., DoRA: Weight-Decomposed Low-Rank Adaptation (ICML 2024), equations 5 and 11
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "../low_rank.hpp"

namespace {

class Dora final : public LowRank {
 public:
  static constexpr const char* kType = "dora";
  static constexpr const char* kSummary =
      "DoRA: a low-rank update of directions, and a trained magnitude of each row";

  using LowRank::LowRank;

  // The magnitudes start as the norms of the rows, so that the matrix equals its base.
  void start(const tenon::Exec& exec, const tenon::RealsToStart& reals) override {
    LowRank::start(exec, reals);
    reals.real(next_real()).copy_(row_norms(base().value_at_start(reals)));
  }

  at::Tensor effective(const tenon::Exec&, const tenon::Reals& reals) override {
    const at::Tensor v_NK = updated_matrix(reals);
    const at::Tensor v = v_NK.detach();
    const at::Tensor norms_N =
        v.size(1) == K_ ? row_norms(v) : over_columns(row_norms(v).square(), v.size(1)).sqrt();
    return v_NK * (magnitude_N(reals) / norms_N).unsqueeze(1);
  }

  // Without dropout: m / |V| (x W^T + scale (x A^T) B^T). With it, only the base sees the whole x:
  // x W^T + (m / |V| - 1) d W^T + m / |V| scale (d A^T) B^T for the dropped input d.
  at::Tensor product(const tenon::Exec& exec,
                     const at::Tensor& x,
                     const tenon::Reals& reals) override {
    const at::Tensor factor_N = magnitude_N(reals) / norms_of_update(reals);
    const at::Tensor d = dropped(exec, x);
    if (d.is_same(x)) {
      const at::Tensor updated = updated_product(x, x, reals);
      return (updated * factor_N).to(updated.scalar_type());
    }
    const at::Tensor y = base().product(x, reals);
    const at::Tensor of_dropped = base().product(d, reals);
    return (y - of_dropped + plus_update(of_dropped, d, reals) * factor_N).to(y.scalar_type());
  }

 protected:
  void describe_more(int64_t N, int64_t K, tenon::RealSet& reals) override {
    K_ = K;
    reals.real(".lora_magnitude", {N}, tenon::Init::ones()).follows(0, 0);
  }
  void layout_more(tenon::LayoutBuilder& builder) override {
    builder.tensor("lora_magnitude_vector", ".lora_magnitude");
  }
  bool is_decomposed() const override { return true; }

 private:
  static at::Tensor row_norms(const at::Tensor& v_NK) {
    constexpr int64_t kInput[] = {1};
    return at::linalg_vector_norm(v_NK, 2, at::IntArrayRef(kInput));
  }
  // The sums over all columns of terms that are sums over `columns` of them.
  at::Tensor over_columns(const at::Tensor& terms_N, int64_t columns) const {
    return columns == K_ ? terms_N : ops::sum_over(terms_N, columns, K_);
  }
  const at::Tensor& magnitude_N(const tenon::Reals& reals) const { return reals.real(next_real()); }

  // The norms of the rows of V without V: |W|^2 + 2 s <W A^T, B> + s^2 <B (A A^T), B>.
  at::Tensor norms_of_update(const tenon::Reals& reals) const {
    const at::AutoGradMode constant(false);
    const c10::impl::ExcludeDispatchKeyGuard exact(c10::autocast_dispatch_keyset);
    const at::Tensor& a = a_RK(reals);
    const at::Tensor& b = b_NR(reals);
    const at::Tensor w_NK = base().matrix(reals, a.scalar_type());
    const double s = scale();
    const at::Tensor squares = row_norms(w_NK).square() +
                               (at::matmul(w_NK, a.t()) * b).sum(1) * (2.0 * s) +
                               (at::matmul(b, at::matmul(a, a.t())) * b).sum(1) * (s * s);
    return over_columns(squares, w_NK.size(1)).clamp_min(0.0).sqrt();
  }

  int64_t K_ = 0;  // of the whole matrix
};

}  // namespace

TENON_PLUGIN(Dora)
