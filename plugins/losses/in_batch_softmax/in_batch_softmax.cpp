// SPDX-License-Identifier: Apache-2.0
//
// Cross entropy of (query, item) pairs, with the other items of the microbatch as negatives. For
// query i, with scores s_ij = <q_i, v_j> / temperature - log_q_j:
//
//     loss_i = -s_ii + log sum_j exp(s_ij)
//
// Letters in tensor names: B samples, D width of a query and an item.
//
// Source: Yi et al., Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations
// (2019), section 3.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/loss.hpp>

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>

namespace {

struct InBatchSoftmaxOptions {
  double temperature = 1.0;
  bool log_q_from_batch = false;
};

class InBatchSoftmax : public tenon::TorchLoss {
 public:
  static constexpr const char* kType = "in_batch_softmax";
  static constexpr const char* kSummary =
      "softmax over the items of the microbatch, with in-batch negatives";
  using Options = InBatchSoftmaxOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("temperature", &Options::temperature)
        .exclusive_min(0)
        .doc("divisor of the scores");
    binder.field("log_q_from_batch", &Options::log_q_from_batch)
        .doc("estimate `log_q` from item frequencies in the microbatch");
  }

  explicit InBatchSoftmax(const Options& options) : options_(options) {}

  void describe(tenon::LossInfo& info) override {
    info.port("queries", {"B", tenon::Axis(-1)}, TENON_CLASS_FLOAT)
        .port("items", {"B", tenon::Axis(-1)}, TENON_CLASS_FLOAT)
        .port("item_ids", {"B"}, TENON_CLASS_INTEGER)
        .optional_port("log_q", {"B"}, TENON_CLASS_FLOAT)
        .optional_port("sample_weight", {"B"}, TENON_CLASS_FLOAT)
        .additive_over(TENON_ADDITIVE_NONE)
        .count_from_batch();
  }

  at::Tensor count(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    if (inputs.has(kSampleWeight)) {
      return inputs[kSampleWeight].to(at::kDouble).sum();
    }
    const at::Tensor& ids_B = inputs[kItemIds];
    return at::full({}, static_cast<double>(ids_B.size(0)), ids_B.options().dtype(at::kDouble));
  }

  at::Tensor compute(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    const at::Tensor& queries_BD = inputs[kQueries];
    const at::Tensor& items_BD = inputs[kItems];
    TENON_CHECK(queries_BD.sizes() == items_BD.sizes(),
                "queries of shape ",
                queries_BD.sizes(),
                " and items of shape ",
                items_BD.sizes(),
                " do not match; they must be equal");
    const at::ScalarType dtype = queries_BD.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    at::Tensor scores_BB =
        at::matmul(queries_BD.to(dtype), items_BD.to(dtype).t()) * (1.0 / options_.temperature);
    const at::Tensor& ids_B = inputs[kItemIds];
    const at::Tensor same_BB = ids_B.unsqueeze(1).eq(ids_B.unsqueeze(0));
    if (options_.log_q_from_batch) {
      scores_BB = scores_BB - same_BB.sum(0).to(dtype).log().unsqueeze(0);
    }
    const at::Tensor own_BB = at::eye(ids_B.size(0), ids_B.options().dtype(at::kBool));
    scores_BB = scores_BB.masked_fill(same_BB.logical_and(own_BB.logical_not()),
                                      -std::numeric_limits<double>::infinity());
    if (inputs.has(kLogQ)) {
      scores_BB = scores_BB - inputs[kLogQ].to(dtype).unsqueeze(0);
    }
    at::Tensor losses_B = at::logsumexp(scores_BB, {1}) - scores_BB.diagonal();
    if (inputs.has(kSampleWeight)) {
      losses_B = losses_B * inputs[kSampleWeight].to(dtype);
    }
    return losses_B.sum();
  }

 private:
  enum Port : size_t { kQueries, kItems, kItemIds, kLogQ, kSampleWeight };

  Options options_;
};

}  // namespace

TENON_PLUGIN(InBatchSoftmax)
