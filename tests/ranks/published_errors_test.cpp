// SPDX-License-Identifier: Apache-2.0
//
// Errors that training programs have had on several ranks, as reported in public. Each case has the
// right number, ours, and the one that the error gives (docs/ranks.md, "Published errors"). Errors
// of operators are in tests/host/kernels.
#include <algorithm>
#include <cmath>
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

// Start minus end, of a tied parameter under one name.
NamedValues step_of(const NamedValues& start, const NamedValues& end) {
  NamedValues step = start;
  step.erase("lm_head.weight");
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

}  // namespace tenon
