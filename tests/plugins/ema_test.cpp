// SPDX-License-Identifier: Apache-2.0
//
// Averages of the hook ema against those of torch.optim.swa_utils (tests/parity/ema_golden.py).
#include <tenon/hook.h>

#include "host/plugin/hook_proxy.hpp"
#include "host/plugin/parameter_average_proxy.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

// As `parameter` of ema_golden.py.
at::Tensor parameter(int64_t update) {
  std::vector<float> values;
  for (int64_t i = 0; i < 7; ++i) {
    values.push_back(static_cast<float>((update * 37 + i * 11) % 64 - 32) / 16);
  }
  return at::tensor(values);
}

void update(const ComponentInstance& instance,
            const ParameterAverageProxy& average,
            int64_t number,
            const at::Tensor& value,
            at::Tensor& to) {
  const at::AutoGradMode no_grad(false);
  const tenon_exec exec = make_exec(instance);
  const tenon_tensor* const parameters[] = {borrow(value)};
  tenon_tensor* const averages[] = {borrow_mutable(to)};
  tenon_parameter_average_args args{};
  args.struct_size = sizeof(args);
  args.num_pieces = 1;
  args.parameters = parameters;
  args.averages = averages;
  args.num_updates = static_cast<uint64_t>(number);
  average.update(exec, args);
}

}  // namespace

TEST_CASE("the averages of ema are those of torch", "[plugins]") {
  std::ifstream file(source_dir() / "tests/parity/ema_golden.json");
  for (const nlohmann::json& golden : nlohmann::json::parse(file).at("cases")) {
    CAPTURE(golden.at("options").dump());
    const ComponentInstance hook = make_component("hook", "ema", golden.at("options").dump());
    const auto average = ParameterAverageProxy::of(hook);
    REQUIRE(average.has_value());
    at::Tensor value = parameter(1).clone();
    int64_t number = 0;
    for (const nlohmann::json& want : golden.at("averages")) {
      ++number;
      update(hook, *average, number, parameter(number), value);
      CHECK(at::equal(value, at::tensor(want.get<std::vector<float>>())));
    }
  }
}

TEST_CASE("ema widens bf16 parameters, so that small steps are not lost", "[plugins]") {
  const ComponentInstance hook = make_component("hook", "ema", R"({"decay": 0.999})");
  const auto average = ParameterAverageProxy::of(hook);
  at::Tensor value = at::ones({4});
  const at::Tensor twos = at::full({4}, 2.0).to(at::kBFloat16);
  for (int64_t number = 2; number < 12; ++number) {
    update(hook, *average, number, twos, value);
  }
  CHECK(value.scalar_type() == at::kFloat);
  CHECK(value[0].item<double>() == Approx(2 - std::pow(0.999, 10)).epsilon(1e-6));
}

TEST_CASE("ema asks for no events and refuses impossible decays", "[plugins]") {
  CHECK(HookProxy(make_component("hook", "ema")).info().events == 0);
  CHECK_FALSE(options_problem("hook", "ema", R"({"decay": 1})").empty());
  CHECK_FALSE(options_problem("hook", "ema", R"({"decay": -0.1})").empty());
  CHECK_FALSE(options_problem("hook", "ema", R"({"start": 0})").empty());
  CHECK_FALSE(options_problem("hook", "ema", R"({"every": 0})").empty());
}

TEST_CASE("other hooks average nothing", "[plugins]") {
  CHECK_FALSE(ParameterAverageProxy::of(make_component("hook", "lr_monitor")).has_value());
}

}  // namespace tenon
