// SPDX-License-Identifier: Apache-2.0
//
// Letters in names: N rows, D width, V classes; R rows and C classes of a tile.

#include "host/kernels/head_loss.hpp"

#include "host/kernels/autocast.hpp"
#include "host/kernels/first_order.hpp"
#include "host/kernels/fused.hpp"
#include "host/kernels/head_arguments.hpp"
#include "host/kernels/head_classes.hpp"
#include "host/kernels/head_rows.hpp"
#include "host/kernels/head_tiles.hpp"
#include "host/kernels/linear_map.hpp"
#include "host/kernels/products.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

namespace tenon {
namespace {

// ---- the head ----

// `bias_V` may be undefined.
struct Head {
  at::Tensor x_ND;
  at::Tensor weight_VD;
  at::Tensor bias_V;
  at::Tensor labels_N;  // 64-bit
  HeadClasses classes;  // of the rows of the weight
};

// The head on the rows that rows_to_compute() returned.
Head head_on_rows(const at::Tensor& rows_R,
                  const at::Tensor& x_ND,
                  const at::Tensor& weight_VD,
                  const std::optional<at::Tensor>& bias_V,
                  const at::Tensor& labels_N,
                  const HeadClasses& classes) {
  return {.x_ND = chosen_rows(x_ND, rows_R),
          .weight_VD = weight_VD,
          .bias_V = bias_V.value_or(at::Tensor()),
          .labels_N = chosen_rows(labels_N, rows_R),
          .classes = classes};
}

at::Tensor rows_of(const at::Tensor& x, const LogitTileRange& at) {
  return x.narrow(0, at.row, at.rows);
}

at::Tensor classes_of(const at::Tensor& x, const LogitTileRange& at) {
  return x.narrow(0, at.column, at.columns);
}

at::Tensor logits_at(const Head& head, const LogitTileRange& at) {
  const at::Tensor x_RD = rows_of(head.x_ND, at);
  const at::Tensor w_CD = classes_of(head.weight_VD, at);
  const std::optional<at::Tensor> b_C =
      head.bias_V.defined() ? std::optional(classes_of(head.bias_V, at)) : std::nullopt;
  return product_forward(x_RD, w_CD, b_C);
}

// Dtype of the losses, and of sums over tiles.
at::ScalarType sum_dtype(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// ---- own kernels ----

// Rows per task: some hundred microseconds of work.
int64_t rows_a_task(int64_t columns) {
  return std::max<int64_t>(1, (int64_t{1} << 16) / columns);
}

LogitTile own_tile(const Head& head, const LogitTileRange& at, at::Tensor& logits_RC) {
  return {.logits = logits_RC.mutable_data_ptr<float>(),
          .columns = at.columns,
          .first = head.classes.first + at.column,
          .num_classes = head.classes.whole,
          .labels = head.labels_N.const_data_ptr<int64_t>() + at.row};
}

static_assert(sizeof(HeadRow) == 4 * sizeof(double));

struct Losses {
  at::Tensor loss_N;
  at::Tensor saved;  // HeadRow per row from own kernels, else z per row
};

at::Tensor losses_of(const Head& head, const HeadOptions& options, const HeadRow* rows) {
  const int64_t N = head.x_ND.size(0);
  at::Tensor loss_N = at::empty({N}, head.x_ND.options());
  auto* const losses = loss_N.mutable_data_ptr<float>();
  const int64_t* const labels = head.labels_N.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < N; ++i) {
    losses[i] = labels[i] == options.ignore_index
                    ? 0.0f
                    : static_cast<float>(loss_of(rows[i], head.classes.whole, options));
  }
  return loss_N;
}

Losses own_losses(const Head& head, const HeadOptions& options) {
  const int64_t N = head.x_ND.size(0);
  const int64_t V = head.weight_VD.size(0);
  at::Tensor saved = at::empty({N, 4}, head.x_ND.options().dtype(at::kDouble));
  auto* const all = reinterpret_cast<HeadRow*>(saved.mutable_data_ptr<double>());
  std::fill(all, all + N, HeadRow{});
  visit_logit_tiles(N, V, [&](const LogitTileRange& at) {
    at::Tensor logits_RC = logits_at(head, at).contiguous();
    const LogitTile tile = own_tile(head, at, logits_RC);
    at::parallel_for(0, at.rows, rows_a_task(at.columns), [&](int64_t begin, int64_t end) {
      add_tile(tile, options, all + at.row, begin, end);
    });
  });
  add_classes_of_ranks(head.classes, saved);
  return {losses_of(head, options, all), saved};
}

struct LossesAndSlopes {
  at::Tensor loss_N;
  at::Tensor dx_ND;  // the gradient of each row's loss by x
};

// Turns sums of exp(x - largest) weight, over this rank's classes without the label, into
// gradients.
void scale_slopes(const Head& head,
                  const HeadOptions& options,
                  const HeadRow* rows,
                  const at::Tensor& largest_N,
                  const at::Tensor& dx_ND) {
  const int64_t N = head.x_ND.size(0);
  const at::Tensor is_counted_N = head.labels_N.ne(options.ignore_index);
  const at::Tensor label_N = head.labels_N - head.classes.first;
  const at::Tensor is_here_N =
      label_N.ge(0).logical_and(label_N.lt(head.weight_VD.size(0))).logical_and(is_counted_N);
  // Per row: factors of the sum over other classes, of the label's weight, and of the sum over all.
  const at::Tensor others_N1 = at::zeros({N, 1}, head.x_ND.options());
  const at::Tensor at_label_N1 = at::zeros({N, 1}, head.x_ND.options());
  const at::Tensor spread_N1 = at::zeros({N, 1}, head.x_ND.options());
  auto* const others = others_N1.mutable_data_ptr<float>();
  auto* const at_label = at_label_N1.mutable_data_ptr<float>();
  auto* const spread = spread_N1.mutable_data_ptr<float>();
  const bool* const is_counted = is_counted_N.const_data_ptr<bool>();
  const bool* const is_here = is_here_N.const_data_ptr<bool>();
  const double* const largest = largest_N.const_data_ptr<double>();
  for (int64_t i = 0; i < N; ++i) {
    if (is_counted[i]) {
      const HeadSlopes of = slopes_of(rows[i], head.classes.whole, options);
      const double scale =
          largest[i] == rows[i].largest ? 1.0 : std::exp(largest[i] - rows[i].largest);
      others[i] = static_cast<float>(of.others * scale);
      // The sum over all has the spread.
      at_label[i] = is_here[i] ? static_cast<float>(of.at_label + of.spread) : 0.0f;
      spread[i] = static_cast<float>(of.spread);
    }
  }
  const at::Tensor row_N = label_N * is_here_N;
  dx_ND.mul_(others_N1).addcmul_(head.weight_VD.index_select(0, row_N), at_label_N1);
  if (options.label_smoothing > 0.0) {
    dx_ND.addcmul_(spread_N1, head.weight_VD.sum(0, /*keepdim=*/true), -1);
  }
  if (!head.classes.adds_gradients()) {
    dx_ND.zero_();
  }
}

// Sum over the classes of softmax(x) weight, without that of the label, which is added with its own
// factor: where the label is nearly certain, that factor is a small difference.
LossesAndSlopes own_losses_and_slopes(const Head& head, const HeadOptions& options) {
  const int64_t N = head.x_ND.size(0);
  const int64_t V = head.weight_VD.size(0);
  at::Tensor rows_NF = at::empty({N, 4}, head.x_ND.options().dtype(at::kDouble));
  auto* const rows = reinterpret_cast<HeadRow*>(rows_NF.mutable_data_ptr<double>());
  std::fill(rows, rows + N, HeadRow{});
  const at::Tensor factor_N1 = at::empty({N, 1}, head.x_ND.options());
  auto* const factors = factor_N1.mutable_data_ptr<float>();
  const at::Tensor dx_ND = at::empty_like(head.x_ND);
  visit_logit_tiles(N, V, [&](const LogitTileRange& at) {
    at::Tensor p_RC = logits_at(head, at).contiguous();
    const LogitTile tile = own_tile(head, at, p_RC);
    at::parallel_for(0, at.rows, rows_a_task(at.columns), [&](int64_t begin, int64_t end) {
      add_and_exponentiate(tile, options, rows + at.row, factors + at.row, begin, end);
    });
    const at::Tensor part_RD = product_grad_input(p_RC, classes_of(head.weight_VD, at));
    at::Tensor dx_RD = rows_of(dx_ND, at);
    if (at.column == 0) {
      dx_RD.copy_(part_RD);
    } else {
      at::addcmul_out(dx_RD, part_RD, dx_RD, rows_of(factor_N1, at));
    }
  });
  const at::Tensor largest_N = rows_NF.select(1, 0).clone();  // of the classes in dx
  add_classes_of_ranks(head.classes, rows_NF);
  scale_slopes(head, options, rows, largest_N, dx_ND);
  return {losses_of(head, options, rows), dx_ND};
}

at::Tensor own_gradient(const Head& head,
                        const HeadOptions& options,
                        const at::Tensor& saved,
                        const at::Tensor& seed_N,
                        const LogitTileRange& at) {
  at::Tensor g_RC = logits_at(head, at).contiguous();
  const LogitTile tile = own_tile(head, at, g_RC);
  const auto* const rows = reinterpret_cast<const HeadRow*>(saved.const_data_ptr<double>());
  const float* const seeds = seed_N.const_data_ptr<float>();
  at::parallel_for(0, at.rows, rows_a_task(at.columns), [&](int64_t begin, int64_t end) {
    replace_by_gradient(tile, options, rows + at.row, seeds + at.row, begin, end);
  });
  return g_RC;
}

// ---- libtorch's operators ----

// Column of each row's label in a tile, and whether the label is there; the column is 0 if not.
struct LabelColumns {
  at::Tensor is_there_R;
  at::Tensor column_R1;
};

LabelColumns label_columns(const Head& head, const LogitTileRange& at) {
  const at::Tensor column_R = rows_of(head.labels_N, at) - (head.classes.first + at.column);
  const at::Tensor is_there_R = column_R.ge(0).logical_and(column_R.lt(at.columns));
  return {is_there_R, column_R.masked_fill(is_there_R.logical_not(), 0).unsqueeze(1)};
}

Losses plain_losses(const Head& head, const HeadOptions& options) {
  const int64_t N = head.x_ND.size(0);
  const int64_t V = head.weight_VD.size(0);
  const at::TensorOptions kind = head.x_ND.options().dtype(sum_dtype(head.x_ND));
  at::Tensor sums_FN = at::zeros({3, N}, kind);
  at::Tensor z_N = sums_FN[0].fill_(-std::numeric_limits<double>::infinity());
  at::Tensor at_label_N = sums_FN[1];
  at::Tensor total_N = sums_FN[2];
  visit_logit_tiles(N, V, [&](const LogitTileRange& at) {
    const at::Tensor logits_RC = logits_at(head, at).to(kind.dtype());
    at::Tensor z_R = rows_of(z_N, at);
    z_R.copy_(at::logaddexp(z_R, logits_RC.logsumexp(-1)));
    const LabelColumns label = label_columns(head, at);
    at::Tensor at_label_R = rows_of(at_label_N, at);
    at_label_R.copy_(
        at::where(label.is_there_R, logits_RC.gather(1, label.column_R1).squeeze(1), at_label_R));
    if (options.label_smoothing > 0.0) {
      rows_of(total_N, at).add_(logits_RC.sum(-1));
    }
  });
  sums_FN = sums_of_ranks(head.classes, sums_FN);
  z_N = sums_FN[0].clone();
  at_label_N = sums_FN[1];
  total_N = sums_FN[2];
  at::Tensor loss_N = z_N - (1.0 - options.label_smoothing) * at_label_N;
  if (options.label_smoothing > 0.0) {
    loss_N.sub_(total_N, options.label_smoothing / static_cast<double>(head.classes.whole));
  }
  if (options.z_loss > 0.0) {
    loss_N.add_(z_N.square(), options.z_loss);
  }
  return {loss_N.masked_fill_(head.labels_N.eq(options.ignore_index), 0), z_N};
}

at::Tensor plain_gradient(const Head& head,
                          const HeadOptions& options,
                          const at::Tensor& z_N,
                          const at::Tensor& seed_N,
                          const LogitTileRange& at) {
  const at::Tensor z_R1 = rows_of(z_N, at).unsqueeze(1);
  const at::Tensor seed_R1 = rows_of(seed_N, at).unsqueeze(1);
  at::Tensor g_RC = logits_at(head, at).to(z_N.scalar_type()).sub_(z_R1).exp_();
  if (options.z_loss > 0.0) {
    g_RC.mul_(1.0 + 2.0 * options.z_loss * z_R1);
  }
  if (options.label_smoothing > 0.0) {
    g_RC.sub_(options.label_smoothing / static_cast<double>(head.classes.whole));
  }
  const LabelColumns label = label_columns(head, at);
  const at::Tensor row_R = at::arange(at.rows, head.labels_N.options());
  const at::Tensor at_label_R =
      g_RC.gather(1, label.column_R1).squeeze(1) -
      (1.0 - options.label_smoothing) * label.is_there_R.to(g_RC.scalar_type());
  // Not scatter_: libtorch treats it as nondeterministic on a GPU, although each row has one index.
  g_RC.index_put_({row_R, label.column_R1.squeeze(1)}, at_label_R);
  g_RC.mul_(seed_R1);
  g_RC.masked_fill_(rows_of(head.labels_N, at).eq(options.ignore_index).unsqueeze(1), 0);
  return g_RC.to(head.x_ND.scalar_type());
}

// ---- autograd ----

// A sum over tiles, in the rows of one part of a gradient.
class TileSum {
 public:
  TileSum(bool is_wanted, at::IntArrayRef shape, const at::TensorOptions& options)
      : sum_(is_wanted ? at::empty(shape, options) : at::Tensor()) {}

  bool is_wanted() const { return sum_.defined(); }

  void clear() {
    if (is_wanted()) {
      sum_.zero_();
    }
  }

  void add(int64_t first, bool is_first, const at::Tensor& part) {
    at::Tensor to = sum_.narrow(0, first, part.size(0));
    if (is_first) {
      to.copy_(part);
    } else {
      to.add_(part);
    }
  }

  at::Tensor as(at::ScalarType dtype) const { return is_wanted() ? sum_.to(dtype) : sum_; }

 private:
  at::Tensor sum_;
};

enum class Kernels { kOwn, kPlain };

class HeadLoss : public torch::autograd::Function<HeadLoss> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x_ND,
                            const at::Tensor& weight_VD,
                            const std::optional<at::Tensor>& bias_V,
                            const at::Tensor& labels_N,
                            const HeadOptions& options,
                            const HeadClasses& classes,
                            Kernels kernels) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor rows_R = rows_to_compute(labels_N, options.ignore_index);
    const Head head = head_on_rows(rows_R, x_ND, weight_VD, bias_V, labels_N, classes);
    const bool is_own = kernels == Kernels::kOwn;
    const Losses out = is_own ? own_losses(head, options) : plain_losses(head, options);
    context->save_for_backward(
        {head.x_ND, weight_VD, head.bias_V, head.labels_N, out.saved, rows_R});
    context->saved_data["num_rows"] = x_ND.size(0);
    context->saved_data["ignore_index"] = options.ignore_index;
    context->saved_data["label_smoothing"] = options.label_smoothing;
    context->saved_data["z_loss"] = options.z_loss;
    context->saved_data["first_class"] = classes.first;
    context->saved_data["num_classes"] = classes.whole;
    context->saved_data["adds_gradients"] = classes.adds_gradients();
    context->saved_data["is_own"] = is_own;
    return scattered_rows(out.loss_N, rows_R, x_ND.size(0));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("cross_entropy", "tenon::linear and a loss of its result");
    // The tensors have their final dtypes.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const HeadClasses classes{.first = context->saved_data["first_class"].toInt(),
                              .whole = context->saved_data["num_classes"].toInt(),
                              .call = {}};
    const Head head{saved[0], saved[1], saved[2], saved[3], classes};
    const HeadOptions options{.ignore_index = context->saved_data["ignore_index"].toInt(),
                              .label_smoothing = context->saved_data["label_smoothing"].toDouble(),
                              .z_loss = context->saved_data["z_loss"].toDouble()};
    const bool is_own = context->saved_data["is_own"].toBool();
    const at::Tensor& rows_R = saved[5];
    const at::Tensor seed_N = chosen_rows(grads[0], rows_R).contiguous();
    const at::TensorOptions kind = head.x_ND.options().dtype(sum_dtype(head.x_ND));
    TileSum dx(context->needs_input_grad(0), head.x_ND.sizes(), kind);
    TileSum dw(context->needs_input_grad(1), head.weight_VD.sizes(), kind);
    TileSum db(
        head.bias_V.defined() && context->needs_input_grad(2), {head.weight_VD.size(0)}, kind);
    const int64_t N = context->saved_data["adds_gradients"].toBool() ? head.x_ND.size(0) : 0;
    if (N == 0) {  // no tiles
      dx.clear();
      dw.clear();
      db.clear();
    }
    visit_logit_tiles(N, head.weight_VD.size(0), [&](const LogitTileRange& at) {
      const at::Tensor g_RC = is_own ? own_gradient(head, options, saved[4], seed_N, at)
                                     : plain_gradient(head, options, saved[4], seed_N, at);
      if (dx.is_wanted()) {
        dx.add(at.row, at.column == 0, product_grad_input(g_RC, classes_of(head.weight_VD, at)));
      }
      if (dw.is_wanted()) {
        dw.add(at.column, at.row == 0, product_grad_weight(g_RC, rows_of(head.x_ND, at)));
      }
      if (db.is_wanted()) {
        db.add(at.column, at.row == 0, g_RC.sum(0, /*keepdim=*/false, kind.dtype().toScalarType()));
      }
    });
    const int64_t num_rows = context->saved_data["num_rows"].toInt();
    return {scattered_rows(dx.as(head.x_ND.scalar_type()), rows_R, num_rows),
            dw.as(head.weight_VD.scalar_type()),
            db.as(head.weight_VD.scalar_type()),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

// For a head that is not trained: forward computes the gradient by x too, so that backward needs no
// logits.
class FrozenHeadLoss : public torch::autograd::Function<FrozenHeadLoss> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x_ND,
                            const at::Tensor& weight_VD,
                            const std::optional<at::Tensor>& bias_V,
                            const at::Tensor& labels_N,
                            const HeadOptions& options,
                            const HeadClasses& classes) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor rows_R = rows_to_compute(labels_N, options.ignore_index);
    const Head head = head_on_rows(rows_R, x_ND, weight_VD, bias_V, labels_N, classes);
    const LossesAndSlopes out = own_losses_and_slopes(head, options);
    context->save_for_backward({out.dx_ND, rows_R});
    return scattered_rows(out.loss_N, rows_R, x_ND.size(0));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("cross_entropy", "tenon::linear and a loss of its result");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor seed_R1 = chosen_rows(grads[0], saved[1]).unsqueeze(1);
    torch::autograd::variable_list out(6);  // by x alone
    out[0] = scattered_rows(saved[0] * seed_R1, saved[1], grads[0].size(0));
    return out;
  }
};

// ---- operators ----

at::Tensor head_loss(std::string_view op,
                     const at::Tensor& x,
                     const at::Tensor& weight,
                     const at::Tensor& labels,
                     const at::Tensor& bias,
                     std::optional<int64_t> whole,
                     const HeadOptions& options) {
  check_head_shapes(op, x, weight, labels, bias);
  const AutocastCopies copies(x);
  const at::Tensor in = copies.of(x);
  const at::Tensor w = copies.of(weight);
  const at::Tensor b = bias.defined() ? copies.of(bias) : bias;
  check_head_dtypes(op, in, w, b);
  const HeadClasses classes =
      whole ? head_classes(op, w.size(0), *whole) : HeadClasses{.whole = w.size(0), .call = {}};
  const at::Tensor labels_N = labels.reshape({-1}).to(at::kLong).contiguous();
  check_labels(op, labels_N, labels.sizes(), classes.whole, options.ignore_index);
  const at::Tensor x_ND = in.reshape({labels_N.numel(), w.size(1)}).contiguous();
  if (labels_N.numel() == 0) {  // zeros that depend on the inputs
    const at::Tensor none = x_ND.sum(-1) * w.sum() + (b.defined() ? b.sum() : w.sum());
    return none.to(sum_dtype(in)).view(labels.sizes());
  }
  const Kernels kernels = is_fused("cross_entropy", in) ? Kernels::kOwn : Kernels::kPlain;
  const std::optional<at::Tensor> bias_V = b.defined() ? std::optional(b) : std::nullopt;
  const bool trains_head = w.requires_grad() || (b.defined() && b.requires_grad());
  if (kernels == Kernels::kOwn && at::GradMode::is_enabled() && in.requires_grad() &&
      !trains_head) {
    return FrozenHeadLoss::apply(x_ND, w.contiguous(), bias_V, labels_N, options, classes)
        .view(labels.sizes());
  }
  return HeadLoss::apply(x_ND, w.contiguous(), bias_V, labels_N, options, classes, kernels)
      .view(labels.sizes());
}

at::Tensor cross_entropy_of(std::string_view op,
                            const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& labels,
                            std::optional<int64_t> whole,
                            const std::optional<at::Tensor>& bias,
                            const HeadOptions& o) {
  TORCH_CHECK(o.label_smoothing >= 0.0 && o.label_smoothing <= 1.0 && o.z_loss >= 0.0 &&
                  std::isfinite(o.z_loss),
              "tenon::",
              op,
              ": label_smoothing ",
              o.label_smoothing,
              " must be in [0, 1], and z_loss ",
              o.z_loss,
              " must be finite and not negative");
  return head_loss(op, x, weight_elements(weight), labels, bias.value_or(at::Tensor()), whole, o);
}

at::Tensor token_logps_of(std::string_view op,
                          const at::Tensor& x,
                          const at::Tensor& weight,
                          const at::Tensor& labels,
                          std::optional<int64_t> whole,
                          const std::optional<at::Tensor>& bias,
                          int64_t ignore_index,
                          double temperature) {
  TORCH_CHECK(temperature > 0.0 && std::isfinite(temperature),
              "tenon::",
              op,
              ": temperature ",
              temperature,
              " must be finite and positive");
  at::Tensor in = x;
  at::Tensor b = bias.value_or(at::Tensor());
  if (temperature != 1.0) {  // of the logits: x has fewer elements
    in = in / temperature;
    b = b.defined() ? b / temperature : b;
  }
  const at::Tensor loss =
      head_loss(op, in, weight_elements(weight), labels, b, whole, {.ignore_index = ignore_index});
  return at::rsub(loss, 0);  // not neg(): 0 stays 0 where a label is ignored
}

}  // namespace

at::Tensor cross_entropy(const at::Tensor& x,
                         const at::Tensor& weight,
                         const at::Tensor& labels,
                         const std::optional<at::Tensor>& bias,
                         int64_t ignore_index,
                         double label_smoothing,
                         double z_loss) {
  return cross_entropy_of("cross_entropy",
                          x,
                          weight,
                          labels,
                          std::nullopt,
                          bias,
                          {ignore_index, label_smoothing, z_loss});
}

at::Tensor cross_entropy_over(const at::Tensor& x,
                              const at::Tensor& weight,
                              const at::Tensor& labels,
                              int64_t whole,
                              const std::optional<at::Tensor>& bias,
                              int64_t ignore_index,
                              double label_smoothing,
                              double z_loss) {
  return cross_entropy_of("cross_entropy_over",
                          x,
                          weight,
                          labels,
                          whole,
                          bias,
                          {ignore_index, label_smoothing, z_loss});
}

at::Tensor token_logps(const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& labels,
                       const std::optional<at::Tensor>& bias,
                       int64_t ignore_index,
                       double temperature) {
  return token_logps_of(
      "token_logps", x, weight, labels, std::nullopt, bias, ignore_index, temperature);
}

at::Tensor token_logps_over(const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& labels,
                            int64_t whole,
                            const std::optional<at::Tensor>& bias,
                            int64_t ignore_index,
                            double temperature) {
  return token_logps_of(
      "token_logps_over", x, weight, labels, whole, bias, ignore_index, temperature);
}

}  // namespace tenon
