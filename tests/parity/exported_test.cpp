// SPDX-License-Identifier: Apache-2.0
//
// Modules exported from PyTorch, run block by block as the host does it, against what PyTorch made
// of them (exported_golden.json) and against the same operators in one graph.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/parity/model_rig.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

fs::path exported(const std::string& name) {
  return source_dir() / "recipes/data" / name;
}

// Options of a plugin that reads `path`, with further members.
std::string reading(const fs::path& path, const std::string& more = "") {
  return nlohmann::json({{"path", path.string()}}).dump().insert(1, more);
}

// The compiled module of the recipe needs AVX2.
bool runs_compiled_code() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

at::Tensor tensor_of(const nlohmann::json& values) {
  return at::tensor(values.get<std::vector<double>>(), at::kDouble);
}

// The first batch of the recipe's data.
at::Tensor first_batch() {
  std::ifstream file(source_dir() / "recipes/data/iris-train.csv");
  std::string line;
  std::getline(file, line);
  std::vector<float> values;
  for (int row = 0; row < 24 && std::getline(file, line); ++row) {
    std::istringstream cells(line);
    for (int i = 0; i < 4; ++i) {
      std::string cell;
      std::getline(cells, cell, ',');
      values.push_back(std::stof(cell));
    }
  }
  return at::tensor(values).view({24, 4});
}

void check_golden(ModelRig& rig, double tolerance) {
  std::ifstream file(source_dir() / "tests/parity/exported_golden.json");
  const auto golden = nlohmann::json::parse(file);
  rig.forward({{"x", first_batch()}});
  const at::Tensor logits = rig.output("logits");
  CHECK(at::allclose(
      logits.flatten().to(at::kDouble), tensor_of(golden["logits"]), tolerance, tolerance));
  rig.backward("logits", at::cos(at::arange(logits.numel(), at::kFloat)).view(logits.sizes()));
  REQUIRE(rig.graph().parameters.size() == golden["gradients"].size());
  for (const auto& [name, gradient] : golden["gradients"].items()) {
    CAPTURE(name);
    CHECK(at::allclose(
        rig.grad(name).flatten().to(at::kDouble), tensor_of(gradient), tolerance, tolerance));
  }
}

// Saves a module of one method, as torch.jit would: parameter `weight` [3, 4] and buffer `seen`.
fs::path saved_script(const ScratchFolder& folder, const std::string& forward) {
  torch::jit::Module module("m");
  module.register_parameter(
      "weight", at::sin(at::arange(12, at::kFloat)).view({3, 4}).requires_grad_(), false);
  module.register_parameter("bias", at::ones({3}).requires_grad_(), false);
  module.register_buffer("seen", at::zeros({}));
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(forward);
  fs::path file = folder.path() / "module.pt";
  module.save(file.string());
  return file;
}

std::string failure(const std::string& type, const std::string& options) {
  return error_of([&] {
    ModelRig rig(type, options);
    rig.forward({{"x", at::ones({2, 4})}});
  });
}

// The compiled module of the recipe, copied so that it can be damaged.
fs::path copied(const ScratchFolder& folder) {
  fs::path copy = folder.path() / "iris_net";
  fs::copy(exported("iris_net"), copy);
  return copy;
}

void change_manifest(const fs::path& folder, const std::string& patch) {
  nlohmann::json manifest;
  std::ifstream(folder / "model.json") >> manifest;
  manifest.merge_patch(nlohmann::json::parse(patch));
  std::ofstream(folder / "model.json") << manifest;
}

}  // namespace

TEST_CASE("a TorchScript module has the outputs and gradients of PyTorch", "[parity]") {
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  ModelRig rig("torchscript", reading(exported("iris_net.pt")), at::kFloat, recompute);
  check_golden(rig, 2e-6);
  for (const ModelParameter& parameter : rig.graph().parameters) {
    CAPTURE(parameter.name);
    CHECK(((parameter.flags & TENON_PARAM_NO_DECAY) != 0) == (parameter.shape.size() == 1));
  }
}

TEST_CASE("a TorchScript module gives the bits of its operators", "[parity]") {
  const auto dtype = GENERATE(at::kFloat, at::kDouble);
  ModelRig rig("torchscript", reading(exported("iris_net.pt")), dtype);
  const auto leaf = [&](const char* name) {
    return rig.parameter(name).detach().clone().requires_grad_(true);
  };
  const std::vector<std::string> names = {"enter.weight",
                                          "enter.bias",
                                          "norm.weight",
                                          "norm.bias",
                                          "gated.weight",
                                          "gated.bias",
                                          "leave.weight",
                                          "leave.bias"};
  std::vector<at::Tensor> w;
  for (const std::string& name : names) {
    w.push_back(leaf(name.c_str()));
  }
  const at::Tensor x = first_batch().to(dtype);
  const at::AutoGradMode record(true);
  const at::Tensor h = at::linear(x, w[0], w[1]);
  const auto parts = at::linear(at::layer_norm(h, {16}, w[2], w[3]), w[4], w[5]).chunk(2, -1);
  const at::Tensor y = at::linear(h + parts[0] * at::sigmoid(parts[1]), w[6], w[7]);
  rig.forward({{"x", x}});
  CHECK(at::equal(rig.output("logits"), y));
  rig.backward("logits", at::ones_like(y));
  const auto grads = torch::autograd::grad({y}, w, {at::ones_like(y)});
  for (size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    CHECK(at::equal(rig.grad(names[i]), grads[i]));
  }
}

TEST_CASE("instances of one TorchScript file do not share parameters", "[parity]") {
  ModelRig one("torchscript", reading(exported("iris_net.pt")));
  ModelRig other("torchscript", reading(exported("iris_net.pt")));
  const at::Tensor x = first_batch();
  other.forward({{"x", x}});
  const at::Tensor before = other.output("logits").clone();
  one.set_parameter("leave.bias", at::ones({3}));
  one.forward({{"x", x}});
  CHECK_FALSE(at::equal(one.output("logits"), before));
  other.forward({{"x", x}});
  CHECK(at::equal(other.output("logits"), before));
}

TEST_CASE("buffers of a TorchScript module are state of the run", "[parity]") {
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  const ScratchFolder folder;
  const fs::path file = saved_script(folder, R"(
def forward(self, x):
    if self.training:
        self.seen.add_(x.sum())
    return torch.linear(x, self.weight, self.bias), self.weight.sum()
)");
  ModelRig rig("torchscript",
               reading(file, R"("inputs": ["features"], "outputs": ["logits", "total"], )"),
               at::kFloat,
               recompute);
  const at::Tensor x = at::ones({2, 4});
  rig.forward({{"features", x}});
  CHECK(rig.output("total").item<float>() ==
        Approx(at::sin(at::arange(12, at::kFloat)).sum().item<float>()));
  rig.backward({{"logits", at::ones({2, 3})}, {"total", at::ones({})}});
  CHECK(at::equal(rig.grad("weight"), at::full({3, 4}, 3.0)));
  CHECK(rig.buffer("seen").item<float>() == 8.0F);
  rig.forward({{"features", x}}, {2, 0, false});
  CHECK(rig.buffer("seen").item<float>() == 8.0F);
}

TEST_CASE("TorchScript files that do not fit are refused with advice", "[parity]") {
  const ScratchFolder folder;
  CHECK_THAT(failure("torchscript", reading(folder.path() / "missing.pt")),
             contains_text("missing.pt does not exist or is not a file; save the module with "
                           "torch.jit.save"));
  CHECK_THAT(failure("torchscript", reading(folder.write("text.pt", "no module"))),
             contains_text("text.pt is not a TorchScript module of this libtorch"));
  CHECK_THAT(failure("torchscript", reading(exported("iris_net.pt"), R"("inputs": ["a", "b"], )")),
             contains_text("takes 1 to 1 tensors (x); name one field for each argument"));
  CHECK_THAT(failure("torchscript", reading(exported("iris_net.pt"), R"("outputs": ["a", "b"], )")),
             contains_text("forward returns 1 tensors, but the option `outputs` has 2 names"));
  const fs::path wide = saved_script(folder, R"(
def forward(self, x):
    return torch.linear(x.reshape([1, 8]), self.weight)
)");
  CHECK_THAT(failure("torchscript", reading(wide)), contains_text("module.pt: forward failed: "));
  const fs::path number = saved_script(folder, R"(
def forward(self, x, scale: float):
    return torch.linear(x, self.weight) * scale
)");
  CHECK_THAT(failure("torchscript", reading(number)),
             contains_text("argument scale of forward is float (expected Tensor)"));
  const fs::path dictionary = saved_script(folder, R"(
def forward(self, x):
    return {"logits": torch.linear(x, self.weight)}
)");
  CHECK_THAT(failure("torchscript", reading(dictionary)),
             contains_text("forward returns GenericDict (expected a tensor"));
  torch::jit::Module empty("empty");
  empty.define("def forward(self, x):\n    return x\n");
  empty.save((folder.path() / "empty.pt").string());
  CHECK_THAT(failure("torchscript", reading(folder.path() / "empty.pt")),
             contains_text("the module has no parameters; save it without torch.jit.freeze"));
}

TEST_CASE("a module compiled ahead of time has the outputs and gradients of PyTorch", "[parity]") {
  if (!runs_compiled_code()) {
    TENON_SKIP("the compiled module needs a processor with AVX2");
  }
  const auto dtype = GENERATE(at::kFloat, at::kDouble);  // of the run: the module stays in fp32
  ModelRig rig("aot", reading(exported("iris_net")), dtype);
  check_golden(rig, 1e-5);
}

TEST_CASE("a module compiled ahead of time takes other batch sizes", "[parity]") {
  if (!runs_compiled_code()) {
    TENON_SKIP("the compiled module needs a processor with AVX2");
  }
  ModelRig compiled("aot", reading(exported("iris_net")));
  ModelRig script("torchscript", reading(exported("iris_net.pt")));
  for (const int64_t samples : {1, 2, 7, 24, 100}) {
    CAPTURE(samples);
    const at::Tensor x = first_batch().repeat({5, 1}).narrow(0, 0, samples);
    const at::Tensor grad = at::cos(at::arange(samples * 3, at::kFloat)).view({samples, 3});
    compiled.forward({{"x", x}});
    script.forward({{"x", x}});
    CHECK(at::allclose(compiled.output("logits"), script.output("logits"), 1e-5, 1e-5));
    compiled.backward("logits", grad);
    script.backward("logits", grad);
    for (const ModelParameter& parameter : script.graph().parameters) {
      CAPTURE(parameter.name);
      CHECK(at::allclose(compiled.grad(parameter.name), script.grad(parameter.name), 1e-4, 1e-4));
    }
  }
}

TEST_CASE("compiled modules that do not fit are refused with advice", "[parity]") {
  if (!runs_compiled_code()) {
    TENON_SKIP("the compiled module needs a processor with AVX2");
  }
  const ScratchFolder scratch;
  CHECK_THAT(failure("aot", reading(scratch.path() / "missing")),
             contains_text("missing/model.json cannot be read; `path` must name a folder that "
                           "tenon_aot.py wrote"));
  const fs::path folder = copied(scratch);
  CHECK_THAT(failure("aot", reading(folder, R"("inputs": ["a", "b"], )")),
             contains_text("option `inputs` has 2 fields"));
  CHECK_THAT(error_of([&] {
               ModelRig rig("aot", reading(folder));
               rig.forward({{"x", at::ones({2, 5})}});
             }),
             contains_text("input x has 2 axes with other sizes than the export ([2, 5], expected "
                           "[B, 4])"));
  change_manifest(folder, R"({"torch": "2.10.0"})");
  CHECK_THAT(failure("aot", reading(folder)),
             contains_text("was compiled with torch 2.10.0 (expected 2.11.x); export it again"));
  change_manifest(folder, R"({"torch": "2.11.0", "cpu_flags": ["avx2", "avx9000"]})");
  CHECK_THAT(failure("aot", reading(folder)),
             contains_text("was compiled for processors with avx9000, which this one lacks"));
  change_manifest(folder, R"({"cpu_flags": [], "device": "cuda"})");
  CHECK_THAT(failure("aot", reading(folder)), contains_text("was compiled for cuda on x86_64"));
  change_manifest(folder, R"({"device": "cpu", "format": "tenon.aot/9"})");
  CHECK_THAT(failure("aot", reading(folder)), contains_text("has the format tenon.aot/9"));
  change_manifest(folder, R"({"format": "tenon.aot/1", "graphs": {"forward": {"inputs": null}}})");
  CHECK_THAT(failure("aot", reading(folder)), contains_text("[aot.bad_manifest]"));
}

TEST_CASE("files of a compiled module that are corrupt or writable are refused", "[parity]") {
  if (!runs_compiled_code()) {
    TENON_SKIP("the compiled module needs a processor with AVX2");
  }
  const ScratchFolder scratch;
  const fs::path folder = copied(scratch);
  const auto mode = fs::perms::others_write;
  ::setenv("TENON_ALLOW_WRITABLE_PLUGINS", "0", 1);  // other tests run in a folder of all users
  fs::permissions(folder / "forward.so", mode, fs::perm_options::add);
  CHECK_THAT(failure("aot", reading(folder)), contains_text("forward.so is writable by all users"));
  fs::permissions(folder / "forward.so", mode, fs::perm_options::remove);
  fs::permissions(folder, mode, fs::perm_options::add);
  CHECK_THAT(failure("aot", reading(folder)), contains_text("iris_net is writable by all users"));
  fs::permissions(folder, mode, fs::perm_options::remove);
  ::setenv("TENON_ALLOW_WRITABLE_PLUGINS", "1", 1);
  fs::resize_file(folder / "weights.safetensors", 700);
  CHECK_THAT(failure("aot", reading(folder)), contains_text("[aot.bad_weights]"));
  fs::copy_file(exported("iris_net/weights.safetensors"),
                folder / "weights.safetensors",
                fs::copy_options::overwrite_existing);
  fs::resize_file(folder / "backward.so", 100);
  CHECK_THAT(failure("aot", reading(folder)), contains_text("backward.so cannot be loaded ("));
}

}  // namespace tenon
