// SPDX-License-Identifier: Apache-2.0
//
// Errors that training programs have had on several ranks, as reported in public. Each case has the
// right number, ours, and the one that the error gives (docs/ranks.md, "Published errors"). Errors
// of operators are in tests/host/kernels.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/ranks/finished_run.hpp"
#include "tests/ranks/mesh_recipes.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/published_error.hpp"

namespace tenon {
namespace {

using nlohmann::json;

constexpr char kTwoStages[] = R"({"parallel": {"pipeline": 2}})";

// One step of the model `name` by gradient descent with a learning rate of 1.
json one_step(const std::string& name, const std::string& patch = "{}") {
  json recipe = mesh_recipe(name);
  recipe["optimizer"] = {{"type", "sgd"}, {"options", {{"lr", 1.0}}}};
  recipe.erase("lr_scheduler");
  recipe.erase("eval");
  recipe["data"].erase("eval");
  recipe["train"]["clip_grad_norm"] = 1e6;  // clips nothing, but records the norm
  recipe["train"]["steps"] = 1;
  return merged(recipe, patch);
}

json four_heads(const std::string& patch = "{}") {
  return merged(one_step("tied", R"({"model": {"options": {"num_attention_heads": 4}}})"), patch);
}

// A learning rate that changes no parameter.
json without_step(json recipe) {
  recipe["optimizer"]["options"]["lr"] = 1e-300;
  return recipe;
}

constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "model.embed_tokens.weight";

// Start minus end, of a tied parameter under one name.
NamedValues step_of(const NamedValues& start, const NamedValues& end) {
  NamedValues step = start;
  if (end.contains(kHead) && end.at(kHead) == end.at(kEmbedding)) {
    step.erase(kHead);
  }
  for (auto& [name, values] : step) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] -= end.at(name)[i];
    }
  }
  return step;
}

NamedValues gradients_of(const json& recipe) {
  return step_of(run_alone(without_step(recipe)).parameters, run_alone(recipe).parameters);
}

NamedValues gradients_on(const json& recipe, const std::string& patch, uint32_t num_ranks) {
  return step_of(run_alone(without_step(recipe)).parameters,
                 finished_run(merged(recipe, patch), num_ranks).parameters);
}

double sum_of_squares(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) {
    sum += value * value;
  }
  return sum;
}

// The norm of the parameters whose names contain `part`.
double norm_of(const NamedValues& all, const std::string& part = "") {
  double sum = 0;
  for (const auto& [name, values] : all) {
    sum += name.find(part) == std::string::npos ? 0 : sum_of_squares(values);
  }
  return std::sqrt(sum);
}

double grad_norm_of(const FinishedRun& run) {
  return run.metrics.front().at("grad_norm").get<double>();
}

// A llama of four layers without a tied head, whose step has four microbatches of two samples. All
// labels count.
json staged(const std::string& patch = "{}") {
  return merged(one_step("tied", R"({"model": {"options": {
      "tie_word_embeddings": false, "num_hidden_layers": 4}},
      "data": {"batch_size": 2, "train": {"options": {"ragged": false}}}})"),
                patch);
}

// A step of gradient descent on the first samples of those of `staged`.
NamedValues gradients_of_first(int num_samples) {
  json recipe = staged();
  recipe["train"]["global_batch_size"] = num_samples;
  return gradients_of(recipe);
}

// `all` minus `factor` times `part`.
NamedValues minus(NamedValues all, const NamedValues& part, double factor) {
  for (auto& [name, values] : all) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] -= factor * part.at(name)[i];
    }
  }
  return all;
}

// A llama with weights of a file whose head is its embedding. With `tied` false, the head is
// another parameter with the same values.
json loaded_llama(bool tied) {
  json recipe = pair_recipe("{}");
  const json model = recipe["models"]["reference"];
  recipe = one_step("tied");
  recipe["model"] = {{"type", "llama"}, {"options", model["options"]}};
  recipe["model"]["options"]["tie_word_embeddings"] = tied;
  recipe["load"] = model["load"];
  if (!tied) {
    recipe["load"][0]["exclude"] = {kHead};
    recipe["load"][0]["may_differ"] = {"tie_word_embeddings"};
    json head = recipe["load"][0];
    head.erase("exclude");
    head["match"] = {kHead};
    head["rename"] = {{{"from", kEmbedding}, {"to", kHead}}};
    recipe["load"].push_back(head);
  }
  return recipe;
}

// Rows of a matrix.
using Rows = std::vector<std::vector<double>>;

Rows rows_of(const std::vector<double>& values, size_t num_columns) {
  Rows rows;
  for (size_t i = 0; i < values.size(); i += num_columns) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(i);
    rows.emplace_back(first, first + static_cast<std::ptrdiff_t>(num_columns));
  }
  return rows;
}

Rows times(const Rows& a, const Rows& b, bool is_transposed = false) {
  Rows out(a.size(), std::vector<double>(is_transposed ? b.size() : b[0].size()));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = 0; k < out[i].size(); ++k) {
      for (size_t j = 0; j < a[i].size(); ++j) {
        out[i][k] += a[i][j] * (is_transposed ? b[k][j] : b[j][k]);
      }
    }
  }
  return out;
}

// The sum of squares of what the iteration of Muon makes of a matrix without more rows than
// columns.
//
// Source  Jordan et al., Muon: An optimizer for hidden layers in neural networks (2024)
double squares_of_muon(Rows x) {
  double squares = 0;
  for (const auto& row : x) {
    squares += sum_of_squares(row);
  }
  for (auto& row : x) {
    for (double& value : row) {
      value /= std::sqrt(squares);
    }
  }
  for (int step = 0; step < 5; ++step) {
    const Rows gram = times(x, x, true);
    const Rows of_gram = times(gram, gram);
    Rows factor = gram;
    for (size_t i = 0; i < gram.size(); ++i) {
      for (size_t j = 0; j < gram.size(); ++j) {
        factor[i][j] = -4.775 * gram[i][j] + 2.0315 * of_gram[i][j] + (i == j ? 3.4445 : 0);
      }
    }
    x = times(factor, x);
  }
  squares = 0;
  for (const auto& row : x) {
    squares += sum_of_squares(row);
  }
  return squares;
}

}  // namespace

TEST_CASE("published: a norm that counts the parameters of each replica", "[ranks][multi-rank]") {
  const json recipe = four_heads();
  const double right = norm_of(gradients_of(recipe));
  const FinishedRun run = finished_run(
      merged(recipe, R"({"data": {"batch_size": 2}, "parallel": {"replicate": 2, "shard": 2}})"),
      4);
  check_published({.right = right, .ours = grad_norm_of(run), .error = right * std::sqrt(2.0)},
                  {.ours = 2.901, .error = 4.103});
}

TEST_CASE("published: a norm that counts whole parameters on each tensor rank",
          "[ranks][multi-rank]") {
  const json recipe = four_heads();
  const NamedValues gradients = gradients_of(recipe);
  const double whole = norm_of(gradients);
  // Norms of layers are not divided, and one head of keys is on both ranks.
  double twice = whole * whole;
  for (const char* const name : {"norm", "k_proj", "v_proj"}) {
    twice += std::pow(norm_of(gradients, name), 2);
  }
  const FinishedRun run = finished_run(merged(recipe, R"({"parallel": {"tensor": 2}})"), 2);
  check_published({.right = whole, .ours = grad_norm_of(run), .error = std::sqrt(twice)},
                  {.ours = 2.901, .error = 3.224});
}

TEST_CASE("published: gradients averaged over the ranks of a sequence", "[ranks][multi-rank]") {
  const json recipe = four_heads();
  const double right = norm_of(gradients_of(recipe));
  for (const auto& [num_ranks, by] : {std::pair{2U, "ulysses"}, {4U, "gather"}}) {
    const json mesh = {{"parallel", {{"context", num_ranks}, {"context_by", by}}}};
    check_published({.right = right,
                     .ours = norm_of(gradients_on(recipe, mesh.dump(), num_ranks)),
                     .error = right / num_ranks},
                    {.ours = 2.901, .error = 2.901 / num_ranks});
  }
}

TEST_CASE("published: the loss of a rank without labels", "[ranks][multi-rank]") {
  // Of 2 samples of 7 tokens, one label is not ignored: the first one of the second sample.
  const json recipe = four_heads(R"({"data": {"batch_size": 2, "train": {
      "options": {"samples": 2, "length": 7}}}, "train": {"global_batch_size": 2}})");
  const double right = run_alone(recipe).metrics.front().at("loss").get<double>();
  const FinishedRun run = finished_run(merged(recipe, R"({"parallel": {"context": 4}})"), 4);
  const double ours = run.metrics.front().at("loss").get<double>();
  // The mean of the ranks' means.
  double error = 0;
  for (const double labels : {1.0, 0.0, 0.0, 0.0}) {
    error += labels * right / labels / 4;
  }
  CHECK(ours == Approx(right).epsilon(1e-10));
  CHECK(ours == Approx(4.281).epsilon(1e-3));
  CHECK(std::isnan(error));
}

TEST_CASE("published: auxiliary losses times the number of ranks", "[ranks][multi-rank]") {
  const auto recipe_with = [](double factor) {
    json recipe = one_step("experts", R"({"model": {"options": {"num_attention_heads": 4}}})");
    json& options = recipe["model"]["options"];
    options["router_aux_loss_coef"] = 0.1 * factor;
    options["router_z_loss_coef"] = 0.01 * factor;
    return recipe;
  };
  const json recipe = recipe_with(1);
  const std::string router = "mlp.gate.weight";
  for (const char* const dimension : {"tensor", "context"}) {
    CAPTURE(dimension);
    const json mesh = {{"parallel", {{dimension, 2}}}};
    check_published({.right = norm_of(gradients_of(recipe), router),
                     .ours = norm_of(gradients_on(recipe, mesh.dump(), 2), router),
                     .error = norm_of(gradients_of(recipe_with(2)), router)},
                    {.ours = 0.1422, .error = 0.2317});
  }
}

TEST_CASE("published: initial values of an adapter from the sizes of a part",
          "[ranks][multi-rank]") {
  const json recipe = without_step(four_heads(R"({"model": {"frozen": ["*"], "parametrizations": [
      {"match": "*.down_proj.weight", "type": "lora", "options": {"rank": 4, "alpha": 8}}]}})"));
  const NamedValues alone = run_alone(recipe).parameters;
  const NamedValues values =
      finished_run(merged(recipe, R"({"parallel": {"tensor": 2}})"), 2).parameters;
  CHECK(largest_difference(values, alone) <= 1e-290);  // the step on zeros
  // Uniform within 1 / sqrt(inputs).
  const double right = norm_of(alone, "lora_a");
  check_published(
      {.right = right, .ours = norm_of(values, "lora_a"), .error = right * std::sqrt(2.0)},
      {.ours = 1.619, .error = 2.290});
}

TEST_CASE("published: Muon on the slice of each rank", "[ranks][multi-rank]") {
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  const Rows gradient = rows_of(gradients_of(four_heads()).at(name), 16);
  const Rows upper(gradient.begin(), gradient.begin() + 8);
  const Rows lower(gradient.begin() + 8, gradient.end());
  json recipe = four_heads();
  recipe["optimizer"] = json::parse(R"({"type": "muon", "options": {
      "lr": 1, "weight_decay": 0, "ns_dtype": "parameter"}, "groups": [
      {"match": "*norm*", "type": "sgd", "lr": 1}]})");
  check_published({.right = std::sqrt(squares_of_muon(gradient)),
                   .ours = norm_of(gradients_on(recipe, R"({"parallel": {"tensor": 2}})", 2), name),
                   .error = std::sqrt(squares_of_muon(upper) + squares_of_muon(lower))},
                  {.ours = 2.958, .error = 3.668},
                  1e-5);
}

TEST_CASE("published: gradients divided by the microbatches of a pipeline", "[ranks][multi-rank]") {
  const double right = norm_of(gradients_of(staged()));
  check_published(
      {.right = right, .ours = norm_of(gradients_on(staged(), kTwoStages, 2)), .error = right / 4},
      {.ours = 5.899, .error = 1.475});
}

TEST_CASE("published: a pipeline that keeps the gradients of its last microbatch",
          "[ranks][multi-rank]") {
  const NamedValues whole = gradients_of(staged());
  // 6 of the 8 samples are those of other microbatches.
  const NamedValues last = minus(whole, gradients_of_first(6), 0.75);
  check_published({.right = norm_of(whole),
                   .ours = norm_of(gradients_on(staged(), kTwoStages, 2)),
                   .error = norm_of(last)},
                  {.ours = 5.899, .error = 1.784});
}

TEST_CASE("published: fewer microbatches than stages, and the last one is dropped",
          "[ranks][multi-rank]") {
  const json recipe = staged(R"({"data": {"batch_size": 4}})");
  const NamedValues first = gradients_of_first(4);
  for (const char* const schedule : {"1f1b", "gpipe"}) {
    CAPTURE(schedule);
    const json mesh = {{"parallel", {{"pipeline", 4}, {"schedule", schedule}}}};
    check_published({.right = norm_of(gradients_of(recipe)),
                     .ours = norm_of(gradients_on(recipe, mesh.dump(), 4)),
                     .error = norm_of(first) / 2},
                    {.ours = 5.899, .error = 4.829});
  }
}

TEST_CASE("published: a norm of the stages of a rank", "[ranks][multi-rank]") {
  const NamedValues gradients = gradients_of(staged());
  double of_rank_0 = 0;
  for (const char* const name : {"embed", "layers.0.", "layers.1."}) {
    of_rank_0 += std::pow(norm_of(gradients, name), 2);
  }
  const FinishedRun run = finished_run(
      merged(staged(), R"({"parallel": {"pipeline": 2, "stage_starts": ["*layers.2*"]}})"), 2);
  check_published(
      {.right = norm_of(gradients), .ours = grad_norm_of(run), .error = std::sqrt(of_rank_0)},
      {.ours = 5.899, .error = 5.733});
}

TEST_CASE("published: the loss of a rank without the last stage", "[ranks][multi-rank]") {
  const double right = run_alone(staged()).metrics.front().at("loss").get<double>();
  const FinishedRun run = finished_run(merged(staged(), kTwoStages), 2);
  const double ours = run.metrics.front().at("loss").get<double>();
  check_published({.right = right, .ours = ours, .error = -1}, {.ours = 3.406, .error = -1});
  // The mean over both stages, of which one has a loss of 0.
  check_published({.right = right, .ours = ours, .error = right / 2},
                  {.ours = 3.406, .error = 1.703});
}

TEST_CASE("published: a tied embedding without the gradient of its other stage",
          "[ranks][multi-rank]") {
  const NamedValues gradients = gradients_of(loaded_llama(true));
  // What the embedding and the head add.
  const NamedValues apart = gradients_of(loaded_llama(false));
  std::vector<double> sum = apart.at(kHead);
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] += apart.at(kEmbedding)[i];
  }
  CHECK(largest_difference({{kEmbedding, sum}}, {{kEmbedding, gradients.at(kEmbedding)}}) <= 1e-10);
  check_published({.right = norm_of(gradients, kEmbedding),
                   .ours = norm_of(gradients_on(loaded_llama(true), kTwoStages, 2), kEmbedding),
                   .error = norm_of(apart, kEmbedding)},
                  {.ours = 1.743, .error = 1.530});
}

TEST_CASE("published: a norm that counts a tied parameter on both of its stages",
          "[ranks][multi-rank]") {
  const NamedValues gradients = gradients_of(loaded_llama(true));
  const FinishedRun run = finished_run(merged(loaded_llama(true), kTwoStages), 2);
  check_published({.right = norm_of(gradients),
                   .ours = grad_norm_of(run),
                   .error = std::hypot(norm_of(gradients), norm_of(gradients, kEmbedding))},
                  {.ours = 2.699, .error = 3.213});
}

TEST_CASE("published: the gradient of a value that skips a stage", "[ranks][multi-rank]") {
  const json recipe = one_step("skip_lm");
  const json error = one_step("skip_lm", R"({"model": {"options": {"loses_gradient": true}}})");
  check_published(
      {.right = norm_of(gradients_of(recipe), "embed"),
       .ours = norm_of(gradients_on(recipe, R"({"parallel": {"pipeline": 4}})", 4), "embed"),
       .error = norm_of(gradients_of(error), "embed")},
      {.ours = 0.1249, .error = 0.02330});
}

}  // namespace tenon
