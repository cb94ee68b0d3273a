// SPDX-License-Identifier: Apache-2.0
//
// Cross entropy between logits and integer labels, summed over the labels that are not ignored,
// with label smoothing and z-loss where asked for. Of a row x with label y, of V classes, with s
// the smoothing, c the coefficient of the z-loss and z = log(sum(exp(x))):
//
//     loss = z - (1 - s) x[y] - s mean(x) + c z^2
//     gradient by x = (1 + 2 c z) softmax(x) - (1 - s) onehot(y) - s / V
//
// On a CPU, in fp32 and fp64, both come out of one softmax. Elsewhere operators and autograd do it.
//
// Source: Bishop, Pattern Recognition and Machine Learning (2006), section 4.3.4; smoothing:
// Szegedy et al., Rethinking the Inception Architecture for Computer Vision (CVPR 2016), section 7;
// z-loss: Chowdhery et al., PaLM: Scaling Language Modeling with Pathways (JMLR 2023), section 5.
//
// Shapes: B samples, T positions, V classes, N = B * T labels.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/loss.hpp>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

namespace {

struct CrossEntropyOptions {
  int64_t ignore_index = -100;
  double label_smoothing = 0.0;
  double z_loss = 0.0;

  bool is_plain() const { return label_smoothing == 0.0 && z_loss == 0.0; }
};

// Over rows: what of `loss` is z-loss, and the labels counted, by weight.
struct RowSums {
  double loss = 0.0;
  double z_loss = 0.0;
  double count = 0.0;
};

enum class Gradient { kNone, kKept };

// Of the labels, [N] f64; nothing where each weighs 1.
using Weights = std::optional<at::Tensor>;

// Turns the softmax of the rows into the losses of the labels, and with Gradient::kKept itself into
// their gradients.
//
// Shapes   logits_NV and probabilities_NV: contiguous; labels_N: i64
template <class scalar_t>
RowSums consume_softmax(const at::Tensor& logits_NV,
                        at::Tensor& probabilities_NV,
                        const at::Tensor& labels_N,
                        const Weights& weights_N,
                        const CrossEntropyOptions& options,
                        Gradient gradient) {
  const int64_t num_rows = logits_NV.size(0);
  const int64_t num_classes = logits_NV.size(1);
  const scalar_t* logits = logits_NV.const_data_ptr<scalar_t>();
  scalar_t* probabilities = probabilities_NV.mutable_data_ptr<scalar_t>();
  const int64_t* labels = labels_N.const_data_ptr<int64_t>();
  const double* weights = weights_N ? weights_N->const_data_ptr<double>() : nullptr;
  const bool is_plain = options.is_plain();
  const double kept = 1.0 - options.label_smoothing;
  const auto spread =
      static_cast<scalar_t>(options.label_smoothing / static_cast<double>(num_classes));
  RowSums sums;
  // One thread: a row costs a logarithm here, and `num_classes` exponentials before.
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t label = labels[row];
    const scalar_t* x = logits + row * num_classes;
    scalar_t* p = probabilities + row * num_classes;
    if (label == options.ignore_index) {
      if (gradient == Gradient::kKept) {
        std::fill(p, p + num_classes, scalar_t(0));
      }
      continue;
    }
    const double weight = weights == nullptr ? 1.0 : weights[row];
    sums.count += weight;
    // A logit far below the largest has a probability that is rounded off or zero. The largest
    // one's is never small, and gives z as x - log(p).
    constexpr double kExactFrom = 1e-30;
    double slope = 1.0;  // of the loss by z
    if (is_plain && p[label] > kExactFrom) {
      sums.loss -= weight * std::log(static_cast<double>(p[label]));
    } else {
      const int64_t largest = std::max_element(x, x + num_classes) - x;
      const double z = static_cast<double>(x[largest]) - std::log(static_cast<double>(p[largest]));
      double loss = z - kept * static_cast<double>(x[label]);
      if (options.label_smoothing > 0.0) {
        loss -= options.label_smoothing * std::accumulate(x, x + num_classes, 0.0) /
                static_cast<double>(num_classes);
      }
      const double z_loss = options.z_loss * z * z;
      slope += 2.0 * options.z_loss * z;
      sums.loss += weight * (loss + z_loss);
      sums.z_loss += weight * z_loss;
    }
    if (gradient == Gradient::kKept) {
      if (!is_plain) {
        for (int64_t v = 0; v < num_classes; ++v) {
          p[v] = p[v] * static_cast<scalar_t>(slope) - spread;
        }
      }
      p[label] -= static_cast<scalar_t>(kept);
      if (weights != nullptr) {
        for (int64_t v = 0; v < num_classes; ++v) {
          p[v] *= static_cast<scalar_t>(weight);
        }
      }
    }
  }
  return sums;
}

RowSums sum_on_cpu(const at::Tensor& logits_NV,
                   at::Tensor& probabilities_NV,
                   const at::Tensor& labels_N,
                   const Weights& weights_N,
                   const CrossEntropyOptions& options,
                   Gradient gradient) {
  return logits_NV.scalar_type() == at::kDouble
             ? consume_softmax<double>(
                   logits_NV, probabilities_NV, labels_N, weights_N, options, gradient)
             : consume_softmax<float>(
                   logits_NV, probabilities_NV, labels_N, weights_N, options, gradient);
}

class FusedCrossEntropy : public torch::autograd::Function<FusedCrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& logits_NV,
                            const at::Tensor& labels_N,
                            const Weights& weights_N,
                            const CrossEntropyOptions& options,
                            RowSums* out_sums) {
    at::Tensor gradient_NV = at::_softmax(logits_NV, -1, /*half_to_float=*/false);
    *out_sums = sum_on_cpu(logits_NV, gradient_NV, labels_N, weights_N, options, Gradient::kKept);
    context->save_for_backward({gradient_NV});
    return at::scalar_tensor(out_sums->loss, logits_NV.options());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    torch::autograd::variable_list by_argument(5);
    by_argument[0] = context->get_saved_variables()[0] * grads[0];
    return by_argument;
  }
};

class CrossEntropy : public tenon::TorchLoss {
 public:
  static constexpr const char* kType = "cross_entropy";
  static constexpr const char* kSummary = "softmax cross entropy of integer labels, in nats";
  using Options = CrossEntropyOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("ignore_index", &Options::ignore_index)
        .doc("labels of this value count for nothing");
    binder.field("label_smoothing", &Options::label_smoothing)
        .min(0)
        .max(1)
        .doc("share of a label's weight that all classes have in equal parts");
    binder.field("z_loss", &Options::z_loss)
        .min(0)
        .doc("coefficient of the mean square of log(sum(exp(logits))), which is added to the loss");
  }

  explicit CrossEntropy(const Options& options) : options_(options) {}

  void describe(tenon::LossInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_CLASS_INTEGER)
        .optional_port("sample_weight", {"B"}, TENON_CLASS_FLOAT)
        .additive_over(TENON_ADDITIVE_TOKENS)
        .count_from_batch();
  }

  at::Tensor count(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    const at::Tensor labels_N = inputs[kLabels].reshape({-1});
    const at::Tensor counted_N = labels_N.ne(options_.ignore_index);
    if (!inputs.has(kSampleWeight)) {
      return counted_N.sum(at::kDouble);
    }
    return (counted_N * weights_of_labels(inputs)).sum(at::kDouble);
  }

  at::Tensor compute(const tenon::Exec& exec, const tenon::TorchInputs& inputs) override {
    const at::Tensor& logits = inputs[kLogits];
    const at::Tensor& labels = inputs[kLabels];
    check_shapes(logits, labels);
    const int64_t num_classes = logits.size(-1);
    const at::Tensor logits_NV = logits.reshape({-1, num_classes});
    const at::Tensor labels_N = labels.reshape({-1}).to(at::kLong).contiguous();
    const Weights weights_N =
        inputs.has(kSampleWeight) ? Weights(weights_of_labels(inputs)) : std::nullopt;
    const bool is_on_cpu = logits.device().is_cpu();
    if (is_on_cpu) {
      check_labels(labels, labels_N, num_classes);
    }
    const at::ScalarType dtype = logits.scalar_type();
    if (!is_on_cpu || (dtype != at::kFloat && dtype != at::kDouble)) {
      return sum_of_operators(exec, logits_NV, labels_N, weights_N);
    }
    RowSums sums;
    at::Tensor sum;
    if (logits.requires_grad() && at::GradMode::is_enabled()) {
      sum = FusedCrossEntropy::apply(logits_NV.contiguous(), labels_N, weights_N, options_, &sums);
    } else {
      const at::Tensor plain_NV = logits_NV.detach().contiguous();
      at::Tensor probabilities_NV = at::_softmax(plain_NV, -1, /*half_to_float=*/false);
      sums = sum_on_cpu(plain_NV, probabilities_NV, labels_N, weights_N, options_, Gradient::kNone);
      sum = at::scalar_tensor(sums.loss, plain_NV.options());
    }
    if (options_.z_loss > 0.0) {
      exec.host().add_metric(kZLoss, sums.z_loss, sums.count);
    }
    return sum;
  }

 private:
  enum Port : size_t { kLogits, kLabels, kSampleWeight };
  static constexpr const char* kZLoss = "cross_entropy/z_loss";

  static void check_shapes(const at::Tensor& logits, const at::Tensor& labels) {
    TENON_CHECK(logits.dim() == labels.dim() + 1 &&
                    logits.sizes().slice(0, static_cast<size_t>(labels.dim())) == labels.sizes(),
                "logits of shape ",
                logits.sizes(),
                " and labels of shape ",
                labels.sizes(),
                " do not fit; logits must have the labels' axes and one more, for the classes");
  }

  // A label out of range, with its value and place.
  void check_labels(const at::Tensor& labels,
                    const at::Tensor& labels_N,
                    int64_t num_classes) const {
    const int64_t* values = labels_N.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < labels_N.numel(); ++i) {
      if ((values[i] < 0 || values[i] >= num_classes) && values[i] != options_.ignore_index) {
        TENON_FAIL(TENON_INVALID,
                   "cross_entropy.label",
                   "label ",
                   values[i],
                   " at place ",
                   i,
                   " of labels ",
                   labels.sizes(),
                   " is not in [0, ",
                   num_classes,
                   "), which the logits have classes for, and is not ignore_index (",
                   options_.ignore_index,
                   ")");
      }
    }
  }

  // Each label weighs what its sample does: [N] f64.
  static at::Tensor weights_of_labels(const tenon::TorchInputs& inputs) {
    const at::Tensor& labels = inputs[kLabels];
    const at::Tensor& weights = inputs[kSampleWeight];
    TENON_CHECK(weights.dim() == 1 && labels.dim() >= 1 && weights.size(0) == labels.size(0),
                "sample_weight of shape ",
                weights.sizes(),
                " does not fit labels of shape ",
                labels.sizes(),
                "; there must be one weight for each sample");
    std::vector<int64_t> ones(static_cast<size_t>(labels.dim()), 1);
    ones[0] = -1;
    return weights.to(at::kDouble).reshape(ones).expand(labels.sizes()).reshape({-1}).contiguous();
  }

  at::Tensor sum_of_operators(const tenon::Exec& exec,
                              const at::Tensor& logits_NV,
                              const at::Tensor& labels_N,
                              const Weights& weights_N) const {
    const at::ScalarType sum_dtype =
        logits_NV.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor log_NV = at::log_softmax(logits_NV, -1, sum_dtype);
    if (options_.is_plain() && !weights_N) {
      return at::nll_loss_nd(log_NV, labels_N, {}, at::Reduction::Sum, options_.ignore_index);
    }
    at::Tensor loss_N =
        at::nll_loss_nd(log_NV, labels_N, {}, at::Reduction::None, options_.ignore_index);
    if (options_.is_plain()) {
      return (loss_N * weights_N->to(sum_dtype)).sum();
    }
    at::Tensor counted_N = labels_N.ne(options_.ignore_index).to(sum_dtype);
    if (weights_N) {
      counted_N = counted_N * weights_N->to(sum_dtype);
    }
    if (options_.label_smoothing > 0.0) {
      loss_N =
          (1.0 - options_.label_smoothing) * loss_N - options_.label_smoothing * log_NV.mean(-1);
    }
    if (options_.z_loss > 0.0) {
      const at::Tensor z_N = logits_NV.to(sum_dtype).logsumexp(-1);
      const at::Tensor z_loss_N = options_.z_loss * z_N * z_N;
      loss_N = loss_N + z_loss_N;
      tenon::add_metric(
          exec.host(), kZLoss, (z_loss_N.detach() * counted_N).sum(), counted_N.sum());
    }
    return (loss_N * counted_N).sum();
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(CrossEntropy)
