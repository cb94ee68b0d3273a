// SPDX-License-Identifier: Apache-2.0
//
// Cross entropy between logits and integer labels, summed over the labels that are not ignored,
// with label smoothing and z-loss where asked for. Of a row x with label y, of V classes, with s
// the smoothing, c the coefficient of the z-loss and z = log(sum(exp(x))):
//
//     loss = z - (1 - s) x[y] - s mean(x) + c z^2
//     gradient by x = (1 + 2 c z) softmax(x) - (1 - s) onehot(y) - s / V
//
// On a CPU, in fp32, fp64 and bf16, rows.hpp does both in one pass each. Elsewhere operators and
// autograd do it.
//
// Source: Bishop, Pattern Recognition and Machine Learning (2006), section 4.3.4; smoothing:
// Szegedy et al., Rethinking the Inception Architecture for Computer Vision (CVPR 2016), section 7;
// z-loss: Chowdhery et al., PaLM: Scaling Language Modeling with Pathways (JMLR 2023), section 5.
//
// Shapes: B samples, T positions, V classes, N = B * T labels.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/loss.hpp>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "rows.hpp"

namespace {

using CrossEntropyOptions = RowOptions;

// Of the labels, [N] f64; nothing where each weighs 1.
using Weights = std::optional<at::Tensor>;

bool is_plain(const CrossEntropyOptions& options) {
  return options.label_smoothing == 0.0 && options.z_loss == 0.0;
}

std::optional<RowType> row_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return RowType::kFloat;
    case at::kDouble:
      return RowType::kDouble;
    case at::kBFloat16:
      return RowType::kBFloat16;
    default:
      return std::nullopt;
  }
}

// Dense logits on a CPU with their labels, all of whom must outlive it.
LogitRows rows_of(const at::Tensor& logits_NV,
                  const at::Tensor& labels_N,
                  const Weights& weights_N) {
  return {.logits = logits_NV.const_data_ptr(),
          .type = *row_type(logits_NV.scalar_type()),
          .num_classes = logits_NV.size(1),
          .labels = labels_N.const_data_ptr<int64_t>(),
          .weights = weights_N ? weights_N->const_data_ptr<double>() : nullptr};
}

// Rows that one task takes: some hundred microseconds of work. By the shape alone, since sums are
// put together by tasks and must not depend on the number of threads.
int64_t rows_a_task(int64_t num_classes) {
  constexpr int64_t kElements = int64_t{1} << 16;
  return std::max<int64_t>(1, kElements / std::max<int64_t>(1, num_classes));
}

// `stats_N2` is written: RowStats by row.
RowSums sum_on_cpu(const at::Tensor& logits_NV,
                   const at::Tensor& labels_N,
                   const Weights& weights_N,
                   const CrossEntropyOptions& options,
                   at::Tensor& stats_N2) {
  const LogitRows rows = rows_of(logits_NV, labels_N, weights_N);
  auto* const stats = reinterpret_cast<RowStats*>(stats_N2.mutable_data_ptr<double>());
  const int64_t num_rows = logits_NV.size(0);
  const int64_t step = rows_a_task(rows.num_classes);
  std::vector<RowSums> parts(static_cast<size_t>((num_rows + step - 1) / step));
  at::parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      parts[static_cast<size_t>(i)] =
          sum_rows(rows, options, i * step, std::min(num_rows, (i + 1) * step), stats);
    }
  });
  RowSums sums;
  for (const RowSums& part : parts) {
    sums.loss += part.loss;
    sums.z_loss += part.z_loss;
    sums.count += part.count;
  }
  return sums;
}

at::Tensor empty_stats(const at::Tensor& logits_NV) {
  static_assert(sizeof(RowStats) == 2 * sizeof(double));
  return at::empty({logits_NV.size(0), 2}, at::dtype(at::kDouble));
}

at::Tensor scalar_sum(const RowSums& sums, const at::Tensor& logits_NV) {
  const bool is_double = logits_NV.scalar_type() == at::kDouble;
  return at::scalar_tensor(sums.loss, at::dtype(is_double ? at::kDouble : at::kFloat));
}

// Of the logits nothing is kept but two numbers a row; backward reads the logits again.
class CpuCrossEntropy : public torch::autograd::Function<CpuCrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& logits_NV,
                            const at::Tensor& labels_N,
                            const Weights& weights_N,
                            const CrossEntropyOptions& options,
                            RowSums* out_sums) {
    at::Tensor stats_N2 = empty_stats(logits_NV);
    *out_sums = sum_on_cpu(logits_NV, labels_N, weights_N, options, stats_N2);
    context->save_for_backward({logits_NV, labels_N, stats_N2, weights_N.value_or(at::Tensor())});
    context->saved_data["ignore_index"] = options.ignore_index;
    context->saved_data["label_smoothing"] = options.label_smoothing;
    context->saved_data["z_loss"] = options.z_loss;
    return scalar_sum(*out_sums, logits_NV);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& logits_NV = saved[0];
    const CrossEntropyOptions options{
        .ignore_index = context->saved_data["ignore_index"].toInt(),
        .label_smoothing = context->saved_data["label_smoothing"].toDouble(),
        .z_loss = context->saved_data["z_loss"].toDouble()};
    const LogitRows rows =
        rows_of(logits_NV, saved[1], saved[3].defined() ? Weights(saved[3]) : std::nullopt);
    const auto* const stats = reinterpret_cast<const RowStats*>(saved[2].const_data_ptr<double>());
    const double seed = grads[0].item<double>();
    torch::autograd::variable_list by_argument(5);
    by_argument[0] = at::empty_like(logits_NV);
    void* const gradient = by_argument[0].mutable_data_ptr();
    at::parallel_for(
        0, logits_NV.size(0), rows_a_task(rows.num_classes), [&](int64_t begin, int64_t end) {
          write_row_gradients(rows, options, stats, seed, begin, end, gradient);
        });
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
    if (!is_on_cpu || !row_type(logits.scalar_type())) {
      return sum_of_operators(exec, logits_NV, labels_N, weights_N);
    }
    RowSums sums;
    at::Tensor sum;
    if (logits.requires_grad() && at::GradMode::is_enabled()) {
      sum = CpuCrossEntropy::apply(logits_NV.contiguous(), labels_N, weights_N, options_, &sums);
    } else {
      const at::Tensor plain_NV = logits_NV.detach().contiguous();
      at::Tensor stats_N2 = empty_stats(plain_NV);
      sums = sum_on_cpu(plain_NV, labels_N, weights_N, options_, stats_N2);
      sum = scalar_sum(sums, plain_NV);
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
    if (is_plain(options_) && !weights_N) {
      return at::nll_loss_nd(log_NV, labels_N, {}, at::Reduction::Sum, options_.ignore_index);
    }
    at::Tensor loss_N =
        at::nll_loss_nd(log_NV, labels_N, {}, at::Reduction::None, options_.ignore_index);
    if (is_plain(options_)) {
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
