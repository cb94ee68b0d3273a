// SPDX-License-Identifier: Apache-2.0
#include "host/train/generate/token_sampler.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

at::Tensor logits_of(const std::vector<float>& values) {
  return at::tensor(values);
}

// How often each id is drawn at 20000 positions.
std::map<int64_t, double> shares(const Sampling& sampling, const at::Tensor& logits) {
  constexpr int kDraws = 20000;
  const TokenSampler sampler(sampling, logits.numel());
  std::map<int64_t, double> found;
  for (int i = 0; i < kDraws; ++i) {
    found[sampler.pick(logits, static_cast<uint64_t>(i)).value()] += 1.0 / kDraws;
  }
  return found;
}

}  // namespace

TEST_CASE("the most likely token is chosen, the first one of several", "[train]") {
  const TokenSampler sampler({}, 5);
  CHECK(sampler.pick(logits_of({0.0F, 2.0F, 1.0F, 2.0F, -1.0F}), 0) == 1);
  CHECK(sampler.pick(logits_of({3.0F, 2.0F}), 7) == 0);
  // Ids that the tokenizer does not have are never chosen.
  CHECK(TokenSampler({}, 2).pick(logits_of({0.0F, 1.0F, 9.0F}), 0) == 1);
  const float lowest = -std::numeric_limits<float>::infinity();
  CHECK(sampler.pick(logits_of({lowest, lowest, -5.0F}), 0) == 2);
}

TEST_CASE("tokens are drawn with their probabilities", "[train]") {
  // Probabilities 1/2, 1/4, 1/8, 1/8.
  const at::Tensor logits =
      logits_of({std::log(0.125F), std::log(0.5F), std::log(0.125F), std::log(0.25F)});
  const auto all = shares({.temperature = 1}, logits);
  CHECK(all.at(1) == Approx(0.5).margin(0.02));
  CHECK(all.at(3) == Approx(0.25).margin(0.02));
  CHECK(all.at(0) == Approx(0.125).margin(0.02));

  // At temperature 0.5, probabilities are squared: 16, 4, 1, 1 of 22.
  const auto cold = shares({.temperature = 0.5}, logits);
  CHECK(cold.at(1) == Approx(16.0 / 22).margin(0.02));
  CHECK(cold.at(0) == Approx(1.0 / 22).margin(0.02));

  const auto two = shares({.temperature = 1, .top_k = 2}, logits);
  CHECK(two.size() == 2);
  CHECK(two.at(1) == Approx(2.0 / 3).margin(0.02));
  CHECK(shares({.temperature = 1, .top_k = 1}, logits).size() == 1);

  // The fewest tokens that have 0.6 together are the first two, 0.8 the first three; of the equal
  // ones, that with the smaller id.
  CHECK(shares({.temperature = 1, .top_p = 0.6}, logits).size() == 2);
  const auto three = shares({.temperature = 1, .top_p = 0.8}, logits);
  CHECK(three.size() == 3);
  CHECK(three.contains(0));
  CHECK(shares({.temperature = 1, .top_p = 0.01}, logits).size() == 1);
}

TEST_CASE("the seed and the position decide what is drawn", "[train]") {
  const at::Tensor logits = at::zeros({1000});
  const auto draw = [&](uint64_t seed) {
    const TokenSampler sampler({.temperature = 1, .seed = seed}, 1000);
    std::vector<int64_t> ids;
    for (uint64_t position = 0; position < 20; ++position) {
      ids.push_back(sampler.pick(logits, position).value());
    }
    return ids;
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
}

TEST_CASE("logits that are not numbers give no token", "[train]") {
  const TokenSampler sampler({.temperature = 1}, 3);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(sampler.pick(logits_of({0.0F, nan, 1.0F}), 0).has_value());
  const float lowest = -std::numeric_limits<float>::infinity();
  CHECK_FALSE(sampler.pick(logits_of({lowest, lowest, lowest}), 0).has_value());
}

}  // namespace tenon
