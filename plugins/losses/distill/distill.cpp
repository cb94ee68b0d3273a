// SPDX-License-Identifier: Apache-2.0
//
// Divergence of the model's distribution of the next token from that of a reference, summed over
// the positions whose label is not ignored. With p the reference's probabilities and q the model's,
// both of logits divided by a temperature:
//
//     forward_kl   sum(p (log p - log q)), gradient by the logits (q - p) / temperature
//     reverse_kl   sum(q (log q - log p)), gradient q (log q - log p - loss) / temperature
//
// Works on some rows at a time; between forward and backward nothing is kept.
//
// Source: Hinton et al., Distilling the Knowledge in a Neural Network (2015), section 2, without
// the factor temperature^2; reverse: Gu et al., MiniLLM (2023).
//
// Shapes: N positions, V classes.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/loss.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

enum class Direction { kForward, kReverse };

constexpr int64_t kIgnored = -100;
constexpr int64_t kTileElements = int64_t{1} << 20;

class Distill : public tenon::HandWrittenTorchLoss {
 public:
  static constexpr const char* kType = "distill";
  static constexpr const char* kSummary =
      "divergence from the distribution of a reference model, in nats";
  struct Options {
    Direction type = Direction::kForward;
    double temperature = 1.0;
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder
        .choice("type",
                &Options::type,
                {{"forward_kl", Direction::kForward}, {"reverse_kl", Direction::kReverse}})
        .doc("forward_kl covers all that the reference may say; reverse_kl seeks its main modes");
    binder.field("temperature", &Options::temperature)
        .exclusive_min(0)
        .doc("divisor of both logits");
  }

  explicit Distill(const Options& options) : o_(options) {}

  void describe(tenon::LossInfo& info) override {
    info.port("logits", {"B", "T", "V"}, TENON_CLASS_FLOAT)
        .port("reference/logits", {"B", "T", "V"}, TENON_CLASS_FLOAT)
        .port("labels", {"B", "T"}, TENON_CLASS_INTEGER)
        .additive_over(TENON_ADDITIVE_TOKENS)
        .count_from_batch();
  }

  at::Tensor count(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    return inputs[kLabels].ne(kIgnored).sum(at::kDouble);
  }

  at::Tensor compute(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    const Rows in = rows(inputs);
    at::Tensor sum = at::zeros({}, in.model_NV.options().dtype(at::kDouble));
    for_each_tile(in, [&](const Tile& tile) {
      sum = sum + tile.loss_R1.masked_select(tile.is_label_R1).sum(at::kDouble);
    });
    return sum;
  }

  std::vector<at::Tensor> backward(const tenon::Exec&,
                                   const tenon::TorchInputs& inputs,
                                   const at::Tensor& grad_sum) override {
    const Rows in = rows(inputs);
    at::Tensor grad_NV = at::empty_like(in.model_NV);
    for_each_tile(in, [&](const Tile& tile) {
      at::Tensor by_logits =
          o_.type == Direction::kForward
              ? tile.log_q_RV.exp() - tile.log_p_RV.exp()
              : tile.log_q_RV.exp() * (tile.log_q_RV - tile.log_p_RV - tile.loss_R1);
      by_logits.mul_(grad_sum.to(by_logits.scalar_type()) / o_.temperature);
      by_logits.masked_fill_(tile.is_label_R1.logical_not(), 0);
      grad_NV.narrow(0, tile.first, by_logits.size(0)).copy_(by_logits);
    });
    std::vector<at::Tensor> grads(inputs.size());
    grads[kLogits] = grad_NV.view(inputs[kLogits].sizes());
    return grads;
  }

 private:
  enum Port : size_t { kLogits, kReference, kLabels };

  struct Rows {
    at::Tensor model_NV;
    at::Tensor reference_NV;
    at::Tensor is_label_N;
  };
  // R rows from `first` on.
  struct Tile {
    int64_t first = 0;
    at::Tensor log_q_RV;
    at::Tensor log_p_RV;
    at::Tensor loss_R1;
    at::Tensor is_label_R1;
  };

  static Rows rows(const tenon::TorchInputs& inputs) {
    const at::Tensor& logits = inputs[kLogits];
    const at::Tensor& reference = inputs[kReference];
    const at::Tensor& labels = inputs[kLabels];
    TENON_CHECK(logits.sizes() == reference.sizes(),
                "logits of shape ",
                logits.sizes(),
                " and those of the reference, ",
                reference.sizes(),
                ", do not match; both models must have the same vocabulary");
    TENON_CHECK(logits.sizes().slice(0, 2) == labels.sizes(),
                "labels of shape ",
                labels.sizes(),
                " do not match logits of shape ",
                logits.sizes());
    return {.model_NV = logits.detach().reshape({-1, logits.size(-1)}),
            .reference_NV = reference.detach().reshape({-1, logits.size(-1)}),
            .is_label_N = labels.reshape({-1}).ne(kIgnored)};
  }

  at::Tensor log_probabilities(const at::Tensor& logits) const {
    const at::ScalarType dtype = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    return at::log_softmax(logits.to(dtype) / o_.temperature, -1);
  }

  template <class Visit>
  void for_each_tile(const Rows& in, const Visit& visit) const {
    const int64_t num_rows = in.model_NV.size(0);
    const int64_t step =
        std::max<int64_t>(1, kTileElements / std::max<int64_t>(1, in.model_NV.size(1)));
    for (int64_t first = 0; first < num_rows; first += step) {
      const int64_t n = std::min(step, num_rows - first);
      Tile tile{.first = first,
                .log_q_RV = log_probabilities(in.model_NV.narrow(0, first, n)),
                .log_p_RV = log_probabilities(in.reference_NV.narrow(0, first, n)),
                .loss_R1 = {},
                .is_label_R1 = in.is_label_N.narrow(0, first, n).unsqueeze(1)};
      const bool is_forward = o_.type == Direction::kForward;
      const at::Tensor& of = is_forward ? tile.log_p_RV : tile.log_q_RV;
      const at::Tensor& from = is_forward ? tile.log_q_RV : tile.log_p_RV;
      tile.loss_R1 = (of.exp() * (of - from)).sum(-1, true);
      visit(tile);
    }
  }

  Options o_;
};

}  // namespace

TENON_PLUGIN(Distill)
