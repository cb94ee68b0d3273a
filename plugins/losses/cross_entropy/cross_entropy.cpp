// SPDX-License-Identifier: Apache-2.0
//
// Cross entropy between logits and integer labels, summed over the labels that are not ignored,
// with optional label smoothing and z-loss. For a row x of V logits with label y, smoothing s,
// z-loss coefficient c and z = log(sum(exp(x))):
//
//     loss = z - (1 - s) x[y] - s mean(x) + c z^2
//     gradient by x = (1 + 2 c z) softmax(x) - (1 - s) onehot(y) - s / V
//
// On a CPU, in fp32, fp64 and bf16, rows.hpp computes each in one pass; otherwise libtorch
// operators do. Between forward and backward only two numbers per row are kept: backward reads the
// logits again.
//
// If tensor ranks divide the classes, each has V / t of them. Ranks exchange max(x), then the sums
// of exp(x - max(x)) and of x and the logit of the label, in the forward alone.
//
// Source: Bishop, Pattern Recognition and Machine Learning (2006), section 4.3.4; smoothing:
// Szegedy et al., Rethinking the Inception Architecture for Computer Vision (CVPR 2016), section 7;
// z-loss: Chowdhery et al., PaLM: Scaling Language Modeling with Pathways (JMLR 2023), section 5.
//
// Shapes: B samples, T positions, V classes of this rank, N = B * T labels.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/loss.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "rows.hpp"

namespace {

namespace ops = tenon::ops;

using CrossEntropyOptions = RowOptions;

// Weights of the labels, [N] f64; undefined if all are 1.
using Weights = std::optional<at::Tensor>;

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

// The classes of this rank: from `first` on, of `whole` ones.
struct Classes {
  int64_t first = 0;
  int64_t whole = 0;
};

// Dense CPU logits and their labels; borrowed.
LogitRows rows_of(const at::Tensor& logits_NV,
                  const at::Tensor& labels_N,
                  const Weights& weights_N,
                  const Classes& classes) {
  return {.logits = logits_NV.const_data_ptr(),
          .type = *row_type(logits_NV.scalar_type()),
          .num_classes = logits_NV.size(1),
          .labels = labels_N.const_data_ptr<int64_t>(),
          .weights = weights_N ? weights_N->const_data_ptr<double>() : nullptr,
          .first_class = classes.first,
          .whole_classes = classes.whole};
}

// Rows per task: some hundred microseconds of work. Depends on the shape only: partial sums are per
// task, and must not depend on the number of threads.
int64_t rows_a_task(int64_t num_classes) {
  constexpr int64_t kElements = int64_t{1} << 16;
  return std::max<int64_t>(1, kElements / std::max<int64_t>(1, num_classes));
}

// Adds up sum(begin, end) of tasks of rows.
template <class Sum>
RowSums sum_by_tasks(int64_t num_rows, int64_t num_classes, const Sum& sum) {
  const int64_t step = rows_a_task(num_classes);
  std::vector<RowSums> parts(static_cast<size_t>((num_rows + step - 1) / step));
  at::parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      parts[static_cast<size_t>(i)] = sum(i * step, std::min(num_rows, (i + 1) * step));
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

// Replaces what rows have of this rank's classes by what they have of all.
// Shapes  [N, 4], as RowTerms
at::Tensor terms_of_ranks(const at::Tensor& terms_N4, int64_t num_classes, int64_t whole) {
  const at::Tensor mine_N1 = terms_N4.narrow(1, 0, 1);
  const at::Tensor largest_N1 = ops::max_over(mine_N1.contiguous());
  // A rank whose classes are all excluded has the maximum -inf, and no sum.
  const at::Tensor sum_N1 =
      (terms_N4.narrow(1, 1, 1) * at::exp(mine_N1 - largest_N1))
          .masked_fill(mine_N1.eq(-std::numeric_limits<double>::infinity()), 0);
  const at::Tensor sums_N3 = at::cat({sum_N1, terms_N4.narrow(1, 2, 2)}, 1);
  return at::cat({largest_N1, ops::sum_over(sums_N3, num_classes, whole)}, 1);
}

at::Tensor empty_stats(const at::Tensor& logits_NV) {
  static_assert(sizeof(RowStats) == 2 * sizeof(double));
  return at::empty({logits_NV.size(0), 2}, at::dtype(at::kDouble));
}

// Dtype of the gradient computation and of the sums.
at::ScalarType sum_dtype(const at::Tensor& logits_NV) {
  return logits_NV.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// What the loss gets, with one row per label.
struct Rows {
  at::Tensor logits_NV;  // dense
  at::Tensor labels_N;   // int64
  Weights weights_N;
  Classes classes;

  bool is_divided() const { return classes.whole != logits_NV.size(1); }
  LogitRows on_cpu() const { return rows_of(logits_NV, labels_N, weights_N, classes); }
};

// Whether labels are classes of this rank, and their places among these, 0 for others.
struct LabelsHere {
  at::Tensor is_here_N;
  at::Tensor place_N;
};
LabelsHere labels_here(const Rows& in, int64_t ignore_index) {
  const at::Tensor place_N = in.labels_N - in.classes.first;
  const at::Tensor is_here_N =
      place_N.ge(0) & place_N.lt(in.logits_NV.size(1)) & in.labels_N.ne(ignore_index);
  return {is_here_N, place_N.masked_fill(is_here_N.logical_not(), 0)};
}

class CrossEntropy : public tenon::HandWrittenTorchLoss {
 public:
  static constexpr const char* kType = "cross_entropy";
  static constexpr const char* kSummary = "softmax cross entropy of integer labels, in nats";
  using Options = CrossEntropyOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("ignore_index", &Options::ignore_index).doc("label value to ignore");
    binder.field("label_smoothing", &Options::label_smoothing)
        .min(0)
        .max(1)
        .doc("label smoothing: fraction of the weight spread evenly over all classes");
    binder.field("z_loss", &Options::z_loss)
        .min(0)
        .doc("z-loss coefficient: adds this times the mean square of log(sum(exp(logits)))");
  }

  explicit CrossEntropy(const Options& options) : options_(options) {}

  void describe(tenon::LossInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_CLASS_INTEGER)
        .optional_port("sample_weight", {"B"}, TENON_CLASS_FLOAT)
        .additive_over(TENON_ADDITIVE_TOKENS)
        .count_from_batch()
        .divisible();
  }

  at::Tensor count(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    const at::Tensor labels_N = flat(inputs[kLabels]);
    if (!inputs.has(kSampleWeight)) {
      return count_of(labels_N);
    }
    return (labels_N.ne(options_.ignore_index) * weights_of_labels(inputs)).sum(at::kDouble);
  }

  at::Tensor compute(const tenon::Exec& exec, const tenon::TorchInputs& inputs) override {
    check_shapes(inputs[kLogits], inputs[kLabels]);
    const Rows in = rows(inputs);
    if (in.logits_NV.is_cpu()) {
      check_labels(inputs[kLabels], in.labels_N, in.classes.whole);
    }
    if (!is_by_rows(in)) {
      return in.is_divided() ? sum_of_parts(exec, in) : sum_by_operators(exec, in);
    }
    const RowSums sums = in.is_divided() ? sum_parts_by_rows(in) : sum_by_rows(in);
    if (options_.z_loss > 0.0) {
      exec.host().add_metric(kZLoss, sums.z_loss, sums.count);
    }
    return at::scalar_tensor(sums.loss, at::dtype(sum_dtype(in.logits_NV)));
  }

  std::vector<at::Tensor> backward(const tenon::Exec&,
                                   const tenon::TorchInputs& inputs,
                                   const at::Tensor& grad_sum) override {
    const Rows in = rows(inputs);
    std::vector<at::Tensor> grads(inputs.size());
    const at::Tensor grad_NV =
        is_by_rows(in) ? gradient_by_rows(in, grad_sum) : gradient_by_operators(in, grad_sum);
    const at::Tensor& logits = inputs[kLogits];
    grads[kLogits] = logits.dim() == 2 ? grad_NV : grad_NV.view(logits.sizes());
    return grads;
  }

 private:
  enum Port : size_t { kLogits, kLabels, kSampleWeight };
  static constexpr const char* kZLoss = "cross_entropy/z_loss";

  static Rows rows(const tenon::TorchInputs& inputs) {
    const at::Tensor& logits = inputs[kLogits];
    const at::Tensor matrix = logits.dim() == 2 ? logits : logits.reshape({-1, logits.size(-1)});
    const int64_t num_classes = matrix.size(1);
    return {
        .logits_NV = matrix.contiguous(),
        .labels_N = flat(inputs[kLabels]).to(at::kLong).contiguous(),
        .weights_N = inputs.has(kSampleWeight) ? Weights(weights_of_labels(inputs)) : std::nullopt,
        .classes = {.first = ops::tensor_rank() * num_classes,
                    .whole = ops::tensor_size() * num_classes}};
  }

  // A step with few samples takes about as long as its operators are called: none is called that
  // changes nothing.
  static at::Tensor flat(const at::Tensor& labels) {
    return labels.dim() == 1 ? labels : labels.reshape({-1});
  }

  static bool is_by_rows(const Rows& in) {
    return in.logits_NV.is_cpu() && row_type(in.logits_NV.scalar_type()).has_value();
  }

  at::Tensor count_of(const at::Tensor& labels_N) const {
    if (!labels_N.is_cpu() || labels_N.scalar_type() != at::kLong || !labels_N.is_contiguous()) {
      return labels_N.ne(options_.ignore_index).sum(at::kDouble);
    }
    const int64_t* const labels = labels_N.const_data_ptr<int64_t>();
    const auto ignored = std::count(labels, labels + labels_N.numel(), options_.ignore_index);
    return at::scalar_tensor(static_cast<double>(labels_N.numel() - ignored), at::kDouble);
  }

  static void check_shapes(const at::Tensor& logits, const at::Tensor& labels) {
    TENON_CHECK(logits.dim() == labels.dim() + 1 &&
                    logits.sizes().slice(0, static_cast<size_t>(labels.dim())) == labels.sizes(),
                "logits of shape ",
                logits.sizes(),
                " and labels of shape ",
                labels.sizes(),
                " do not match; logits must have the labels' axes plus a last axis of classes");
  }

  // Finds a label out of range, with value and position.
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
                   " at position ",
                   i,
                   " of labels ",
                   labels.sizes(),
                   " is neither in [0, ",
                   num_classes,
                   "), the classes of the logits, nor ignore_index (",
                   options_.ignore_index,
                   ")");
      }
    }
  }

  // Sample weights repeated per label: [N] f64.
  static at::Tensor weights_of_labels(const tenon::TorchInputs& inputs) {
    const at::Tensor& labels = inputs[kLabels];
    const at::Tensor& weights = inputs[kSampleWeight];
    TENON_CHECK(weights.dim() == 1 && labels.dim() >= 1 && weights.size(0) == labels.size(0),
                "sample_weight of shape ",
                weights.sizes(),
                " does not match labels of shape ",
                labels.sizes(),
                "; expected one weight per sample");
    std::vector<int64_t> ones(static_cast<size_t>(labels.dim()), 1);
    ones[0] = -1;
    return weights.to(at::kDouble).reshape(ones).expand(labels.sizes()).reshape({-1}).contiguous();
  }

  RowSums sum_by_rows(const Rows& in) {
    stats_N2_ = empty_stats(in.logits_NV);
    const LogitRows rows = in.on_cpu();
    auto* const stats = reinterpret_cast<RowStats*>(stats_N2_.mutable_data_ptr<double>());
    return sum_by_tasks(in.logits_NV.size(0), rows.num_classes, [&](int64_t begin, int64_t end) {
      return sum_rows(rows, options_, begin, end, stats);
    });
  }

  RowSums sum_parts_by_rows(const Rows& in) {
    static_assert(sizeof(RowTerms) == 4 * sizeof(double));
    const LogitRows rows = in.on_cpu();
    const int64_t num_rows = in.logits_NV.size(0);
    at::Tensor mine_N4 = at::empty({num_rows, 4}, at::dtype(at::kDouble));
    auto* const mine = reinterpret_cast<RowTerms*>(mine_N4.mutable_data_ptr<double>());
    at::parallel_for(0, num_rows, rows_a_task(rows.num_classes), [&](int64_t begin, int64_t end) {
      write_row_terms(rows, options_, begin, end, mine);
    });
    const at::Tensor all_N4 = terms_of_ranks(mine_N4, rows.num_classes, rows.whole());
    const auto* const terms = reinterpret_cast<const RowTerms*>(all_N4.const_data_ptr<double>());
    stats_N2_ = all_N4.narrow(1, 0, 2).contiguous();
    return sum_by_tasks(num_rows, rows.num_classes, [&](int64_t begin, int64_t end) {
      return sum_row_terms(rows, options_, begin, end, terms);
    });
  }

  at::Tensor gradient_by_rows(const Rows& in, const at::Tensor& grad_sum) {
    const at::Tensor stats_N2 = std::exchange(stats_N2_, at::Tensor());
    const auto* const stats = reinterpret_cast<const RowStats*>(stats_N2.const_data_ptr<double>());
    const LogitRows logits = in.on_cpu();
    const double seed = grad_sum.item<double>();
    at::Tensor grad_NV = at::empty_like(in.logits_NV);
    void* const gradient = grad_NV.mutable_data_ptr();
    at::parallel_for(
        0, in.logits_NV.size(0), rows_a_task(logits.num_classes), [&](int64_t begin, int64_t end) {
          write_row_gradients(logits, options_, stats, seed, begin, end, gradient);
        });
    return grad_NV;
  }

  // 1 or the weight; 0 if the label is ignored.
  at::Tensor counted(const Rows& in) const {
    const at::Tensor is_counted_N = in.labels_N.ne(options_.ignore_index);
    return in.weights_N ? is_counted_N * *in.weights_N : is_counted_N.to(at::kDouble);
  }

  at::Tensor sum_by_operators(const tenon::Exec& exec, const Rows& in) const {
    const at::ScalarType dtype = sum_dtype(in.logits_NV);
    const at::Tensor counted_N = counted(in).to(dtype);
    const at::Tensor log_NV = at::log_softmax(in.logits_NV, -1, dtype);
    at::Tensor loss_N =
        at::nll_loss_nd(log_NV, in.labels_N, {}, at::Reduction::None, options_.ignore_index);
    if (options_.label_smoothing > 0.0) {
      loss_N =
          (1.0 - options_.label_smoothing) * loss_N - options_.label_smoothing * log_NV.mean(-1);
    }
    if (options_.z_loss > 0.0) {
      const at::Tensor z_loss_N = options_.z_loss * in.logits_NV.to(dtype).logsumexp(-1).square();
      loss_N = loss_N + z_loss_N;
      tenon::add_metric(exec.host(), kZLoss, (z_loss_N * counted_N).sum(), counted_N.sum());
    }
    return (loss_N * counted_N).sum();
  }

  // As write_row_terms, [N, 4].
  at::Tensor terms_by_operators(const Rows& in, at::ScalarType dtype) const {
    const LabelsHere labels = labels_here(in, options_.ignore_index);
    const at::Tensor x_NV = in.logits_NV.to(dtype);
    const at::Tensor largest_N1 = x_NV.amax(1, /*keepdim=*/true);
    const at::Tensor sum_N1 = at::exp(x_NV - largest_N1).sum(1, /*keepdim=*/true);
    const at::Tensor label_N1 = x_NV.gather(1, labels.place_N.unsqueeze(1))
                                    .masked_fill(labels.is_here_N.logical_not().unsqueeze(1), 0);
    const at::Tensor total_N1 =
        options_.label_smoothing > 0.0 ? x_NV.sum(1, /*keepdim=*/true) : at::zeros_like(label_N1);
    return at::cat({largest_N1, sum_N1, label_N1, total_N1}, 1);
  }

  at::Tensor sum_of_parts(const tenon::Exec& exec, const Rows& in) {
    const at::ScalarType dtype = sum_dtype(in.logits_NV);
    const int64_t num_classes = in.logits_NV.size(1);
    const at::Tensor is_class_N = in.labels_N.ge(0) & in.labels_N.lt(in.classes.whole);
    at::_assert_async((is_class_N | in.labels_N.eq(options_.ignore_index)).all());
    const at::Tensor all_N4 =
        terms_of_ranks(terms_by_operators(in, dtype), num_classes, in.classes.whole);
    stats_N2_ = all_N4.narrow(1, 0, 2).contiguous();
    const at::Tensor z_N = all_N4.select(1, 0) + at::log(all_N4.select(1, 1));
    const at::Tensor counted_N = counted(in).to(dtype);
    const double s = options_.label_smoothing;
    at::Tensor loss_N = z_N - (1.0 - s) * all_N4.select(1, 2) -
                        s / static_cast<double>(in.classes.whole) * all_N4.select(1, 3);
    if (options_.z_loss > 0.0) {
      const at::Tensor z_loss_N = options_.z_loss * z_N.square();
      loss_N = loss_N + z_loss_N;
      tenon::add_metric(exec.host(), kZLoss, (z_loss_N * counted_N).sum(), counted_N.sum());
    }
    return (loss_N * counted_N).sum();
  }

  at::Tensor softmax_of(const Rows& in, at::ScalarType dtype) {
    if (!in.is_divided()) {
      return at::softmax(in.logits_NV, -1, dtype);
    }
    return at::exp(in.logits_NV.to(dtype) - stats_N2_.narrow(1, 0, 1)) / stats_N2_.narrow(1, 1, 1);
  }

  at::Tensor gradient_by_operators(const Rows& in, const at::Tensor& grad_sum) {
    const at::ScalarType dtype = sum_dtype(in.logits_NV);
    at::Tensor grad_NV = softmax_of(in, dtype);
    if (options_.z_loss > 0.0) {
      const at::Tensor z_N1 = in.is_divided()
                                  ? stats_N2_.narrow(1, 0, 1) + stats_N2_.narrow(1, 1, 1).log()
                                  : in.logits_NV.to(dtype).logsumexp(-1, true);
      grad_NV.mul_(1.0 + 2.0 * options_.z_loss * z_N1);
    }
    stats_N2_ = at::Tensor();
    if (options_.label_smoothing > 0.0) {
      grad_NV.sub_(options_.label_smoothing / static_cast<double>(in.classes.whole));
    }
    const LabelsHere labels = labels_here(in, options_.ignore_index);
    const at::Tensor row_N = at::arange(labels.place_N.size(0), labels.place_N.options());
    const at::Tensor at_class_N = grad_NV.gather(1, labels.place_N.unsqueeze(1)).squeeze(1);
    // Not scatter_: libtorch treats it as nondeterministic on a GPU, although each row has one
    // index.
    grad_NV.index_put_({row_N, labels.place_N},
                       at_class_N - labels.is_here_N.to(dtype) * (1.0 - options_.label_smoothing));
    grad_NV.mul_((counted(in) * grad_sum).to(dtype).unsqueeze(1));
    return grad_NV.to(in.logits_NV.scalar_type());
  }

  // Kept from compute to backward if rows.hpp runs both, or if ranks divide the classes.
  at::Tensor stats_N2_;
  Options options_;
};

}  // namespace

TENON_PLUGIN(CrossEntropy)
