// SPDX-License-Identifier: Apache-2.0
//
// Two towers: separate dense layers map query features and item features to vectors of the same
// width. Their dot product is the score, computed by the loss `in_batch_softmax` for all pairs of a
// batch. Item vectors can be precomputed and searched.
//
// Source: Yi et al., Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations
// (2019), section 3.
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

struct Tower : tenon::IdColumns {
  std::vector<tenon::DenseColumn> dense;
  static void bind(tenon::OptionBinder<Tower>& b) {
    tenon::bind_id_columns(b);
    b.field("dense", &Tower::dense).doc("dense columns of numbers");
  }
};

struct TwoTowerOptions {
  Tower query;
  Tower item;
  int64_t dim = 16;
  double init_std = 0.01;
  std::vector<int64_t> hidden = {64};
  int64_t width = 32;
  double dropout = 0.0;
  bool normalize = true;
};

}  // namespace

class TwoTower final : public tenon::TorchModel {
 public:
  static constexpr const char* kType = "two_tower";
  static constexpr const char* kSummary =
      "two towers: a query vector and an item vector per sample";
  using Options = TwoTowerOptions;
  static void bind(tenon::OptionBinder<Options>& b) {
    b.field("query", &Options::query).doc("columns of the query tower");
    b.field("item", &Options::item).doc("columns of the item tower");
    b.field("dim", &Options::dim)
        .min(1)
        .max(tenon::kMaxRowWidth)
        .doc("embedding dimension: width of a table row");
    b.field("init_std", &Options::init_std).min(0).doc("standard deviation of initial row values");
    b.field("hidden", &Options::hidden)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc("widths of the hidden layers of each tower");
    b.field("width", &Options::width)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc("width of the output vectors");
    tenon::bind_dropout(b);
    b.field("normalize", &Options::normalize)
        .doc("normalize output vectors to length 1, so that scores are cosines");
  }

  explicit TwoTower(const Options& options) : o_(options) {}

  void describe(tenon::TorchGraph& g) override {
    query_ = add_tower(g, "query", "queries", o_.query);
    item_ = add_tower(g, "item", "items", o_.item);
  }

 private:
  std::unique_ptr<tenon::DenseLayers> add_tower(tenon::TorchGraph& g,
                                                const std::string& name,
                                                const std::string& output,
                                                const Tower& columns) const {
    const tenon::ColumnLookups rows =
        tenon::look_up_columns(g, columns, name + ".", "", o_.dim, o_.init_std);
    const tenon::DenseInputs dense = tenon::add_dense(g, columns.dense);
    std::vector<int64_t> widths = o_.hidden;
    widths.push_back(o_.width);
    auto layers = std::make_unique<tenon::DenseLayers>(g,
                                                       name,
                                                       rows.num_rows * o_.dim + dense.width,
                                                       widths,
                                                       o_.dropout,
                                                       tenon::LastLayer::kPlain);
    std::vector<tenon::ValueId> inputs = rows.values;
    inputs.insert(inputs.end(), dense.values.begin(), dense.values.end());
    g.block(name,
            inputs,
            {g.value(output, {"B", o_.width})},
            layers->parameters(),
            [this, tower = layers.get()](const tenon::BlockCall& b) {
              const at::Tensor out = tower->run(b, tenon::side_by_side(b, 0, b.num_inputs()));
              if (!o_.normalize) {
                return out;
              }
              return out / at::linalg_vector_norm(out, 2, {1}, /*keepdim=*/true).clamp_min(1e-12);
            });
    return layers;
  }

  Options o_;
  std::unique_ptr<tenon::DenseLayers> query_;
  std::unique_ptr<tenon::DenseLayers> item_;
};

TENON_PLUGIN(TwoTower)
