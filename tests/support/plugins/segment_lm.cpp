// SPDX-License-Identifier: Apache-2.0
//
// A language model in which every position depends on all earlier positions of its sample, and on
// its place in it: embeddings, one layer of causal attention, a head. With "segments" it keeps the
// samples of a row apart; without, it reads neither segments nor positions.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/module.hpp>

#include <ATen/ATen.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <cstdint>
#include <memory>

namespace {

struct SegmentLmOptions {
  int64_t vocab_size = 16;
  int64_t dim = 8;
  int64_t max_positions = 64;
  bool segments = true;
  bool lengths = false;
};

struct Embeddings : torch::nn::Module {
  Embeddings(int64_t vocab, int64_t positions, int64_t dim) {
    tokens = register_module("tokens", torch::nn::Embedding(vocab, dim));
    places = register_module("places", torch::nn::Embedding(positions, dim));
  }
  at::Tensor forward(const at::Tensor& ids_BT, const at::Tensor& positions_BT) {
    return tokens->forward(ids_BT) + places->forward(positions_BT);
  }
  torch::nn::Embedding tokens = nullptr;
  torch::nn::Embedding places = nullptr;
};

struct Attention : torch::nn::Module {
  explicit Attention(int64_t dim) {
    query = register_module("query", torch::nn::Linear(dim, dim));
    key = register_module("key", torch::nn::Linear(dim, dim));
    value = register_module("value", torch::nn::Linear(dim, dim));
  }
  // Shapes  hidden_by [B, T, T]: true where a position does not see another
  at::Tensor forward(const at::Tensor& x_BTD, const at::Tensor& hidden_by) {
    const at::Tensor scores_BTT =
        at::matmul(query->forward(x_BTD), key->forward(x_BTD).transpose(1, 2))
            .masked_fill(hidden_by, -HUGE_VAL);
    return x_BTD + at::matmul(scores_BTT.softmax(-1), value->forward(x_BTD));
  }
  torch::nn::Linear query = nullptr;
  torch::nn::Linear key = nullptr;
  torch::nn::Linear value = nullptr;
};

at::Tensor later_positions(const at::Tensor& x) {
  const int64_t T = x.size(1);
  return at::ones({1, T, T}, x.options().dtype(at::kBool)).triu(1);
}

class SegmentLm final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "segment_lm";
  static constexpr const char* kSummary = "Test: attention within the samples of a row";
  using Options = SegmentLmOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("vocab_size", &Options::vocab_size).min(1).doc("tokens are below it");
    binder.field("dim", &Options::dim).min(1).doc("width");
    binder.field("max_positions", &Options::max_positions).min(1).doc("positions are below it");
    binder.field("segments", &Options::segments).doc("reads position_ids and segment_ids");
    binder.field("lengths", &Options::lengths).doc("reads lengths, and checks their sizes");
  }

  explicit SegmentLm(const Options& options) : options_(options) {}

  void describe(tenon::ModuleGraph& g) override {
    const int64_t dim = options_.dim;
    const int64_t vocab = options_.vocab_size;
    const int64_t positions = options_.max_positions;
    const auto ids = g.input("input_ids", {"B", "T"}, TENON_I64);
    const auto x = g.value("x", {"B", "T", dim});
    const auto h = g.value("h", {"B", "T", dim});
    const auto embed = [=] { return std::make_shared<Embeddings>(vocab, positions, dim); };
    const auto attend = [=] { return std::make_shared<Attention>(dim); };
    using Embed = std::shared_ptr<Embeddings>;
    using Attend = std::shared_ptr<Attention>;
    if (options_.segments) {
      const auto places = g.input("position_ids", {"B", "T"}, TENON_I64);
      const auto segments = g.input("segment_ids", {"B", "T"}, TENON_I64);
      g.module("embed",
               {ids, places},
               {x},
               embed,
               [](Embed& m, const at::Tensor& ids_BT, const at::Tensor& places_BT) {
                 return m->forward(ids_BT, places_BT);
               });
      g.module("attention",
               {x, segments},
               {h},
               attend,
               [](Attend& m, const at::Tensor& x_BTD, const at::Tensor& segments_BT) {
                 const at::Tensor others = segments_BT.unsqueeze(2).ne(segments_BT.unsqueeze(1));
                 return m->forward(x_BTD, others.logical_or(later_positions(x_BTD)));
               });
    } else {
      g.module("embed", {ids}, {x}, embed, [](Embed& m, const at::Tensor& ids_BT) {
        return m->forward(ids_BT, at::arange(ids_BT.size(1), ids_BT.options()).expand_as(ids_BT));
      });
      g.module("attention", {x}, {h}, attend, [](Attend& m, const at::Tensor& x_BTD) {
        return m->forward(x_BTD, later_positions(x_BTD));
      });
    }
    const auto logits = g.value("logits", {"B", "T", vocab});
    const auto head = [=] { return torch::nn::Linear(dim, vocab); };
    if (!options_.lengths) {
      g.module("head", {h}, {logits}, head, [](torch::nn::Linear& m, const at::Tensor& h_BTD) {
        return m->forward(h_BTD);
      });
      return;
    }
    const auto lengths = g.input("lengths", {"B"}, TENON_I64);
    g.module("head",
             {h, lengths},
             {logits},
             head,
             [](torch::nn::Linear& m, const at::Tensor& h_BTD, const at::Tensor& lengths_B) {
               TENON_CHECK(lengths_B.max().item<int64_t>() <= h_BTD.size(1) &&
                               lengths_B.min().item<int64_t>() > 0,
                           "lengths that do not fit");
               return m->forward(h_BTD);
             });
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(SegmentLm)
