// SPDX-License-Identifier: Apache-2.0
//
// DeepFM: a factorization machine and dense layers over the same embedding rows. For the rows v_i
// of a sample's ids and their weights w_i:
//
//     logit = b + sum_i w_i + sum_{i<j} <v_i, v_j> + mlp(v_1, v_2, ..., numbers)
//
// The sum over pairs is computed from sums over rows: ((sum v)^2 - sum v^2) / 2 per element.
//
// Letters in tensor names: B samples, N rows per sample, D width of a row, W total width of rows
// and numbers, K outputs.
//
// Source: Guo et al., DeepFM: A Factorization-Machine based Neural Network for CTR Prediction
// (2017); Rendle, Factorization Machines (2010), lemma 3.1.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/model.hpp>

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../columns.hpp"
#include "../dense_layers.hpp"

namespace {

struct DeepFmOptions : tenon::ColumnOptions {
  std::vector<int64_t> hidden = {128, 64};
  double dropout = 0.0;
  bool first_order = true;
  std::vector<std::string> outputs = {"logits"};
};

}  // namespace

class DeepFm final : public tenon::TorchModel {
 public:
  static constexpr const char* kType = "deepfm";
  static constexpr const char* kSummary =
      "DeepFM: factorization machine and dense layers over id columns";
  using Options = DeepFmOptions;
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_columns(b);
    b.field("hidden", &Options::hidden)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc("widths of the hidden layers, in order");
    tenon::bind_dropout(b);
    b.field("first_order", &Options::first_order)
        .doc("add a first-order weight per id, in a table COLUMN.linear of width 1");
    b.field("outputs", &Options::outputs)
        .non_empty()
        .min_items(1)
        .doc("output names, for several targets; each has its own last layer and bias");
  }

  explicit DeepFm(const Options& options) : o_(options) {}

  void describe(tenon::TorchGraph& g) override {
    const tenon::ColumnLookups rows =
        tenon::look_up_columns(g, o_, "embedding.", "", o_.dim, o_.init_std);
    const tenon::DenseInputs dense = tenon::add_dense(g, o_.dense);
    num_rows_ = rows.num_rows;
    rows_of_lookup_ = rows.rows;
    first_wide_ = tenon::expanded(o_.categorical).size();
    const int64_t width = num_rows_ * o_.dim + dense.width;
    const auto x = g.value("features", {"B", width});
    const auto fm = g.value("fm", {"B"});
    std::vector<tenon::ValueId> inputs = rows.values;
    inputs.insert(inputs.end(), dense.values.begin(), dense.values.end());
    g.block("fm", inputs, {x, fm}, {}, [this](const tenon::BlockCall& b) {
       return interact(b);
     }).backward([this](const tenon::BlockGradients& b) { interact_backward(b); });

    const auto num_outputs = static_cast<int64_t>(o_.outputs.size());
    std::vector<int64_t> widths = o_.hidden;
    widths.push_back(num_outputs);
    mlp_ = std::make_unique<tenon::DenseLayers>(
        g, "mlp", width, widths, o_.dropout, tenon::LastLayer::kPlain);
    std::vector<tenon::ValueId> top_inputs = {x, fm};
    std::vector<tenon::ParameterId> parameters = mlp_->parameters();
    if (o_.first_order) {
      const tenon::ColumnLookups weights =
          tenon::look_up_columns(g, o_, "linear.", ".linear", 1, o_.init_std);
      top_inputs.insert(top_inputs.end(), weights.values.begin(), weights.values.end());
      parameters.push_back(
          g.parameter("bias", {num_outputs}, tenon::Init::zeros(), TENON_PARAM_NO_DECAY));
    }
    std::vector<tenon::ValueId> outputs;
    for (const std::string& name : o_.outputs) {
      outputs.push_back(g.value(name, {"B"}));
    }
    g.block("top",
            top_inputs,
            outputs,
            parameters,
            [this, bias = parameters.size() - 1](const tenon::BlockCall& b) {
              at::Tensor shared_B = b.input(1);
              if (o_.first_order) {
                shared_B = shared_B + tenon::side_by_side(b, 2, b.num_inputs()).sum(1);
              }
              at::Tensor logits_BK = mlp_->run(b, b.input(0)) + shared_B.unsqueeze(1);
              if (o_.first_order) {
                logits_BK = logits_BK + b.parameter(bias);
              }
              return logits_BK.unbind(1);
            });
  }

 private:
  // Rows as read by the sum over pairs and its gradient; sums run over the rows of a sample.
  std::vector<at::Tensor> interact(const tenon::BlockCall& b) const {
    const at::Tensor x_BW = tenon::side_by_side(b, 0, b.num_inputs());
    const at::Tensor v_BND = rows_of(x_BW);
    const at::Tensor sum_BD = v_BND.sum(1);
    const at::Tensor fm_B = (sum_BD.square().sum(1) - v_BND.square().sum({1, 2})) * 0.5;
    b.save(x_BW);
    b.save(sum_BD);
    return {x_BW, fm_B};
  }

  // d fm / d v_i = sum v - v_i.
  void interact_backward(const tenon::BlockGradients& b) const {
    const at::Tensor& x_BW = b.saved(0);
    const at::Tensor grad_BW = b.has_grad_output(0) ? b.grad_output(0) : at::zeros_like(x_BW);
    at::Tensor grad_BND = rows_of(grad_BW);
    if (b.has_grad_output(1)) {
      grad_BND = at::addcmul(
          grad_BND, b.saved(1).unsqueeze(1) - rows_of(x_BW), b.grad_output(1).view({-1, 1, 1}));
    }
    int64_t row = 0;
    for (size_t i = 0; i < rows_of_lookup_.size(); ++i) {
      const int64_t n = rows_of_lookup_[i];
      b.set_grad_input(i, is_wide(i) ? grad_BND.narrow(1, row, n) : grad_BND.select(1, row));
      row += n;
    }
    int64_t column = num_rows_ * o_.dim;
    for (size_t i = 0; i < o_.dense.size(); ++i) {
      const int64_t width = o_.dense[i].width();
      b.set_grad_input(
          rows_of_lookup_.size() + i,
          o_.dense[i].size ? grad_BW.narrow(1, column, width) : grad_BW.select(1, column));
      column += width;
    }
  }

  bool is_wide(size_t lookup) const {
    return lookup >= first_wide_ && lookup < first_wide_ + o_.wide.size();
  }
  at::Tensor rows_of(const at::Tensor& x_BW) const {
    return x_BW.narrow(1, 0, num_rows_ * o_.dim).unflatten(1, {num_rows_, o_.dim});
  }

  Options o_;
  int64_t num_rows_ = 0;
  std::vector<int64_t> rows_of_lookup_;  // rows per sample
  size_t first_wide_ = 0;                // index of the first wide lookup
  std::unique_ptr<tenon::DenseLayers> mlp_;
};

TENON_PLUGIN(DeepFm)
