// SPDX-License-Identifier: Apache-2.0
//
// The models for clicks, run block by block as the host does it, against PyTorch's results of the
// same models (click_models_golden.json) and against small differences.
#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

#include "tests/parity/model_rig.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

nlohmann::json golden() {
  std::ifstream file(source_dir() / "tests/parity/click_models_golden.json");
  return nlohmann::json::parse(file);
}

// The same formula as in click_models_golden.py.
at::Tensor made_click(size_t number, const std::vector<int64_t>& shape) {
  const int64_t size = c10::multiply_integers(shape);
  const at::Tensor numbers = at::arange(size, at::kDouble);
  return (at::sin(numbers * 0.37 + static_cast<double>(number)) * 0.5).reshape(shape);
}

double checksum(const at::Tensor& grad) {
  const at::Tensor flat = grad.to(at::kDouble).reshape({-1});
  return (flat * at::cos(at::arange(flat.numel(), at::kDouble))).sum().item<double>();
}

std::vector<int64_t> shape_of(const nlohmann::json& entry) {
  return entry["shape"].get<std::vector<int64_t>>();
}

at::Tensor field(const nlohmann::json& values) {
  if (values[0].is_number_integer()) {
    return at::tensor(values.get<std::vector<int64_t>>(), at::kLong);
  }
  if (values[0].is_number()) {
    return at::tensor(values.get<std::vector<double>>(), at::kDouble);
  }
  std::vector<at::Tensor> rows;
  for (const nlohmann::json& row : values) {
    rows.push_back(at::tensor(row.get<std::vector<double>>(), at::kDouble));
  }
  return at::stack(rows);
}

// A model of the file with its parameters, rows and fields.
struct GoldenModel {
  explicit GoldenModel(const nlohmann::json& of, RecomputeMode recompute = RecomputeMode::kNone)
      : golden(of), rig(of["type"], of["options"].dump(), at::kDouble, recompute) {
    for (size_t i = 0; i < golden["parameters"].size(); ++i) {
      const nlohmann::json& parameter = golden["parameters"][i];
      rig.set_parameter(parameter["name"], made_click(i, shape_of(parameter)));
    }
    for (size_t i = 0; i < golden["lookups"].size(); ++i) {
      const nlohmann::json& lookup = golden["lookups"][i];
      rig.set_rows(lookup["name"], made_click(100 + i, shape_of(lookup)));
    }
    for (const auto& [name, values] : golden["fields"].items()) {
      fields[name] = field(values);
    }
    fields["z"] = at::zeros({3});  // the last by name: it says how many samples there are
  }

  void forward() { rig.forward(fields); }
  // The gradient of the sum over outputs times numbers that differ.
  void backward() {
    std::vector<std::pair<std::string, at::Tensor>> grads;
    for (size_t i = 0; i < golden["outputs"].size(); ++i) {
      grads.emplace_back(golden["outputs"][i]["name"],
                         made_click(200 + i, shape_of(golden["outputs"][i])));
    }
    rig.backward(grads);
  }
  double weighed() {
    forward();
    double total = 0;
    for (size_t i = 0; i < golden["outputs"].size(); ++i) {
      const nlohmann::json& output = golden["outputs"][i];
      total +=
          (rig.output(output["name"]) * made_click(200 + i, shape_of(output))).sum().item<double>();
    }
    return total;
  }

  nlohmann::json golden;
  ModelRig rig;
  std::map<std::string, at::Tensor> fields;
};

}  // namespace

TEST_CASE("models for clicks are what PyTorch makes of them, in value and gradient", "[parity]") {
  for (const nlohmann::json& of : golden()) {
    for (const RecomputeMode recompute : {RecomputeMode::kNone, RecomputeMode::kBlocks}) {
      CAPTURE(of["name"].get<std::string>());
      GoldenModel model(of, recompute);
      REQUIRE(model.rig.graph().parameters.size() == of["parameters"].size());
      model.forward();
      for (const nlohmann::json& output : of["outputs"]) {
        const at::Tensor expected =
            at::tensor(output["values"].get<std::vector<double>>(), at::kDouble)
                .reshape(shape_of(output));
        const at::Tensor found = model.rig.output(output["name"]);
        REQUIRE(found.sizes() == expected.sizes());
        CHECK(at::allclose(found, expected, 1e-12, 1e-12));
      }
      model.backward();
      for (const nlohmann::json& parameter : of["parameters"]) {
        CAPTURE(parameter["name"].get<std::string>());
        CHECK(checksum(model.rig.grad(parameter["name"])) ==
              Approx(parameter["grad"].get<double>()).margin(1e-11));
      }
      for (const nlohmann::json& lookup : of["lookups"]) {
        CAPTURE(lookup["name"].get<std::string>());
        CHECK(checksum(model.rig.row_grad(lookup["name"])) ==
              Approx(lookup["grad"].get<double>()).margin(1e-11));
      }
    }
  }
}

TEST_CASE("gradients of rows in models for clicks are those of small differences", "[parity]") {
  constexpr double kStep = 1e-6;
  for (const nlohmann::json& of : golden()) {
    CAPTURE(of["name"].get<std::string>());
    GoldenModel model(of);
    model.forward();
    model.backward();
    for (size_t i = 0; i < of["lookups"].size(); ++i) {
      const nlohmann::json& lookup = of["lookups"][i];
      CAPTURE(lookup["name"].get<std::string>());
      const at::Tensor rows = made_click(100 + i, shape_of(lookup));
      const at::Tensor grad = model.rig.row_grad(lookup["name"]).clone();
      for (int64_t index = 0; index < rows.numel(); index += 3) {
        const auto moved = [&](double by) {
          at::Tensor other = rows.clone();
          other.view({-1})[index] += by;
          GoldenModel beside(of);
          beside.rig.set_rows(lookup["name"], other);
          return beside.weighed();
        };
        const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
        CHECK(grad.reshape({-1})[index].item<double>() == Approx(slope).margin(1e-8));
      }
    }
  }
}

TEST_CASE("models for clicks drop in training alone", "[parity]") {
  for (nlohmann::json of : golden()) {
    CAPTURE(of["name"].get<std::string>());
    of["options"]["dropout"] = 0.5;
    GoldenModel plain(of);
    plain.rig.forward(plain.fields, {1, 0, false});
    const nlohmann::json& output = of["outputs"][0];
    CHECK(at::allclose(plain.rig.output(output["name"]).reshape({-1}),
                       at::tensor(output["values"].get<std::vector<double>>(), at::kDouble),
                       1e-12,
                       1e-12));
    if (of["options"].contains("hidden") && of["options"]["hidden"].empty()) {
      continue;  // there is no hidden layer to drop from
    }
    const at::Tensor evaluated = plain.rig.output(output["name"]).clone();
    bool differs = false;
    for (uint64_t step = 1; step <= 4; ++step) {
      plain.rig.forward(plain.fields, {step, 0, true});
      differs = differs || !at::equal(plain.rig.output(output["name"]), evaluated);
    }
    CHECK(differs);
  }
}

TEST_CASE("models for clicks refuse options that leave them without rows", "[parity]") {
  CHECK_THAT(error_of([] { ModelRig("deepfm", "{}"); }), contains_text("[columns.none]"));
  CHECK_THAT(error_of([] { ModelRig("dlrm", R"({"categorical": ["a"]})"); }),
             contains_text("[dlrm.one_row]"));
  CHECK_THAT(error_of([] { ModelRig("dcn_v2", R"({"categorical": ["c5..c2"]})"); }),
             contains_text("[columns.range]"));
}

}  // namespace tenon
