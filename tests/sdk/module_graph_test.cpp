// SPDX-License-Identifier: Apache-2.0
//
// Models of the C++ wrapper by themselves: what they declare to a builder that is a table of
// functions, and the slots that they fill. The other tests of models go through the host.
#include <tenon/torch/module.hpp>

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

struct tenon_status {
  uint32_t code;
  std::string message;
};

namespace tenon {
namespace {

int num_handles = 0;  // alive
bool refuses_handles = false;

tenon_status* retain(const tenon_host*, const tenon_tensor* tensor, tenon_tensor** out) {
  if (refuses_handles) {
    return new tenon_status{TENON_OUT_OF_MEMORY, "no more handles"};
  }
  ++num_handles;
  *out = reinterpret_cast<tenon_tensor*>(new at::Tensor(unwrap(tensor)));
  return nullptr;
}

void release(tenon_tensor* tensor) {
  num_handles -= tensor != nullptr ? 1 : 0;
  delete reinterpret_cast<at::Tensor*>(tensor);
}

const void* get_interface(const tenon_host*, const char* id) {
  static const tenon_status_api statuses{
      sizeof(tenon_status_api),
      [](const tenon_host*, uint32_t code, const char*, const char* message, const char*, int32_t) {
        return new tenon_status{code, message};
      },
      [](tenon_status* status) { delete status; },
      [](const tenon_status* status) { return status->code; },
      [](const tenon_status*) { return ""; },
      [](const tenon_status* status) { return status->message.c_str(); },
      [](const tenon_status*) { return ""; },
      [](const tenon_status*) { return int32_t{0}; }};
  static const tenon_tensor_api tensors{sizeof(tenon_tensor_api),
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        retain,
                                        release,
                                        nullptr,
                                        nullptr,
                                        nullptr};
  if (id == std::string(TENON_TENSOR_ID)) {
    return &tensors;
  }
  return id == std::string(TENON_STATUS_ID) ? &statuses : nullptr;
}

const tenon_host fake_host{sizeof(tenon_host), 0, 1, "0.1.0", nullptr, get_interface};

using Splits = std::map<std::string, Split>;

// What a model declares, with the splits of all parameters and values that it splits.
struct Declared {
  std::vector<std::string> parameters;
  std::vector<std::string> values;
  Splits splits;
  std::map<std::string, std::vector<int64_t>> shapes;  // of parameters
  std::vector<std::string> buffers;
  uint32_t num_blocks = 0;
  std::string error;  // "" if `describe` succeeded
};

Declared& of(tenon_model_builder* builder) {
  return *static_cast<Declared*>(builder->impl);
}

void add(Splits& splits, const std::string& name, const tenon_split* split) {
  if (split == nullptr) {
    return;
  }
  CHECK(split->struct_size == sizeof(tenon_split));
  splits[name] = {split->axis,
                  {split->parts, split->parts + split->num_parts},
                  {split->units, split->units + split->num_parts}};
}

Declared declare(Model& model) {
  Declared out;
  tenon_model_builder builder{
      sizeof(tenon_model_builder),
      &out,
      [](tenon_model_builder* b, const tenon_value_spec* spec, uint32_t* index) -> tenon_status* {
        *index = static_cast<uint32_t>(of(b).values.size());
        of(b).values.emplace_back(spec->name);
        add(of(b).splits, spec->name, spec->split);
        return nullptr;
      },
      [](tenon_model_builder* b,
         const tenon_parameter_spec* spec,
         uint32_t* index) -> tenon_status* {
        *index = static_cast<uint32_t>(of(b).parameters.size());
        of(b).parameters.emplace_back(spec->name);
        of(b).shapes[spec->name] = {spec->shape, spec->shape + spec->ndim};
        add(of(b).splits, spec->name, spec->split);
        return nullptr;
      },
      [](tenon_model_builder* b, const tenon_buffer_spec* spec, uint32_t* index) -> tenon_status* {
        *index = static_cast<uint32_t>(of(b).buffers.size());
        of(b).buffers.emplace_back(spec->name);
        return nullptr;
      },
      [](tenon_model_builder* b, const tenon_block_spec*, uint32_t* index) -> tenon_status* {
        *index = of(b).num_blocks++;
        return nullptr;
      }};
  model.attach(Host(&fake_host));
  const auto& table = *static_cast<const tenon_model*>(Model::table<Model>());
  if (tenon_status* status = table.describe(&model, &builder); status != nullptr) {
    CHECK(status->code == TENON_INVALID);
    out.error = status->message;
    delete status;
  }
  return out;
}

at::Tensor run(torch::nn::Linear& layer, const at::Tensor& x) {
  return layer->forward(x);
}

// Two layers, with the splits that a test sets.
class TwoLayers final : public ModuleModel {
 public:
  explicit TwoLayers(std::vector<std::pair<std::string, Split>> splits)
      : splits_(std::move(splits)) {}
  void describe(ModuleGraph& g) override {
    const auto x = g.input("x", {"B", 6}, TENON_CLASS_COMPUTE, "features", {1, {6}, {3}});
    const auto h = g.value("h", {"B", 16});
    const auto y = g.value("y", {"B", 4}, TENON_F32, {1, {4}, {2}});
    for (const auto& [name, split] : splits_) {
      g.split(name, split);
    }
    g.module(
        "body", {x}, {h}, [] { return torch::nn::Linear(6, 16); }, run);
    g.module(
        "head", {h}, {y}, [] { return torch::nn::Linear(16, 4); }, run);
  }

 private:
  std::vector<std::pair<std::string, Split>> splits_;
};

// A module with a large weight, and buffers of which one holds random numbers. `reads` makes its
// constructor read a value of the weight.
struct LargeNet : torch::nn::Module {
  LargeNet(int64_t width, bool reads) {
    weight = register_parameter("weight", torch::randn({width, 1024}));
    bias = register_parameter("bias", torch::ones({4}));
    register_buffer("noise", torch::randn({3}));
    table = register_buffer("table", torch::zeros({width, 512}));
    table.slice(1, 0, 512, 2).copy_(torch::arange(width).unsqueeze(1));
    has_value = !weight.is_meta();
    if (reads) {
      has_value = weight.sum().item<float>() != 0;
    }
  }
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor table;
  bool has_value = false;
};

class LargeModel final : public ModuleModel {
 public:
  explicit LargeModel(int64_t width, bool reads = false) : width_(width), reads_(reads) {}
  void describe(ModuleGraph& g) override {
    const auto x = g.input("x", {"B", 4}, TENON_CLASS_COMPUTE);
    g.module(
        "net",
        {x},
        {g.value("y", {"B", 4})},
        [this] {
          auto net = std::make_shared<LargeNet>(width_, reads_);
          built_.push_back(net->has_value);
          return net;
        },
        [](const std::shared_ptr<LargeNet>& net, const at::Tensor& in) { return in * net->bias; });
  }
  // Whether each module that was built had a value of its weight.
  const std::vector<bool>& built() const { return built_; }

 private:
  int64_t width_;
  bool reads_;
  std::vector<bool> built_;
};

at::Tensor first_buffer(ModuleModel& model, uint32_t index, at::IntArrayRef shape) {
  at::Tensor value = at::zeros(shape);
  const tenon_exec exec{};
  const Host host(&fake_host);
  model.on_fill_buffer(Exec(host, &exec),
                       {.struct_size = sizeof(tenon_fill_buffer_args),
                        .buffer = index,
                        .reserved = 0,
                        .tensor = reinterpret_cast<tenon_tensor*>(&value)});
  return value;
}

class OneBlock final : public TorchModel {
 public:
  void describe(TorchGraph& g) override {
    const auto x = g.input("x", {"B", 6}, TENON_CLASS_COMPUTE);
    const auto y = g.value("y", {"B", 16}, TENON_CLASS_COMPUTE, {1, {16}, {4}});
    const auto w =
        g.parameter("w", {16, 6}, Init::zeros(), TENON_PARAM_NO_DECAY, {0, {8, 8}, {4, 2}});
    const auto b = g.parameter("b", {16}, Init::zeros());
    g.block("all", {x}, {y}, {w, b}, [](const BlockCall& call) {
      return at::linear(call.input(0), call.parameter(0), call.parameter(1));
    });
  }
};

}  // namespace

TEST_CASE("a module's leaf gets the split of its name, and all others none", "[sdk]") {
  TwoLayers model({{"head.weight", {1, {16}, {4}}}, {"body.weight", {0, {8, 4, 4}, {4, 2, 2}}}});
  const Declared declared = declare(model);
  CHECK(declared.error.empty());
  CHECK(declared.parameters ==
        std::vector<std::string>{"body.weight", "body.bias", "head.weight", "head.bias"});
  CHECK(declared.values == std::vector<std::string>{"x", "h", "y"});
  REQUIRE(declared.splits.size() == 4);
  const Split& body = declared.splits.at("body.weight");
  CHECK(body.axis == 0);
  CHECK(body.parts == std::vector<int64_t>{8, 4, 4});
  CHECK(body.units == std::vector<int64_t>{4, 2, 2});
  CHECK(declared.splits.at("head.weight").axis == 1);
  CHECK(declared.splits.at("x").units == std::vector<int64_t>{3});
  CHECK(declared.splits.at("y").units == std::vector<int64_t>{2});
}

TEST_CASE("a split of a leaf that no block has is an error, as are two of one leaf", "[sdk]") {
  TwoLayers absent({{"body.bias", {0, {16}, {4}}}, {"body.gain", {0, {16}, {4}}}});
  CHECK(declare(absent).error == "a split names body.gain, which is a parameter of no block");
  TwoLayers twice({{"body.bias", {0, {16}, {4}}}, {"body.bias", {0, {16}, {8}}}});
  CHECK(declare(twice).error == "parameter body.bias has two splits");
  TwoLayers uneven({{"body.bias", {0, {8, 8}, {4}}}});
  CHECK(declare(uneven).error ==
        "the split of body.bias has 2 parts and 1 units (expected one number of units per part)");
}

TEST_CASE("a functional model passes its splits on", "[sdk]") {
  OneBlock model;
  const Declared declared = declare(model);
  CHECK(declared.error.empty());
  REQUIRE(declared.splits.size() == 2);
  CHECK(declared.splits.at("w").parts == std::vector<int64_t>{8, 8});
  CHECK(declared.splits.at("w").units == std::vector<int64_t>{4, 2});
  CHECK(declared.splits.at("y").axis == 1);
}

TEST_CASE("a large module is described without memory, with all names and shapes", "[sdk]") {
  constexpr int64_t kWidth = int64_t{1} << 36;  // 256 TiB
  LargeModel model(kWidth);
  const Declared declared = declare(model);
  CHECK(declared.error.empty());
  CHECK(declared.parameters == std::vector<std::string>{"net.weight", "net.bias"});
  CHECK(declared.buffers == std::vector<std::string>{"net.noise", "net.table"});
  CHECK(declared.shapes.at("net.weight") == std::vector<int64_t>{kWidth, 1024});
  CHECK(model.built() == std::vector<bool>{false});
}

TEST_CASE("buffers of a module that was described without memory have its values", "[sdk]") {
  at::manual_seed(7);
  const LargeNet expected(512, false);
  at::manual_seed(7);
  LargeModel model(512);
  CHECK(declare(model).error.empty());
  CHECK(model.built() == std::vector<bool>{false});
  const at::Tensor next = at::randn({2});
  at::manual_seed(7);
  CHECK(at::equal(next, at::randn({2})));  // describing draws no random numbers
  at::manual_seed(8);
  const auto buffers = expected.named_buffers();
  CHECK(at::equal(first_buffer(model, 0, {3}), buffers["noise"]));
  CHECK(at::equal(first_buffer(model, 1, {512, 512}), buffers["table"]));
  CHECK(buffers["table"][3][2].item<float>() == 3);
}

TEST_CASE("a module that reads its values is described with memory", "[sdk]") {
  at::manual_seed(7);
  const LargeNet expected(512, true);
  at::manual_seed(7);
  LargeModel model(512, true);
  const Declared declared = declare(model);
  CHECK(declared.error.empty());
  CHECK(declared.shapes.at("net.weight") == std::vector<int64_t>{512, 1024});
  CHECK(model.built() == std::vector<bool>{true});
  CHECK(at::equal(first_buffer(model, 0, {3}), expected.named_buffers()["noise"]));
}

TEST_CASE("small tensors and tensors of a named device keep their values", "[sdk]") {
  at::Tensor large;
  at::Tensor small;
  at::Tensor named;
  at::Tensor like;
  {
    const DeferredInit deferred;
    large = at::ones({1024, 256});
    small = at::ones({4});
    named = at::ones({1024, 256}, at::kCPU);
    like = at::zeros_like(named);
    CHECK(large.mul(at::arange(256)).is_meta());
    CHECK_THROWS_AS(large.data_ptr<float>(), c10::Error);
    CHECK_THROWS_AS(large.mutable_data_ptr(), c10::Error);
  }
  CHECK(large.is_meta());
  CHECK(small.sum().item<float>() == 4);
  CHECK(named.sum().item<float>() == 1024 * 256);
  CHECK(like.is_meta());
  CHECK(at::ones({1024, 256}).is_cpu());
}

TEST_CASE("a slot is empty if its next tensor gets no handle", "[sdk]") {
  const Host host(&fake_host);
  tenon_exec context{};
  context.mode = TENON_MODE_TRAIN;
  const Exec exec(host, &context);
  const at::Tensor value = at::ones({2});
  tenon_tensor* slot = nullptr;
  tenon_forward_args forward{};
  forward.next_buffers_own = &slot;
  forward.num_buffers = 1;
  tenon_end_step_args end{};
  end.next_buffers_own = &slot;
  end.num_buffers = 1;
  const std::vector<std::function<void()>> setters = {
      [&] { BlockCall(exec, forward).set_next_buffer(0, value); },
      [&] { EndStepCall(exec, end).set_next_buffer(0, value); }};
  for (const std::function<void()>& set : setters) {
    set();
    REQUIRE(slot != nullptr);
    refuses_handles = true;
    CHECK_THROWS_AS(set(), Error);
    refuses_handles = false;
    REQUIRE(slot == nullptr);
    CHECK(num_handles == 0);
  }
}

}  // namespace tenon
