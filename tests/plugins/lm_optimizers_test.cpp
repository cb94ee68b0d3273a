// SPDX-License-Identifier: Apache-2.0
//
// The oracles are PyTorch and the packages of the optimizers' authors:
// tests/parity/lm_optim_golden.py wrote the values, and says how.
#include "host/plugin/optimizer_proxy.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/plugins/optimizer_pieces.hpp"
#include "tests/support/paths.hpp"

namespace {

using nlohmann::json;

// The formulas of lm_optim_golden.py, and its values.
namespace lm_golden {

json read() {
  std::ifstream in(tenon::source_dir() / "tests" / "parity" / "lm_optim_golden.json");
  return json::parse(in);
}

double start(size_t piece, int64_t i) {
  return std::sin(1.0 + static_cast<double>(i) + 10.0 * static_cast<double>(piece));
}

double wave(size_t piece, int64_t i, int64_t step) {
  return std::cos(0.3 * static_cast<double>(i) + 0.7 * static_cast<double>(step) +
                  static_cast<double>(piece));
}

double factor(int64_t step, int64_t warmup) {
  return warmup > 0 ? std::min(1.0, static_cast<double>(step) / static_cast<double>(warmup))
                    : 1.0 - static_cast<double>(step - 1) / 200.0;
}

template <class Function>
at::Tensor filled(at::IntArrayRef shape, at::ScalarType dtype, Function&& value) {
  const at::Tensor out = at::empty(shape, at::kDouble);
  double* const data = out.mutable_data_ptr<double>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    data[i] = value(i);
  }
  return out.to(dtype);
}

std::vector<at::Tensor> start_values(const json& shapes, at::ScalarType dtype = at::kDouble) {
  std::vector<at::Tensor> values;
  for (size_t piece = 0; piece < shapes.size(); ++piece) {
    values.push_back(filled(shapes[piece].get<std::vector<int64_t>>(), dtype, [&](int64_t i) {
      return start(piece, i);
    }));
  }
  return values;
}

std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& parameters, int64_t step) {
  std::vector<at::Tensor> grads;
  for (size_t piece = 0; piece < parameters.size(); ++piece) {
    const at::Tensor wide = parameters[piece].to(at::kDouble);
    const double* const values = wide.const_data_ptr<double>();
    grads.push_back(filled(wide.sizes(), parameters[piece].scalar_type(), [&](int64_t i) {
      return 0.5 * values[i] + wave(piece, i, step);
    }));
  }
  return grads;
}

// Muon iterates in fp64 in the golden values.
std::string options_of(const json& c) {
  json options = c["options"];
  if (c["type"] == "muon") {
    options["ns_dtype"] = "parameter";
  }
  return options.dump();
}

double difference(const std::vector<at::Tensor>& got, const json& want) {
  double largest = 0;
  for (size_t piece = 0; piece < got.size(); ++piece) {
    const at::Tensor values = at::tensor(want[piece].get<std::vector<double>>(), at::kDouble);
    const at::Tensor away = got[piece].to(at::kDouble).reshape({-1}) - values;
    largest = std::max(largest, (away.norm() / values.norm()).item<double>());
  }
  return largest;
}

tenon::OptimizerProxy make(const std::string& type, const std::string& options = "{}") {
  return tenon::OptimizerProxy(tenon::make_component("optimizer", type, options));
}

}  // namespace lm_golden

}  // namespace

TEST_CASE("optimizers of language models follow their oracles over 100 steps", "[plugins]") {
  const json all = lm_golden::read();
  CHECK(all["cases"].size() == 10);
  for (const json& c : all["cases"]) {
    const std::string name = c["name"];
    CAPTURE(name);
    for (const bool is_fp64 : {true, false}) {
      CAPTURE(is_fp64);
      const auto optimizer = lm_golden::make(c["type"], lm_golden::options_of(c));
      tenon::Pieces pieces(
          optimizer, lm_golden::start_values(c["shapes"], is_fp64 ? at::kDouble : at::kFloat));
      CHECK(optimizer.has_evaluation_values() == c.contains("evaluation"));
      // Iterations of muon stretch small singular values, with their rounding errors in fp32.
      const double most = is_fp64 ? 1e-12 : c["type"] == "muon" ? 1e-3 : 2e-6;
      const double lr = c["options"]["lr"];
      for (int64_t step = 1; step <= 100; ++step) {
        pieces.update(lm_golden::gradients(pieces.parameters, step),
                      lr * (optimizer.has_evaluation_values() && c["warmup"] == 0
                                ? 1.0
                                : lm_golden::factor(step, c["warmup"])));
        const auto kept = c["values"].find(std::to_string(step));
        if (kept == c["values"].end()) {
          continue;
        }
        CAPTURE(step);
        CHECK(lm_golden::difference(pieces.parameters, *kept) <= most);
        if (optimizer.has_evaluation_values()) {
          CHECK(lm_golden::difference(pieces.evaluation_values(),
                                      c["evaluation"][std::to_string(step)]) <= most);
        }
      }
    }
  }
}

// One bf16 iteration in the order of PyTorch, whose products accumulate in fp32 on any machine.
TEST_CASE("muon iterates in bf16 by default, as PyTorch", "[plugins]") {
  const auto narrow = lm_golden::make("muon", R"({"lr": 0.02})");
  const auto exact = lm_golden::make("muon", R"({"lr": 0.02, "ns_dtype": "parameter"})");
  const json shapes = json::parse("[[16, 24], [24, 16]]");
  tenon::Pieces a(narrow, lm_golden::start_values(shapes, at::kFloat));
  tenon::Pieces b(exact, lm_golden::start_values(shapes, at::kFloat));
  for (int64_t step = 1; step <= 5; ++step) {
    const auto grads = lm_golden::gradients(b.parameters, step);
    a.update(grads, 0.02);
    b.update(grads, 0.02);
  }
  for (size_t i = 0; i < 2; ++i) {
    const at::Tensor moved = b.parameters[i] - lm_golden::start_values(shapes, at::kFloat)[i];
    const double away = ((a.parameters[i] - b.parameters[i]).norm() / moved.norm()).item<double>();
    CHECK(away > 1e-6);
    CHECK(away < 0.3);  // 8 bits of precision, in five iterations on small matrices
  }
}

TEST_CASE("adamw8bit follows torchao over 100 steps", "[plugins]") {
  const json golden = lm_golden::read()["adamw8bit"];
  const json& options = golden["options"];
  const auto optimizer = lm_golden::make("adamw8bit", options.dump());
  std::vector<at::Tensor> values;
  for (size_t piece = 0; piece < golden["numels"].size(); ++piece) {
    values.push_back(lm_golden::filled({golden["numels"][piece].get<int64_t>()},
                                       at::kFloat,
                                       [&](int64_t i) { return lm_golden::start(piece, i); }));
  }
  tenon::Pieces pieces(optimizer, std::move(values));
  const size_t n = pieces.parameters.size();
  const auto every = golden["every"].get<int64_t>();
  const auto sampled = [&](const at::Tensor& x) {
    return x.slice(0, 0, x.numel(), every).to(at::kDouble);
  };
  const auto wanted = [](const json& list) {
    return at::tensor(list.get<std::vector<double>>(), at::kDouble);
  };
  for (int64_t step = 1; step <= 100; ++step) {
    std::vector<at::Tensor> grads;
    for (size_t piece = 0; piece < n; ++piece) {
      grads.push_back(
          lm_golden::filled(pieces.parameters[piece].sizes(), at::kFloat, [&](int64_t i) {
            return lm_golden::wave(piece, i, step) *
                   std::pow(10.0, -static_cast<double>(i % 11) / 2.0);
          }));
    }
    pieces.update(grads, options["lr"]);
    const auto kept = golden["steps"].find(std::to_string(step));
    if (kept == golden["steps"].end()) {
      continue;
    }
    CAPTURE(step);
    for (size_t piece = 0; piece < n; ++piece) {
      CAPTURE(piece);
      const json& want = (*kept)[piece];
      // A value at the middle between two codes may be rounded to the other one.
      for (const auto& [slot, name] :
           {std::pair<size_t, const char*>{0, "mean_codes"}, {2, "square_codes"}}) {
        const at::Tensor away =
            (sampled(pieces.slots[slot * n + piece]) - wanted(want[name])).abs();
        CHECK(away.max().item<double>() <= 1);
        CHECK(away.mean().item<double>() <= 0.01);
      }
      for (const auto& [slot, name] :
           {std::pair<size_t, const char*>{1, "mean_scales"}, {3, "square_scales"}}) {
        const at::Tensor got = pieces.slots[slot * n + piece].to(at::kDouble);
        const at::Tensor scales = wanted(want[name]);
        REQUIRE(got.numel() == scales.numel());
        CHECK(((got - scales).abs() / scales).max().item<double>() <= (step > 10 ? 1e-3 : 1e-5));
      }
      const at::Tensor away = (sampled(pieces.parameters[piece]) - wanted(want["values"])).abs();
      // One value that was rounded to the other code changes all later steps of its element a
      // little.
      if (step <= 10) {
        CHECK((away > 1e-6).to(at::kDouble).mean().item<double>() <= 0.02);
      }
      CHECK(away.mean().item<double>() <= 1e-4);  // a hundredth of lr
      CHECK(away.max().item<double>() <= 1e-3);   // a tenth of lr
    }
  }
}

TEST_CASE("adamw8bit's operators give what its kernels give", "[plugins]") {
  const auto optimizer = lm_golden::make("adamw8bit", R"({"lr": 0.01, "weight_decay": 0.1})");
  const json shapes = json::parse("[[1000], [7, 31]]");
  tenon::Pieces kernels(optimizer, lm_golden::start_values(shapes, at::kFloat));
  tenon::Pieces operators(optimizer, lm_golden::start_values(shapes, at::kDouble));
  for (int64_t step = 1; step <= 20; ++step) {
    const auto grads = lm_golden::gradients(operators.parameters, step);
    std::vector<at::Tensor> narrow;
    for (const at::Tensor& grad : grads) {
      narrow.push_back(grad.to(at::kFloat));
    }
    kernels.update(narrow, 0.01);
    operators.update(grads, 0.01);
  }
  for (size_t i = 0; i < 2; ++i) {
    const at::Tensor away = (kernels.parameters[i].to(at::kDouble) - operators.parameters[i]).abs();
    CHECK((away > 1e-5).to(at::kDouble).mean().item<double>() <= 0.02);
    CHECK(away.max().item<double>() <= 2e-3);
  }
}

TEST_CASE("adamw8bit keeps 2.04 bytes per element or less", "[plugins]") {
  const auto optimizer = lm_golden::make("adamw8bit");
  tenon::Pieces pieces(optimizer, {at::zeros({1 << 16}, at::kFloat)});
  size_t bytes = 0;
  for (const at::Tensor& slot : pieces.slots) {
    bytes += slot.nbytes();
  }
  CHECK(static_cast<double>(bytes) / (1 << 16) <= 2.04);
}

TEST_CASE("adamw8bit updates bf16 parameters as fp32 ones, rounded", "[plugins]") {
  const auto optimizer = lm_golden::make("adamw8bit", R"({"lr": 0.01, "weight_decay": 0.0})");
  const at::Tensor start = at::linspace(1, 2, 300, at::kFloat).to(at::kBFloat16);
  tenon::Pieces narrow(optimizer, {start.clone()});
  tenon::Pieces wide(optimizer, {start.to(at::kFloat)});
  for (int step = 0; step < 3; ++step) {
    narrow.update({at::full({300}, 0.5, at::kBFloat16)}, 0.25);
    wide.update({at::full({300}, 0.5, at::kFloat)}, 0.25);
  }
  CHECK((narrow.parameters[0] != start).all().item<bool>());
  const at::Tensor away = (narrow.parameters[0].to(at::kFloat) - wide.parameters[0]).abs();
  CHECK(away.max().item<double>() < 3e-2);
}

TEST_CASE("a non-finite update changes nothing of these optimizers", "[plugins]") {
  for (const std::string type : {"lion", "schedule_free_adamw", "adafactor", "muon", "adamw8bit"}) {
    CAPTURE(type);
    const auto optimizer = lm_golden::make(type);
    tenon::Pieces pieces(optimizer, lm_golden::start_values(json::parse("[[4, 5]]"), at::kFloat));
    pieces.update(lm_golden::gradients(pieces.parameters, 1), 0.1, at::zeros({}, at::kFloat));
    const at::Tensor parameter = pieces.parameters[0].clone();
    std::vector<at::Tensor> slots;
    for (const at::Tensor& slot : pieces.slots) {
      slots.push_back(slot.clone());
    }
    pieces.update({at::full({4, 5}, std::nan(""), at::kFloat)}, 0.1, at::ones({}, at::kFloat));
    CHECK(at::equal(parameter, pieces.parameters[0]));
    for (size_t s = 0; s < slots.size(); ++s) {
      CHECK(at::equal(slots[s], pieces.slots[s]));
    }
  }
}

TEST_CASE("optimizers of language models declare their state", "[plugins]") {
  const auto slots = [](const std::string& type) {
    std::vector<std::string> out;
    const auto optimizer = lm_golden::make(type);
    for (const tenon::SlotSpec& slot : optimizer.info().slots) {
      out.push_back(slot.name);
    }
    return out;
  };
  using Names = std::vector<std::string>;
  CHECK(slots("lion") == Names{"exp_avg"});
  CHECK(slots("muon") == Names{"momentum_buffer"});
  CHECK(slots("adafactor") == Names{"row_var", "col_var"});
  CHECK(slots("schedule_free_adamw") == Names{"z", "exp_avg_sq", "weight_sum", "lr_max"});
  CHECK(slots("adamw8bit") == Names{"exp_avg", "exp_avg_scale", "exp_avg_sq", "exp_avg_sq_scale"});
  const auto adafactor = lm_golden::make("adafactor");
  CHECK(adafactor.info().slot_shape(adafactor.info().slots[0], {5, 3, 4}) ==
        std::vector<int64_t>{5, 3});
  CHECK(adafactor.info().slot_shape(adafactor.info().slots[1], {5, 3, 4}) ==
        std::vector<int64_t>{5, 4});
  CHECK(adafactor.info().slot_shape(adafactor.info().slots[0], {9}).empty());
  CHECK(adafactor.info().slot_shape(adafactor.info().slots[1], {9}) == std::vector<int64_t>{9});
  CHECK(lm_golden::make("muon").info().has(TENON_OPTIMIZER_MATRICES_ONLY));
  CHECK(lm_golden::make("schedule_free_adamw").info().has(TENON_OPTIMIZER_OWN_SCHEDULE));
  CHECK(lm_golden::make("adamw8bit").info().block == 256);
}

TEST_CASE("options of these optimizers have limits", "[plugins]") {
  const auto problem = [](const std::string& type, const std::string& options) {
    return tenon::options_problem("optimizer", type, options);
  };
  CHECK_FALSE(problem("schedule_free_adamw", R"({"betas": [0.0, 0.9]})").empty());
  CHECK_FALSE(problem("muon", R"({"momentum": 1.0})").empty());
  CHECK_FALSE(problem("muon", R"({"ns_coefficients": [1.0]})").empty());
  CHECK_FALSE(problem("muon", R"({"lr_factor": "other"})").empty());
  CHECK_FALSE(problem("adafactor", R"({"beta2_decay": 0.5})").empty());
  CHECK_FALSE(problem("adafactor", R"({"d": 0.5})").empty());
  CHECK_FALSE(problem("adamw8bit", R"({"block_size": 8})").empty());
  CHECK_THAT(tenon::error_of([] { lm_golden::make("adamw8bit", R"({"block_size": 100})"); }),
             tenon::contains_text("`block_size` is 100; choose a power of two"));
}
