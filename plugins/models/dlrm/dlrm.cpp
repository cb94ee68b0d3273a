// SPDX-License-Identifier: Apache-2.0
//
// DLRM: the bottom layers turn dense features into one more row. Dot products of all pairs of rows,
// with that row, feed the top layers.
//
// Letters in tensor names: B samples, N rows per sample including the dense one, D width of a row,
// P pairs of rows.
//
// Source: Naumov et al., Deep Learning Recommendation Model for Personalization and Recommendation
// Systems (2019), section 2.
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

struct DlrmOptions : tenon::ColumnOptions {
  std::vector<int64_t> bottom = {64};
  std::vector<int64_t> top = {128, 64};
  double dropout = 0.0;
};

}  // namespace

class Dlrm final : public tenon::TorchModel {
 public:
  static constexpr const char* kType = "dlrm";
  static constexpr const char* kSummary =
      "DLRM: dot products of row pairs between bottom and top layers";
  using Options = DlrmOptions;
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_columns(b);
    b.field("bottom", &Options::bottom)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc("widths of the layers over dense features; a layer of width `dim` follows");
    b.field("top", &Options::top)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc("widths of the hidden layers over the dot products");
    tenon::bind_dropout(b);
  }

  explicit Dlrm(const Options& options) : o_(options) {}

  void describe(tenon::TorchGraph& g) override {
    const tenon::ColumnLookups rows =
        tenon::look_up_columns(g, o_, "embedding.", "", o_.dim, o_.init_std);
    const tenon::DenseInputs dense = tenon::add_dense(g, o_.dense);
    std::vector<tenon::ValueId> inputs;
    int64_t num_rows = rows.num_rows;
    if (dense.width > 0) {
      std::vector<int64_t> widths = o_.bottom;
      widths.push_back(o_.dim);
      bottom_ = std::make_unique<tenon::DenseLayers>(
          g, "bottom", dense.width, widths, 0.0, tenon::LastLayer::kActivated);
      const auto numbers = g.value("bottom", {"B", o_.dim});
      g.block("bottom",
              dense.values,
              {numbers},
              bottom_->parameters(),
              [this](const tenon::BlockCall& b) {
                // Columns keep their dtype, whatever the precision of the run.
                const at::Tensor x_BD = tenon::side_by_side(b, 0, b.num_inputs());
                return bottom_->run(b, x_BD.to(b.parameter(0).scalar_type()));
              });
      inputs.push_back(numbers);
      ++num_rows;
    }
    inputs.insert(inputs.end(), rows.values.begin(), rows.values.end());
    const int64_t num_pairs = num_rows * (num_rows - 1) / 2;
    const int64_t width = num_pairs + (dense.width > 0 ? o_.dim : 0);
    if (width == 0) {
      TENON_FAIL(
          TENON_INVALID,
          "dlrm.one_row",
          "a sample has a single row and no dense features, so there are no pairs; add a column");
    }
    const auto pairs = g.constant("pairs", {num_pairs}, TENON_I64, [num_rows](at::Tensor& out) {
      out.copy_(pair_indices(num_rows));
    });
    const auto features = g.value("features", {"B", width});
    g.block("interaction", inputs, {features}, {}, [this](const tenon::BlockCall& b) {
       const at::Tensor flat = tenon::side_by_side(b, 0, b.num_inputs());
       const at::Tensor rows_BND = flat.unflatten(1, {-1, o_.dim});
       const at::Tensor products_BNN = at::bmm(rows_BND, rows_BND.transpose(1, 2));
       const at::Tensor products_BP = products_BNN.flatten(1).index_select(1, b.buffer(0));
       return bottom_ == nullptr ? products_BP : at::cat({b.input(0), products_BP}, 1);
     }).buffers({pairs});

    std::vector<int64_t> widths = o_.top;
    widths.push_back(1);
    top_ = std::make_unique<tenon::DenseLayers>(
        g, "top", width, widths, o_.dropout, tenon::LastLayer::kPlain);
    g.block("top",
            {features},
            {g.value("logits", {"B"})},
            top_->parameters(),
            [this](const tenon::BlockCall& b) { return top_->run(b, b.input(0)).squeeze(1); });
  }

 private:
  // Flat indices of the entries below the diagonal of the product matrix, row by row.
  static at::Tensor pair_indices(int64_t num_rows) {
    const at::Tensor pairs = at::tril_indices(num_rows, num_rows, -1);
    return pairs[0] * num_rows + pairs[1];
  }

  Options o_;
  std::unique_ptr<tenon::DenseLayers> bottom_;
  std::unique_ptr<tenon::DenseLayers> top_;
};

TENON_PLUGIN(Dlrm)
