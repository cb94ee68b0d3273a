// SPDX-License-Identifier: Apache-2.0
//
// DIN: a small attention network weighs each item of a user's history by its relevance to a
// candidate item. The weighted sum of the history rows, the candidate's row and all other features
// feed dense layers.
//
// Letters in tensor names: B samples, T history positions, D width of a row.
//
// Source: Zhou et al., Deep Interest Network for Click-Through Rate Prediction (2018), sections 4.3
// and 5.3 (PReLU); the network reads h, q, h - q and h * q, as in the authors' code.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/model.hpp>

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "../columns.hpp"
#include "../dense_layers.hpp"

namespace {

struct DinOptions : tenon::ColumnOptions {
  std::string item;
  std::string history = "history";
  int64_t history_length = 20;
  std::vector<int64_t> attention = {64, 16};
  bool softmax = false;
  std::vector<int64_t> hidden = {128, 64};
  tenon::Activation activation = tenon::Activation::kPrelu;
  double dropout = 0.0;
};

}  // namespace

class Din final : public tenon::TorchModel {
 public:
  static constexpr const char* kType = "din";
  static constexpr const char* kSummary =
      "DIN: attention of a candidate item over a user's history";
  using Options = DinOptions;
  static void bind(tenon::OptionBinder<Options>& b) {
    b.field("item", &Options::item)
        .required()
        .non_empty()
        .doc("column of the candidate item, one id per sample");
    b.field("history", &Options::history)
        .non_empty()
        .doc("ragged column of past items, looked up in the same table");
    b.field("history_length", &Options::history_length)
        .min(1)
        .max(100000)
        .doc("maximum history items to read, from the first");
    tenon::bind_columns(b);
    b.field("attention", &Options::attention)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc("widths of the attention network's hidden layers");
    b.field("softmax", &Options::softmax)
        .doc("normalize attention weights by softmax; the paper does not");
    b.field("hidden", &Options::hidden)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc("widths of the hidden layers on top");
    b.choice("activation",
             &Options::activation,
             {{"prelu", tenon::Activation::kPrelu}, {"relu", tenon::Activation::kRelu}})
        .doc("activation after each hidden layer");
    tenon::bind_dropout(b);
  }

  explicit Din(const Options& options) : o_(options) {}

  void describe(tenon::TorchGraph& g) override {
    tenon::Lookup lookup;
    lookup.table = o_.item;
    lookup.init = tenon::Init::normal(0.0, o_.init_std);
    const auto item = g.graph().lookup("item", {"B", o_.dim}, o_.item, lookup);
    lookup.pooling = TENON_POOL_FIRST_N;
    lookup.length = static_cast<uint32_t>(o_.history_length);
    const auto history =
        g.graph().lookup("history", {"B", o_.history_length, o_.dim}, o_.history, lookup);
    const auto offsets =
        g.input("history.ends", {tenon::Axis(int64_t{-1})}, TENON_I64, o_.history + ".offsets");
    attention_ = std::make_unique<tenon::DenseLayers>(g,
                                                      "attention",
                                                      4 * o_.dim,
                                                      with_one(o_.attention),
                                                      0.0,
                                                      tenon::LastLayer::kPlain,
                                                      o_.activation);
    const auto interest = g.value("interest", {"B", o_.dim});
    g.block("attention",
            {item, history, offsets},
            {interest},
            attention_->parameters(),
            [this](const tenon::BlockCall& b) { return attend(b); });

    std::vector<tenon::ValueId> inputs = {interest, item};
    int64_t width = 2 * o_.dim;
    if (!o_.categorical.empty() || !o_.wide.empty() || !o_.ragged.empty()) {
      const tenon::ColumnLookups rows =
          tenon::look_up_columns(g, o_, "embedding.", "", o_.dim, o_.init_std);
      inputs.insert(inputs.end(), rows.values.begin(), rows.values.end());
      width += rows.num_rows * o_.dim;
    }
    const tenon::DenseInputs dense = tenon::add_dense(g, o_.dense);
    inputs.insert(inputs.end(), dense.values.begin(), dense.values.end());
    top_ = std::make_unique<tenon::DenseLayers>(g,
                                                "top",
                                                width + dense.width,
                                                with_one(o_.hidden),
                                                o_.dropout,
                                                tenon::LastLayer::kPlain,
                                                o_.activation);
    g.block("top",
            inputs,
            {g.value("logits", {"B"})},
            top_->parameters(),
            [this](const tenon::BlockCall& b) {
              return top_->run(b, tenon::side_by_side(b, 0, b.num_inputs())).squeeze(1);
            });
  }

 private:
  static std::vector<int64_t> with_one(std::vector<int64_t> widths) {
    widths.push_back(1);
    return widths;
  }

  // Weighted sum of the history rows; zeros if the history is empty.
  at::Tensor attend(const tenon::BlockCall& b) const {
    const at::Tensor& item_BD = b.input(0);
    const at::Tensor& history_BTD = b.input(1);
    const at::Tensor& ends = b.input(2);
    const at::Tensor item_BTD = item_BD.unsqueeze(1).expand_as(history_BTD);
    const at::Tensor pairs =
        at::cat({history_BTD, item_BTD, history_BTD - item_BTD, history_BTD * item_BTD}, /*dim=*/2);
    at::Tensor weights_BT = attention_->run(b, pairs).squeeze(2);
    const at::Tensor lengths_B = ends.slice(0, 1) - ends.slice(0, 0, -1);
    const at::Tensor is_item_BT =
        at::arange(o_.history_length, ends.options()).unsqueeze(0).lt(lengths_B.unsqueeze(1));
    if (o_.softmax) {
      // An empty history is fully masked; its softmax would be NaN.
      const double scale = 1.0 / std::sqrt(static_cast<double>(o_.dim));
      weights_BT = at::softmax(
          (weights_BT * scale)
              .masked_fill(is_item_BT.logical_not(), std::numeric_limits<float>::lowest()),
          1);
    }
    weights_BT = weights_BT.masked_fill(is_item_BT.logical_not(), 0.0);
    return at::bmm(weights_BT.unsqueeze(1), history_BTD).squeeze(1);
  }

  Options o_;
  std::unique_ptr<tenon::DenseLayers> attention_;
  std::unique_ptr<tenon::DenseLayers> top_;
};

TENON_PLUGIN(Din)
