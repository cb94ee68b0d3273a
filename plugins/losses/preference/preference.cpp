// SPDX-License-Identifier: Apache-2.0
//
// Losses on pairs of answers, of which the first is preferred. A pair is two segments of a sample,
// the chosen one first. An answer is the labelled positions of a segment; its log-probability is
// the sum of those of its labels. With c and r the log-probabilities of the chosen and the rejected
// answer under the model, c0 and r0 under the reference, |c| and |r| the numbers of their labels,
// and d = (c - c0) - (r - r0):
//
//     dpo    -(1 - s) log sigmoid(beta d) - s log sigmoid(-beta d)
//     ipo    ((c - c0) / |c| - (r - r0) / |r| - 1 / (2 beta))^2
//     orpo   -c / |c| - beta log sigmoid(log odds(c / |c|) - log odds(r / |r|))
//     simpo  -(1 - s) log sigmoid(m) - s log sigmoid(-m), m = beta (c / |c| - r / |r|) - gamma
//
// for label smoothing s, with log odds(x) = x - log(1 - exp(x)).
//
// Source: Rafailov et al., Direct Preference Optimization (2023), equation 7, and Mitchell, A note
// on DPO with noisy preferences (2023); Azar et al., A General Theoretical Paradigm to Understand
// Learning from Human Preferences (2023), equation 17, by the mean over labels; Hong et al., ORPO
// (2024), equations 6 and 7; Meng et al., SimPO (2024), equation 6.
//
// Shapes: B samples, T positions, N = B * T, R segments, P pairs.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/loss.hpp>

#include <ATen/ATen.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>

namespace {

enum class Type { kDpo, kIpo, kOrpo, kSimpo };

constexpr int64_t kIgnored = -100;

// log(1 - exp(x)) for x < 0, without cancellation.
at::Tensor log1mexp(const at::Tensor& x) {
  return at::where(x.lt(-std::log(2.0)), at::log1p(-at::exp(x)), at::log(-at::expm1(x)));
}

// The answers of a batch, by number: chosen ones are even, rejected ones are odd.
struct Answers {
  at::Tensor answer_N;     // i64: the answer that a position belongs to; 0 if it has no label
  at::Tensor is_label_N;   // bool
  at::Tensor num_answers;  // i64 []
};

class Preference : public tenon::TorchLoss {
 public:
  static constexpr const char* kType = "preference";
  static constexpr const char* kSummary =
      "preference of a chosen over a rejected answer: DPO, IPO, ORPO or SimPO";
  struct Options {
    Type type = Type::kDpo;
    double beta = 0.1;
    double label_smoothing = 0.0;
    std::optional<double> gamma;
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder
        .choice("type",
                &Options::type,
                {{"dpo", Type::kDpo},
                 {"ipo", Type::kIpo},
                 {"orpo", Type::kOrpo},
                 {"simpo", Type::kSimpo}})
        .doc("formula; dpo and ipo compare with a reference model");
    binder.field("beta", &Options::beta)
        .exclusive_min(0)
        .doc("scale of rewards; in ipo the strength of the regularization, in orpo the weight");
    binder.field("label_smoothing", &Options::label_smoothing)
        .min(0)
        .exclusive_max(0.5)
        .doc("assumed fraction of pairs whose answers are swapped; only dpo and simpo");
    binder.field("gamma", &Options::gamma)
        .min(0)
        .doc("margin of rewards that simpo demands; null: 0.5. Only simpo");
  }

  explicit Preference(const Options& options) : o_(options) {
    TENON_CHECK(o_.label_smoothing == 0 || o_.type == Type::kDpo || o_.type == Type::kSimpo,
                "label_smoothing has no effect on the types ipo and orpo; remove it");
    TENON_CHECK(!o_.gamma.has_value() || o_.type == Type::kSimpo,
                "gamma has an effect on the type simpo only; remove it");
  }

  void describe(tenon::LossInfo& info) override {
    info.port("token_logps", {"B", "T"}, TENON_CLASS_FLOAT)
        .port("labels", {"B", "T"}, TENON_CLASS_INTEGER)
        .port("segment_ids", {"B", "T"}, TENON_CLASS_INTEGER);
    if (has_reference()) {
      info.port("reference/token_logps", {"B", "T"}, TENON_CLASS_FLOAT);
    }
    info.additive_over(TENON_ADDITIVE_SAMPLES).count_from_batch();
  }

  at::Tensor count(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    return answers_of(inputs).num_answers.to(at::kDouble) / 2;
  }

  at::Tensor compute(const tenon::Exec& exec, const tenon::TorchInputs& inputs) override {
    const Answers answers = answers_of(inputs);
    const auto num_answers = answers.num_answers.item<int64_t>();
    TENON_CHECK(num_answers % 2 == 0,
                "the batch has ",
                num_answers,
                " answers (segments with labels); they must be pairs, each chosen answer followed "
                "by its rejected one");
    const auto by_answer = [&](const at::Tensor& x_N) {
      return at::zeros({num_answers}, x_N.options())
          .index_add(0, answers.answer_N, x_N * answers.is_label_N)
          .view({num_answers / 2, 2});
    };
    const auto logps_of = [&](size_t port) {
      TENON_CHECK(inputs[port].sizes() == inputs[kLabels].sizes(),
                  port == kTokenLogps ? "token_logps" : "reference/token_logps",
                  " of shape ",
                  inputs[port].sizes(),
                  " do not match labels of shape ",
                  inputs[kLabels].sizes());
      return by_answer(inputs[port].reshape({-1}).to(at::kDouble));
    };
    const at::Tensor logps_P2 = logps_of(kTokenLogps);
    const at::Tensor lengths_P2 =
        by_answer(at::ones(answers.answer_N.sizes(), logps_P2.options().requires_grad(false)));
    at::Tensor scores_P2 = has_reference() ? logps_P2 - logps_of(kReference) : logps_P2;
    if (o_.type == Type::kIpo) {
      record(exec, logps_P2, o_.beta * scores_P2);
      scores_P2 = scores_P2 / lengths_P2;
    } else {
      scores_P2 = has_reference() ? scores_P2 : scores_P2 / lengths_P2;
      record(exec, logps_P2, o_.beta * scores_P2);
    }
    return losses(scores_P2.select(1, 0), scores_P2.select(1, 1)).sum();
  }

 private:
  enum Port : size_t { kTokenLogps, kLabels, kSegmentIds, kReference };

  bool has_reference() const { return o_.type == Type::kDpo || o_.type == Type::kIpo; }

  // The losses of pairs [P], by the scores of their answers [P].
  at::Tensor losses(const at::Tensor& chosen_P, const at::Tensor& rejected_P) const {
    const at::Tensor difference_P = chosen_P - rejected_P;
    switch (o_.type) {
      case Type::kIpo:
        return (difference_P - 1 / (2 * o_.beta)).square();
      case Type::kOrpo: {
        const at::Tensor log_odds_P = difference_P - (log1mexp(chosen_P) - log1mexp(rejected_P));
        return -chosen_P - o_.beta * at::log_sigmoid(log_odds_P);
      }
      case Type::kSimpo:
        return smoothed(o_.beta * difference_P - o_.gamma.value_or(0.5));
      case Type::kDpo:
        break;
    }
    return smoothed(o_.beta * difference_P);
  }

  at::Tensor smoothed(const at::Tensor& margin_P) const {
    const double s = o_.label_smoothing;
    return s > 0 ? -(1 - s) * at::log_sigmoid(margin_P) - s * at::log_sigmoid(-margin_P)
                 : -at::log_sigmoid(margin_P);
  }

  static void record(const tenon::Exec& exec,
                     const at::Tensor& logps_P2,
                     const at::Tensor& rewards_P2) {
    const at::Tensor logps = logps_P2.detach();
    const at::Tensor chosen_P = rewards_P2.detach().select(1, 0);
    const at::Tensor rejected_P = rewards_P2.detach().select(1, 1);
    const at::Tensor pairs =
        at::full({}, static_cast<double>(chosen_P.size(0)), chosen_P.options());
    const auto add = [&](const char* name, const at::Tensor& values_P) {
      tenon::add_metric(exec.host(), name, values_P.sum(at::kDouble), pairs);
    };
    add("preference/rewards/chosen", chosen_P);
    add("preference/rewards/rejected", rejected_P);
    add("preference/rewards/margins", chosen_P - rejected_P);
    add("preference/rewards/accuracies", chosen_P.gt(rejected_P));
    add("preference/logps/chosen", logps.select(1, 0));
    add("preference/logps/rejected", logps.select(1, 1));
  }

  // A sequence is a run of equal segment ids in a sample. Those with labels are answers, in order.
  static Answers answers_of(const tenon::TorchInputs& inputs) {
    const at::Tensor& labels_BT = inputs[kLabels];
    TENON_CHECK(labels_BT.dim() == 2,
                "labels of shape ",
                labels_BT.sizes(),
                " are not [samples, positions]");
    const auto size = labels_BT.numel();
    at::Tensor starts_BT = at::zeros_like(labels_BT, at::kLong);
    if (size > 0) {
      starts_BT.select(1, 0).fill_(1);
    }
    const at::Tensor& ids_BT = inputs[kSegmentIds];
    TENON_CHECK(ids_BT.sizes() == labels_BT.sizes(),
                "segment_ids of shape ",
                ids_BT.sizes(),
                " do not match labels of shape ",
                labels_BT.sizes());
    if (labels_BT.size(1) > 1) {
      const int64_t last = labels_BT.size(1) - 1;
      starts_BT.narrow(1, 1, last).copy_(ids_BT.narrow(1, 1, last).ne(ids_BT.narrow(1, 0, last)));
    }
    const at::Tensor run_N = starts_BT.reshape({-1}).cumsum(0) - 1;
    const at::Tensor is_label_N = labels_BT.reshape({-1}).ne(kIgnored);
    const at::Tensor is_answer_R = at::zeros({size}, run_N.options())
                                       .index_add(0, run_N, is_label_N.to(at::kLong))
                                       .gt(0)
                                       .to(at::kLong);
    const at::Tensor answer_R = is_answer_R.cumsum(0) - 1;
    check_pairs(inputs, run_N, is_answer_R);
    return {.answer_N = answer_R.index_select(0, run_N).clamp_min(0),
            .is_label_N = is_label_N,
            .num_answers = is_answer_R.sum()};
  }

  // On a CPU, finds an answer without its other one. Reading a device's data would wait for it.
  static void check_pairs(const tenon::TorchInputs& inputs,
                          const at::Tensor& run_N,
                          const at::Tensor& is_answer_R) {
    const at::Tensor& labels_BT = inputs[kLabels];
    if (!labels_BT.is_cpu()) {
      return;
    }
    const int64_t num_positions = labels_BT.size(1);
    const auto* const runs = run_N.const_data_ptr<int64_t>();
    const auto* const is_answer = is_answer_R.const_data_ptr<int64_t>();
    for (int64_t b = 0; b < labels_BT.size(0); ++b) {
      int64_t answers = 0;
      for (int64_t t = 0; t < num_positions; ++t) {
        const int64_t n = b * num_positions + t;
        const bool is_start = t == 0 || runs[n] != runs[n - 1];
        answers += is_start ? is_answer[runs[n]] : 0;
      }
      TENON_CHECK(
          answers % 2 == 0,
          "sample ",
          b,
          " of the batch has ",
          answers,
          " answers (segments with labels); they must be pairs, each chosen answer followed "
          "by its rejected one");
    }
  }

  Options o_;
};

}  // namespace

TENON_PLUGIN(Preference)
