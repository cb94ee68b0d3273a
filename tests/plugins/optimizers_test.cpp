// SPDX-License-Identifier: Apache-2.0
//
// The oracle is PyTorch: tests/parity/optim_golden.py wrote the values, and says how.
#include "host/plugin/optimizer_proxy.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/plugins/optimizer_pieces.hpp"
#include "tests/support/paths.hpp"

namespace {

using tenon::Pieces;

tenon::OptimizerProxy make_optimizer(const std::string& type, const std::string& options = "{}") {
  return tenon::OptimizerProxy(tenon::make_component("optimizer", type, options));
}

nlohmann::json golden_optimizers() {
  std::ifstream in(tenon::source_dir() / "tests" / "parity" / "optim_golden.json");
  return nlohmann::json::parse(in);
}

// The formulas of optim_golden.py.
double start(int64_t piece, int64_t i) {
  return std::sin(1.0 + static_cast<double>(i) + 10.0 * static_cast<double>(piece));
}
double gradient(int64_t piece, int64_t i, int64_t step, double value) {
  return 0.5 * value + std::cos(0.3 * static_cast<double>(i) + 0.7 * static_cast<double>(step) +
                                static_cast<double>(piece));
}
double factor(int64_t step) {
  return 1.0 - static_cast<double>(step - 1) / 200.0;
}

template <class Function>
at::Tensor filled(at::IntArrayRef shape, Function&& value) {
  at::Tensor out = at::empty(shape, at::kDouble);
  double* data = out.mutable_data_ptr<double>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    data[i] = value(i);
  }
  return out;
}

std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& parameters, int64_t step) {
  std::vector<at::Tensor> grads;
  for (size_t piece = 0; piece < parameters.size(); ++piece) {
    const double* values = parameters[piece].const_data_ptr<double>();
    grads.push_back(filled(parameters[piece].sizes(), [&](int64_t i) {
      return gradient(static_cast<int64_t>(piece), i, step, values[i]);
    }));
  }
  return grads;
}

std::vector<at::Tensor> start_values(const nlohmann::json& shapes) {
  std::vector<at::Tensor> values;
  for (size_t piece = 0; piece < shapes.size(); ++piece) {
    values.push_back(filled(shapes[piece].get<std::vector<int64_t>>(),
                            [&](int64_t i) { return start(static_cast<int64_t>(piece), i); }));
  }
  return values;
}

}  // namespace

TEST_CASE("optimizers follow PyTorch's over 100 steps in fp64", "[plugins]") {
  const nlohmann::json all = golden_optimizers();
  for (const nlohmann::json& c : all["cases"]) {
    const std::string name = c["name"];
    CAPTURE(name);
    const auto optimizer = make_optimizer(c["type"], c["options"].dump());
    Pieces pieces(optimizer, start_values(all["shapes"]));
    const double lr = c["options"]["lr"];
    for (int64_t step = 1; step <= 100; ++step) {
      pieces.update(gradients(pieces.parameters, step), lr * factor(step));
      const auto kept = c["values"].find(std::to_string(step));
      if (kept == c["values"].end()) {
        continue;
      }
      CAPTURE(step);
      for (size_t piece = 0; piece < pieces.parameters.size(); ++piece) {
        const auto want = (*kept)[piece].get<std::vector<double>>();
        const double* got = pieces.parameters[piece].const_data_ptr<double>();
        for (size_t i = 0; i < want.size(); ++i) {
          REQUIRE(std::abs(got[i] - want[i]) <= 1e-10);
        }
      }
    }
  }
}

TEST_CASE("optimizers in fp32 stay within 1e-6 of PyTorch's in fp64 over 100 steps", "[plugins]") {
  const nlohmann::json all = golden_optimizers();
  for (const nlohmann::json& c : all["cases"]) {
    const std::string name = c["name"];
    CAPTURE(name);
    const auto optimizer = make_optimizer(c["type"], c["options"].dump());
    std::vector<at::Tensor> values = start_values(all["shapes"]);
    for (at::Tensor& value : values) {
      value = value.to(at::kFloat);
    }
    Pieces pieces(optimizer, std::move(values));
    const double lr = c["options"]["lr"];
    for (int64_t step = 1; step <= 100; ++step) {
      std::vector<at::Tensor> wide;
      for (const at::Tensor& parameter : pieces.parameters) {
        wide.push_back(parameter.to(at::kDouble));
      }
      std::vector<at::Tensor> grads = gradients(wide, step);
      for (at::Tensor& grad : grads) {
        grad = grad.to(at::kFloat);
      }
      pieces.update(grads, lr * factor(step));
    }
    for (size_t piece = 0; piece < pieces.parameters.size(); ++piece) {
      const at::Tensor want =
          at::tensor(c["values"]["100"][piece].get<std::vector<double>>(), at::kDouble);
      const at::Tensor got = pieces.parameters[piece].to(at::kDouble).reshape({-1});
      CHECK(((got - want).norm() / want.norm()).item<double>() <= 1e-6);
    }
  }
}

TEST_CASE("optimizers give flat pieces what they give whole parameters", "[plugins]") {
  const nlohmann::json all = golden_optimizers();
  for (const nlohmann::json& c : all["cases"]) {
    const std::string name = c["name"];
    CAPTURE(name);
    const auto optimizer = make_optimizer(c["type"], c["options"].dump());
    const std::vector<at::Tensor> values = start_values(all["shapes"]);
    Pieces whole(optimizer, {values[0].clone()});
    const at::Tensor flat = values[0].reshape({-1});
    Pieces cut(optimizer, {flat.slice(0, 0, 4).clone(), flat.slice(0, 4).clone()});
    for (int64_t step = 1; step <= 3; ++step) {
      const at::Tensor grad = gradients(whole.parameters, step)[0];
      const at::Tensor flat_grad = grad.reshape({-1});
      whole.update({grad}, 0.01);
      cut.update({flat_grad.slice(0, 0, 4).clone(), flat_grad.slice(0, 4).clone()}, 0.01);
    }
    const at::Tensor together = at::cat({cut.parameters[0], cut.parameters[1]});
    CHECK((together - whole.parameters[0].reshape({-1})).abs().max().item<double>() <= 1e-15);
  }
}

TEST_CASE("a piece's first update is its own, whatever the run's step", "[plugins]") {
  const auto optimizer =
      make_optimizer("sgd", R"({"momentum": 0.8, "dampening": 0.3, "lr": 0.05})");
  Pieces late(optimizer, {at::zeros({2}, at::kDouble), at::zeros({2}, at::kDouble)});
  late.steps[0].fill_(5);
  late.update({at::ones({2}, at::kDouble), at::ones({2}, at::kDouble)}, 1.0);
  CHECK(late.parameters[0][0].item<double>() == Approx(-0.7));
  CHECK(late.parameters[1][0].item<double>() == Approx(-1.0));
}

TEST_CASE("an update with a gradient that is not finite changes nothing", "[plugins]") {
  for (const auto& [type, options] : {std::pair<std::string, std::string>{"adamw", "{}"},
                                      {"adamw", R"({"amsgrad": true})"},
                                      {"adam", R"({"weight_decay": 0.1})"},
                                      {"adagrad", R"({"lr_decay": 0.1})"},
                                      {"sgd", R"({"momentum": 0.9})"},
                                      {"sgd", "{}"},
                                      {"sgd", R"({"momentum": 0.9, "dampening": 0.5})"}}) {
    CAPTURE(type, options);
    const auto optimizer = make_optimizer(type, options);
    Pieces pieces(optimizer, {filled({5}, [](int64_t i) { return start(0, i); })});
    pieces.update(gradients(pieces.parameters, 1), 0.1, at::zeros({}, at::kFloat));
    const at::Tensor parameter = pieces.parameters[0].clone();
    std::vector<at::Tensor> slots;
    for (const at::Tensor& slot : pieces.slots) {
      slots.push_back(slot.clone());
    }
    CHECK_FALSE(at::equal(parameter, filled({5}, [](int64_t i) { return start(0, i); })));
    pieces.update({at::full({5}, std::nan(""), at::kDouble)}, 0.1, at::ones({}, at::kFloat));
    CHECK(at::equal(parameter, pieces.parameters[0]));
    for (size_t s = 0; s < slots.size(); ++s) {
      CHECK(at::equal(slots[s], pieces.slots[s]));
    }
  }
}

TEST_CASE("optimizers take fp32 and a rate that fp32 cannot hold", "[plugins]") {
  for (const std::string type : {"adamw", "sgd"}) {
    const auto optimizer = make_optimizer(type, R"({"weight_decay": 0.0})");
    Pieces pieces(optimizer, {at::ones({3}, at::kDouble)});
    const double lr = 1.0 + 1e-12;
    pieces.update({at::full({3}, 0.5, at::kDouble)}, lr);
    const double moved = type == "sgd" ? 0.5 * lr : lr * 0.5 / (0.5 + 1e-8);
    CHECK(std::abs(pieces.parameters[0][0].item<double>() - (1.0 - moved)) <= 1e-15);
    Pieces narrow(optimizer, {at::ones({3}, at::kFloat)});
    narrow.update({at::full({3}, 0.5f, at::kFloat)}, 0.1);
    CHECK(narrow.parameters[0][0].item<double>() ==
          Approx(type == "sgd" ? 0.95 : 0.9).epsilon(1e-6));
  }
}

// Each step by itself: the fp32 formula from the narrow values, rounded once.
TEST_CASE("optimizers move every element of bf16 and fp16 parameters", "[plugins]") {
  const auto dtype = GENERATE(at::kBFloat16, at::kHalf);
  for (const auto& [type, options] :
       {std::pair<std::string, std::string>{"adamw", R"({"weight_decay": 0.0})"},
        {"sgd", "{}"},
        {"sgd", R"({"momentum": 0.5, "nesterov": true})"},
        {"sgd", R"({"momentum": 0.5, "dampening": 0.5})"}}) {
    CAPTURE(type, options);
    const auto optimizer = make_optimizer(type, options);
    const at::Tensor start_value = at::linspace(1, 2, 100, at::kFloat).to(dtype);
    Pieces narrow(optimizer, {start_value.clone()});
    Pieces wide(optimizer, {start_value.to(at::kFloat)});
    for (int step = 0; step < 3; ++step) {
      narrow.update({at::full({100}, 0.5, dtype)}, 0.25);
      wide.update({at::full({100}, 0.5, at::kFloat)}, 0.25);
    }
    CHECK((narrow.parameters[0] != start_value).all().item<bool>());
    const at::Tensor difference = (narrow.parameters[0].to(at::kFloat) - wide.parameters[0]).abs();
    // Three roundings of values below 2, and of their slots.
    CHECK(difference.max().item<double>() < (dtype == at::kHalf ? 4e-3 : 3e-2));
  }
}

TEST_CASE("optimizers declare the slots they need and no more", "[plugins]") {
  const auto names = [](const std::string& type, const std::string& options) {
    std::vector<std::string> out;
    const auto optimizer = make_optimizer(type, options);
    for (const tenon::SlotSpec& slot : optimizer.info().slots) {
      out.push_back(slot.name);
    }
    return out;
  };
  CHECK(names("adamw", "{}") == std::vector<std::string>{"exp_avg", "exp_avg_sq"});
  CHECK(names("adam", R"({"amsgrad": true})") ==
        std::vector<std::string>{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"});
  CHECK(names("adagrad", "{}") == std::vector<std::string>{"sum"});
  CHECK(names("sgd", "{}").empty());
  CHECK(names("sgd", R"({"momentum": 0.9})") == std::vector<std::string>{"momentum_buffer"});
}

TEST_CASE("options of optimizers have limits", "[plugins]") {
  const auto problem = [](const std::string& type, const std::string& options) {
    return tenon::options_problem("optimizer", type, options);
  };
  CHECK(problem("adamw", R"({"lr": 3e-4, "betas": [0.9, 0.95], "weight_decay": 0})").empty());
  CHECK_FALSE(problem("adamw", R"({"betas": [0.9]})").empty());
  CHECK_FALSE(problem("adamw", R"({"betas": [0.9, 1.0]})").empty());
  CHECK_FALSE(problem("adamw", R"({"lr": -1})").empty());
  CHECK_FALSE(problem("sgd", R"({"momentum": 1.0})").empty());
  CHECK_THAT(tenon::error_of([] { make_optimizer("sgd", R"({"nesterov": true})"); }),
             tenon::contains_text("`nesterov` requires `momentum`"));
  CHECK_THAT(tenon::error_of([] { make_optimizer("sgd", R"({"dampening": 0.5})"); }),
             tenon::contains_text("`dampening` is 0.5"));
}
