// SPDX-License-Identifier: Apache-2.0
//
// DCN-V2: cross layers x_{l+1} = x0 * (W_l x_l + b_l) + x_l over all features x0 (rows and numbers
// concatenated), in parallel with dense layers or stacked below them.
//
// Letters in tensor names: B samples, W width of all features, R rank.
//
// Source: Wang et al., DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale
// Learning to Rank Systems (2021), sections 3.2, 3.4 (both structures) and 4.2 (low rank).
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/model.hpp>

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../columns.hpp"
#include "../dense_layers.hpp"

namespace {

enum class Structure { kParallel, kStacked };

struct DcnOptions : tenon::ColumnOptions {
  int64_t cross_layers = 3;
  std::optional<int64_t> rank;
  Structure structure = Structure::kParallel;
  std::vector<int64_t> hidden = {128, 64};
  double dropout = 0.0;
};

}  // namespace

class DcnV2 final : public tenon::TorchModel {
 public:
  static constexpr const char* kType = "dcn_v2";
  static constexpr const char* kSummary = "DCN-V2: cross layers and dense layers over id columns";
  using Options = DcnOptions;
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_columns(b);
    b.field("cross_layers", &Options::cross_layers)
        .min(1)
        .max(tenon::kMaxLayers)
        .doc("number of cross layers");
    b.field("rank", &Options::rank)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc("rank of the cross layers' low-rank matrices; null: full rank");
    b.choice("structure",
             &Options::structure,
             {{"parallel", Structure::kParallel}, {"stacked", Structure::kStacked}})
        .doc("dense layers in parallel with the cross layers, or stacked on top");
    b.field("hidden", &Options::hidden)
        .min_items(1)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc("widths of the dense layers");
    tenon::bind_dropout(b);
  }

  explicit DcnV2(const Options& options) : o_(options) {}

  void describe(tenon::TorchGraph& g) override {
    const tenon::ColumnLookups rows =
        tenon::look_up_columns(g, o_, "embedding.", "", o_.dim, o_.init_std);
    const tenon::DenseInputs dense = tenon::add_dense(g, o_.dense);
    const int64_t width = rows.num_rows * o_.dim + dense.width;
    std::vector<tenon::ValueId> inputs = rows.values;
    inputs.insert(inputs.end(), dense.values.begin(), dense.values.end());
    const auto features = g.value("features", {"B", width});
    g.block("features", inputs, {features}, {}, [](const tenon::BlockCall& b) {
      return tenon::side_by_side(b, 0, b.num_inputs());
    });

    const auto crossed = g.value("crossed", {"B", width});
    g.block("cross",
            {features},
            {crossed},
            cross_parameters(g, width),
            [this](const tenon::BlockCall& b) { return cross(b); });

    const bool is_parallel = o_.structure == Structure::kParallel;
    deep_ = std::make_unique<tenon::DenseLayers>(
        g, "deep", width, o_.hidden, o_.dropout, tenon::LastLayer::kActivated);
    head_ = std::make_unique<tenon::DenseLayers>(g,
                                                 "head",
                                                 deep_->width() + (is_parallel ? width : 0),
                                                 std::vector<int64_t>{1},
                                                 0.0,
                                                 tenon::LastLayer::kPlain);
    std::vector<tenon::ParameterId> parameters = deep_->parameters();
    const size_t num_deep = parameters.size();
    parameters.insert(parameters.end(), head_->parameters().begin(), head_->parameters().end());
    const auto logits = g.value("logits", {"B"});
    if (is_parallel) {
      g.block("deep",
              {features, crossed},
              {logits},
              parameters,
              [this, num_deep](const tenon::BlockCall& b) {
                const at::Tensor deep = deep_->run(b, b.input(0));
                return head_->run(b, at::cat({b.input(1), deep}, 1), num_deep).squeeze(1);
              });
    } else {
      g.block("deep", {crossed}, {logits}, parameters, [this, num_deep](const tenon::BlockCall& b) {
        return head_->run(b, deep_->run(b, b.input(0)), num_deep).squeeze(1);
      });
    }
  }

 private:
  std::vector<tenon::ParameterId> cross_parameters(tenon::TorchGraph& g, int64_t width) const {
    std::vector<tenon::ParameterId> matrices;
    const auto add = [&](const std::string& name, int64_t out, int64_t in) {
      const double bound = 1.0 / std::sqrt(static_cast<double>(in));
      matrices.push_back(g.parameter(name, {out, in}, tenon::Init::uniform(-bound, bound)));
    };
    for (int64_t l = 0; l < o_.cross_layers; ++l) {
      const std::string layer = "cross." + std::to_string(l);
      if (o_.rank) {
        add(layer + ".down.weight", *o_.rank, width);
        add(layer + ".up.weight", width, *o_.rank);
      } else {
        add(layer + ".weight", width, width);
      }
      matrices.push_back(
          g.parameter(layer + ".bias", {width}, tenon::Init::zeros(), TENON_PARAM_NO_DECAY));
    }
    return matrices;
  }

  at::Tensor cross(const tenon::BlockCall& b) const {
    const at::Tensor& first_BW = b.input(0);
    at::Tensor x_BW = first_BW;
    size_t p = 0;
    for (int64_t l = 0; l < o_.cross_layers; ++l) {
      at::Tensor narrow = x_BW;
      if (o_.rank) {
        narrow = tenon::ops::linear(x_BW, {b.parameter(p++)});  // [B, R]
      }
      const at::Tensor mixed_BW = tenon::ops::linear(narrow, {b.parameter(p)}, b.parameter(p + 1));
      p += 2;
      x_BW = at::addcmul(x_BW, first_BW, mixed_BW);
    }
    return x_BW;
  }

  Options o_;
  std::unique_ptr<tenon::DenseLayers> deep_;
  std::unique_ptr<tenon::DenseLayers> head_;
};

TENON_PLUGIN(DcnV2)
