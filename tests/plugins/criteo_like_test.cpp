// SPDX-License-Identifier: Apache-2.0
#include "host/data/batch_builder.hpp"
#include "host/data/dataset_proxy.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"

namespace tenon {
namespace {

DatasetProxy clicks(const nlohmann::json& options) {
  return DatasetProxy(make_component("dataset", "criteo_like", options.dump()));
}

Batch read_criteo(DatasetProxy& source,
                  const std::vector<int64_t>& indices,
                  const Window* window = nullptr) {
  BatchBuilder builder(source, static_cast<int64_t>(indices.size()));
  source.read(window, indices, builder.writer());
  return builder.finish();
}

std::vector<int64_t> numbers_up_to(int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// Log loss and AUC of logits.
std::pair<double, double> quality(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor x = logits.to(at::kDouble);
  const at::Tensor y = labels.to(at::kDouble);
  const double loss = at::binary_cross_entropy_with_logits(x, y).item<double>();
  const at::Tensor sorted = y.index_select(0, x.argsort());
  const double num_positive = y.sum().item<double>();
  const double num_negative = static_cast<double>(y.numel()) - num_positive;
  const double ranks = (sorted * at::arange(1, y.numel() + 1, at::kDouble)).sum().item<double>();
  return {loss, (ranks - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative)};
}

}  // namespace

TEST_CASE("a made-up click depends on its number alone", "[plugins]") {
  DatasetProxy one = clicks({{"samples", 1000}});
  DatasetProxy later = clicks({{"samples", 10}, {"first", 500}});
  const Batch a = read_criteo(one, {3, 507, 3, 999});
  const Batch b = read_criteo(later, {7});
  for (const std::string field : {"c0", "c25", "dense", "label", "truth"}) {
    CAPTURE(field);
    CHECK(at::equal(a.find(field)->slice(0, 0, 1), a.find(field)->slice(0, 2, 3)));
    CHECK(at::equal(a.find(field)->slice(0, 1, 2), *b.find(field)));
  }
  DatasetProxy other = clicks({{"samples", 1000}, {"seed", 2}});
  CHECK_FALSE(at::equal(*read_criteo(other, {3}).find("dense"), a.find("dense")->slice(0, 0, 1)));
}

TEST_CASE("ids of made-up clicks are the same as columns and side by side", "[plugins]") {
  DatasetProxy columns = clicks({{"categorical", 3}, {"dense", 2}});
  DatasetProxy wide = clicks({{"categorical", 3}, {"dense", 2}, {"layout", "wide"}});
  const Batch a = read_criteo(columns, {5, 6});
  const Batch b = read_criteo(wide, {5, 6});
  REQUIRE(b.find("categorical")->sizes() == at::IntArrayRef({2, 3}));
  for (int64_t f = 0; f < 3; ++f) {
    CHECK(at::equal(*a.find("c" + std::to_string(f)), b.find("categorical")->select(1, f)));
  }
  CHECK(b.find("categorical")->ge(0).all().item<bool>());
  CHECK(b.find("categorical")->max().item<int64_t>() > (int64_t{1} << 60));
}

// Of a density r^-a on [1, n + 1) the share of the first id is (2^(1-a) - 1) / ((n+1)^(1-a) - 1).
TEST_CASE("ids of made-up clicks follow their power laws", "[plugins]") {
  constexpr int64_t kSamples = 40000;
  DatasetProxy source = clicks({{"categorical", 2}, {"num_ids", 1000}, {"exponents", {1.0, 1.5}}});
  const Batch batch = read_criteo(source, numbers_up_to(kSamples));
  const std::map<std::string, double> exponents = {{"c0", 1.0 + 1e-9}, {"c1", 1.5}};
  for (const auto& [column, a] : exponents) {
    const at::Tensor ids = *batch.find(column);
    std::map<int64_t, int64_t> counts;
    for (int64_t i = 0; i < kSamples; ++i) {
      ++counts[ids.const_data_ptr<int64_t>()[i]];
    }
    CHECK(counts.size() <= 1000);
    CHECK(counts.size() > 500);
    int64_t most = 0;
    for (const auto& [id, count] : counts) {
      most = std::max(most, count);
    }
    const double share = (std::pow(2.0, 1.0 - a) - 1.0) / (std::pow(1001.0, 1.0 - a) - 1.0);
    CHECK(static_cast<double>(most) / kSamples == Approx(share).epsilon(0.05));
  }
}

// The figures are those of the README.
TEST_CASE("the truth of made-up clicks does as well as is said", "[plugins]") {
  DatasetProxy source = clicks(nlohmann::json::object());
  const Batch batch = read_criteo(source, numbers_up_to(200000));
  const auto [loss, auc] = quality(*batch.find("truth"), *batch.find("label"));
  CHECK(loss == Approx(0.387).margin(0.003));
  CHECK(auc == Approx(0.886).margin(0.003));
  const at::Tensor dense = *batch.find("dense");
  CHECK(dense.mean().item<double>() == Approx(0.0).margin(0.01));
  CHECK(dense.std().item<double>() == Approx(1.0).margin(0.01));
}

TEST_CASE("windows of made-up clicks follow each other, and drift renames a share of the ids",
          "[plugins]") {
  DatasetProxy source = clicks({{"samples", 40000},
                                {"window_size", 10000},
                                {"first", 20000},
                                {"drift", 0.25},
                                {"categorical", 1},
                                {"num_ids", 500}});
  std::vector<std::set<int64_t>> seen;
  for (auto window = source.next_window(); window; window = source.next_window()) {
    CHECK(window->label() == std::to_string(seen.size() + 2));
    REQUIRE(source.size(&*window) == 10000);
    const at::Tensor ids =
        read_criteo(source, numbers_up_to(10000), &*window).find("c0")->contiguous();
    seen.emplace_back(ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel());
  }
  REQUIRE(seen.size() == 4);
  const auto shared = [&](size_t a, size_t b) {
    std::vector<int64_t> both;
    std::set_intersection(
        seen[a].begin(), seen[a].end(), seen[b].begin(), seen[b].end(), std::back_inserter(both));
    return static_cast<double>(both.size()) / static_cast<double>(seen[b].size());
  };
  CHECK(shared(0, 1) == Approx(0.75).margin(0.08));
  CHECK(shared(0, 2) == Approx(0.5).margin(0.08));
  CHECK(shared(0, 3) == Approx(0.25).margin(0.08));
}

TEST_CASE("options of made-up clicks that do not fit each other are refused", "[plugins]") {
  CHECK_THAT(error_of([] { clicks({{"drift", 0.1}}); }), contains_text("[criteo_like.windows]"));
  CHECK_THAT(error_of([] {
               clicks({{"window_size", 7}});
             }),
             contains_text("[criteo_like.windows]"));
  CHECK_THAT(error_of([] {
               clicks({{"exponents", {1.0, 1.1, 1.2}}});
             }),
             contains_text("`exponents` has 3"));
}

}  // namespace tenon
