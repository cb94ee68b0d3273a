// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/load_plan.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

class InMemory final : public TensorSource {
 public:
  explicit InMemory(at::Tensor values)
      : TensorSource(values.scalar_type(), values.sizes().vec()), values_(std::move(values)) {}
  void read(int64_t first, const at::Tensor& out) const override {
    out.view(-1).copy_(values_.reshape(-1).narrow(0, first, out.numel()));
  }

 private:
  at::Tensor values_;
};

// A model with a weight [2, 3], a bias [2], and a head that is tied to the weight.
class Desk {
 public:
  Desk() : fake_("model", TENON_MODEL_ID, &table_), instance_(fake_.make()) {
    add("body.weight", {2, 3});
    add("body.bias", {2});
    add("head.weight", {2, 3});
    graph_.parameters.back().same_as = 0;
    ModelBlock block;
    block.name = "only";
    block.parameters = {0, 1, 2};
    graph_.blocks.push_back(std::move(block));
    source_.address = "there";
    load_.pointer = "/load/0";
    load_.layout = LoadLayout::kOwn;
  }

  void has(const std::string& name, at::Tensor values) {
    source_.tensors[name] = std::make_shared<InMemory>(std::move(values));
  }
  void has_all() {
    has("body.weight", at::ones({2, 3}));
    has("body.bias", at::ones({2}));
  }
  LoadRecipe& load() { return load_; }
  LoadPlan plan() const {
    return plan_load(load_, source_, {.model = instance_, .graph = graph_, .tables = {}});
  }
  std::string failure() const {
    try {
      plan();
    } catch (const Error& error) {
      return "[" + error.id() + "] " + error.message();
    }
    return "";
  }

 private:
  void add(const char* name, std::vector<int64_t> shape) {
    ModelParameter parameter;
    parameter.name = name;
    parameter.shape = std::move(shape);
    parameter.dtype = TENON_CLASS_PARAM;
    parameter.blocks = {0};
    graph_.parameters.push_back(std::move(parameter));
  }

  tenon_model table_{};
  FakeComponent fake_;
  ComponentInstance instance_;
  ModelGraph graph_;
  LoadedSource source_;
  LoadRecipe load_;
};

}  // namespace

TEST_CASE("a load that fits takes each parameter once", "[train]") {
  Desk desk;
  desk.has_all();
  const LoadPlan plan = desk.plan();
  REQUIRE(plan.parts.size() == 2);
  CHECK(plan.weights[plan.parts[0].mapped.weight].name == "body.weight");
  CHECK(plan.weights[plan.parts[1].mapped.weight].name == "body.bias");
  CHECK(plan.kept.empty());
  CHECK(plan.left.empty());
  CHECK(plan_text(plan, 0) == "2 parameters");
}

TEST_CASE("a strict load lists all that does not fit", "[train]") {
  Desk desk;
  desk.has("body.weight", at::ones({3, 3}));
  desk.has("tail.weight", at::ones({4}));
  const std::string said = desk.failure();
  CHECK_THAT(said, contains_text("[load.mismatch] there does not fit /load/0:"));
  CHECK_THAT(said, contains_text("'body.weight' is [3, 3], expected [2, 3]"));
  CHECK_THAT(said, contains_text("'body.bias' is missing"));
  CHECK_THAT(said, contains_text("'tail.weight' is not in the model"));
  CHECK_THAT(said,
             contains_text("select and rename with \"match\", \"exclude\" and \"rename\"") &&
                 !contains_text("strict"));
}

TEST_CASE("a load that is not strict takes what fits, unless that is nothing", "[train]") {
  Desk desk;
  desk.load().is_strict = false;
  desk.has("body.bias", at::ones({2}));
  desk.has("tail.weight", at::ones({4}));
  const LoadPlan plan = desk.plan();
  CHECK(plan.parts.size() == 1);
  CHECK(plan.kept == std::vector<std::string>{"body.weight"});
  CHECK(plan.left == std::vector<std::string>{"tail.weight"});
  // Parameters that keep their initial values are told as a warning.
  CHECK(plan.cautions ==
        std::vector<std::string>{"'body.weight' is missing; it keeps its initial values"});

  Desk none;
  none.load().is_strict = false;
  none.has("body.bias", at::ones({3}));
  CHECK_THAT(none.failure(), contains_text("nothing would be loaded"));
}

TEST_CASE("rows for new tokens are asked for, and never the price of a load", "[train]") {
  Desk desk;
  desk.has("body.weight", at::ones({1, 3}));
  desk.has("body.bias", at::ones({2}));
  CHECK_THAT(desk.failure(),
             contains_text("'body.weight' is [1, 3], expected [2, 3]") &&
                 contains_text("set \"resize\": [\"body.weight\"] to keep the rows and add rows") &&
                 !contains_text("strict"));
  desk.load().is_strict = false;
  CHECK_THAT(desk.failure(), contains_text("all its rows would keep their initial values"));
  desk.load().is_strict = true;
  desk.load().resize = {"body.w*"};
  const LoadPlan plan = desk.plan();
  REQUIRE(plan.parts.size() == 2);
  CHECK(plan.resized == std::vector<std::string>{"body.weight"});
  CHECK(plan_text(plan, 0) == "2 parameters; with rows for new tokens: body.weight");
  desk.load().resize = {"head"};
  CHECK_THAT(desk.failure(),
             contains_text("[load.unmatched]") && contains_text("/load/0/resize/0"));
  desk.load().resize = {"*"};
  desk.has("body.weight", at::ones({3, 3}));
  CHECK_THAT(desk.failure(), contains_text("'body.weight' is [3, 3], expected [2, 3]"));
}

TEST_CASE("a tied name stands for its parameter, with equal values", "[train]") {
  Desk desk;
  desk.has("head.weight", at::ones({2, 3}));
  desk.has("body.bias", at::ones({2}));
  CHECK(desk.plan().parts.size() == 2);
  desk.has("body.weight", at::zeros({2, 3}));
  CHECK_THAT(desk.failure(),
             contains_text("'head.weight' has different values than 'body.weight', but the model "
                           "ties them"));
}

TEST_CASE("integers do not become weights", "[train]") {
  Desk desk;
  desk.has("body.weight", at::ones({2, 3}));
  desk.has("body.bias", at::ones({2}, at::kLong));
  CHECK_THAT(desk.failure(), contains_text("'body.bias' has the dtype Long"));
}

TEST_CASE("names may differ in the source, and patterns must match", "[train]") {
  Desk desk;
  desk.has("old.weight", at::ones({2, 3}));
  desk.has("old.bias", at::ones({2}));
  desk.load().rename = {{"old.*", "body.*"}};
  CHECK(desk.plan().parts.size() == 2);
  desk.load().match = {"*.bias"};
  const LoadPlan bias = desk.plan();
  REQUIRE(bias.parts.size() == 1);
  CHECK(bias.weights[bias.parts[0].mapped.weight].name == "body.bias");
  desk.load().match = {"*.gain"};
  CHECK_THAT(desk.failure(), contains_text("[load.unmatched]") && contains_text("*.gain"));
}

TEST_CASE("an adapter needs parametrizations in the recipe", "[train]") {
  Desk desk;
  desk.has_all();
  LoadedSource source;
  source.address = "adapter";
  source.adapter = "{}";
  LoadRecipe load;
  load.pointer = "/load/1";
  tenon_model table{};
  FakeComponent fake("model", TENON_MODEL_ID, &table);
  const ComponentInstance instance = fake.make();
  const ModelGraph graph;
  CHECK_THROWS_WITH(plan_load(load, source, {.model = instance, .graph = graph, .tables = {}}),
                    contains_text("adapter does not fit /load/1") &&
                        contains_text("the recipe has no parametrizations"));
}

}  // namespace tenon
