// SPDX-License-Identifier: Apache-2.0
//
// Features of types made for the test: "plus" and "minus" add a number to ids, "pair" does so to
// two columns. Each type counts its calls, and the instances in them.
#include "host/data/feature_graph.hpp"

#include "host/data/feature_source.hpp"
#include "host/data/loader.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/host/data/fake_source.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Ids = std::vector<int64_t>;

// A type of features, and the instances that were made of it.
struct FakeType {
  struct Instance {
    FakeType* type;
    int64_t amount;
  };

  explicit FakeType(std::string name) {
    table.struct_size = sizeof(table);
    table.infer = [](void* self,
                     const tenon_column_type* inputs,
                     size_t num_inputs,
                     tenon_column_type* outputs,
                     size_t* io_num_outputs) -> tenon_status* {
      const FakeType& type = *static_cast<Instance*>(self)->type;
      if (inputs[0].dtype != TENON_I64) {
        return make_status(nullptr, TENON_INVALID, "", "takes i64");
      }
      const size_t made = type.num_outputs;
      std::fill_n(outputs, made, inputs[num_inputs - 1]);
      *io_num_outputs = made;
      return nullptr;
    };
    table.run = [](const tenon_exec*, tenon_feature_call* calls, size_t n) -> tenon_status* {
      FakeType& type = *static_cast<Instance*>(calls[0].self)->type;
      ++type.num_calls;
      type.num_instances += static_cast<int>(n);
      for (size_t i = 0; i < n; ++i) {
        const auto& instance = *static_cast<Instance*>(calls[i].self);
        for (size_t output = 0; output < calls[i].num_outputs; ++output) {
          const at::Tensor& ids = tensor_of(calls[i].inputs[output].values);
          const at::Tensor bad = (ids == type.refused).nonzero();
          if (bad.numel() > 0) {
            const std::string sample = std::to_string(bad[0][0].item<int64_t>());
            const std::string text = "sample " + sample + " of the batch has a bad id";
            return make_status(nullptr, TENON_INVALID, "", text.c_str());
          }
          calls[i].outputs[output].values_own = new_handle(ids + instance.amount);
        }
      }
      return nullptr;
    };
    descriptor.struct_size = sizeof(descriptor);
    descriptor.kind = "feature";
    type_name = std::move(name);
    descriptor.type = type_name.c_str();
    descriptor.interface_id = TENON_FEATURE_ID;
    descriptor.table = &table;
    descriptor.summary = "";
    descriptor.options_schema = "{}";
    descriptor.create =
        [](const tenon_host*, const tenon_create_args*, void** out_self) -> tenon_status* {
      *out_self = next;
      return nullptr;
    };
    descriptor.destroy = [](void*) {};
    component = {&plugin, &descriptor, "feature", type_name, TENON_FEATURE_ID, &table, "", "{}"};
  }

  FeatureProxy make(int64_t amount) {
    instances.push_back({this, amount});
    next = &instances.back();
    return FeatureProxy(ComponentInstance::create(component, {}));
  }

  static inline Instance* next = nullptr;
  std::string type_name;
  size_t num_outputs = 1;
  int64_t refused = -1;  // an id; set while nothing runs
  std::deque<Instance> instances;
  std::atomic<int> num_calls = 0;
  std::atomic<int> num_instances = 0;  // over all calls
  tenon_feature table{};
  tenon_component descriptor{};
  LoadedPlugin plugin{{"org.tenon.test", "0.0.1", "test.so"}, {}};
  LoadedComponent component;
};

// Steps are written "plus 3": the type and its amount.
struct FakeFeatures {
  FakeType plus{"plus"};
  FakeType minus{"minus"};
  FakeType pair{"pair"};
  std::vector<FeatureDefinition> definitions;
  std::set<std::string> made;

  FakeFeatures() { pair.num_outputs = 2; }

  void add(const std::string& name,
           const std::vector<std::string>& from,
           const std::vector<std::string>& steps) {
    FeatureDefinition& feature =
        definitions.emplace_back(FeatureDefinition{.name = name, .from = from, .steps = {}});
    for (const std::string& step : steps) {
      feature.steps.push_back({.type = step.substr(0, step.find(' ')), .identity = step});
    }
  }

  std::unique_ptr<FeatureGraph> graph(const std::vector<FieldInfo>& fields) {
    return std::make_unique<FeatureGraph>(
        definitions, fields, "dataset \"fake\"", ExecBase(), [this](size_t feature, size_t step) {
          const FeatureDefinition::Step& wanted = definitions[feature].steps[step];
          made.insert(wanted.identity);
          const int64_t amount = std::stoll(wanted.identity.substr(wanted.type.size()));
          return (wanted.type == "plus"    ? plus
                  : wanted.type == "minus" ? minus
                                           : pair)
              .make(amount);
        });
  }
};

FieldInfo field(const std::string& name, uint32_t dtype = TENON_I64) {
  return {.name = name, .dtype = dtype, .axes = {{.name = "B"}}};
}

Batch batch_of(const FeatureGraph& graph, const std::vector<at::Tensor>& columns) {
  Batch batch;
  batch.schema = graph.schema();
  batch.fields = columns;
  batch.samples = columns.front().size(0);
  return batch;
}

Ids ids_of(const at::Tensor& tensor) {
  const auto* const data = tensor.const_data_ptr<int64_t>();
  return {data, data + tensor.numel()};
}

at::Tensor ints(const Ids& values) {
  return at::tensor(values, at::kLong);
}

std::string refusal(FakeFeatures& features, const std::vector<FieldInfo>& fields) {
  try {
    features.graph(fields);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("features make fields behind those of the dataset", "[data]") {
  FakeFeatures features;
  features.add("a", {"x"}, {"plus 1", "plus 10"});
  features.add("b", {"a"}, {"minus -5"});
  features.add("c", {"x", "b"}, {"pair 100"});
  const auto graph = features.graph({field("x"), field("y", TENON_F32)});
  std::vector<std::string> names;
  for (const FieldInfo& each : *graph->schema()) {
    names.push_back(each.name);
  }
  CHECK(names == std::vector<std::string>{"x", "y", "a", "b", "c.0", "c.1"});
  const std::vector<at::Tensor> made = graph->run(batch_of(*graph, {ints({1, 2}), at::ones({2})}));
  REQUIRE(made.size() == 4);
  CHECK(ids_of(made[0]) == Ids{12, 13});
  CHECK(ids_of(made[1]) == Ids{7, 8});
  CHECK(ids_of(made[2]) == Ids{101, 102});
  CHECK(ids_of(made[3]) == Ids{107, 108});
}

TEST_CASE("one of several columns of a feature may be read by its number", "[data]") {
  FakeFeatures features;
  features.add("p", {"x", "y"}, {"pair 1"});
  features.add("q", {"p.1"}, {"plus 1"});
  features.add("r", {"p"}, {"pair 1"});
  const auto graph = features.graph({field("x"), field("y")});
  const std::vector<at::Tensor> made = graph->run(batch_of(*graph, {ints({1}), ints({5})}));
  REQUIRE(made.size() == 5);
  CHECK(ids_of(made[2]) == Ids{7});
  CHECK(ids_of(made[3]) == Ids{3});
  CHECK(ids_of(made[4]) == Ids{7});
}

TEST_CASE("equal chains are computed once", "[data]") {
  FakeFeatures features;
  features.add("a", {"x"}, {"plus 1", "plus 2", "minus 3"});
  features.add("b", {"x"}, {"plus 1", "plus 2", "minus 4"});
  features.add("c", {"x"}, {"plus 1", "plus 2", "minus 3"});
  features.add("d", {"y"}, {"plus 1"});
  features.add("e", {"a"}, {"plus 1"});
  features.add("f", {"c"}, {"plus 1"});
  const auto graph = features.graph({field("x"), field("y")});
  CHECK(graph->num_steps() == 6);
  const std::vector<at::Tensor> made = graph->run(batch_of(*graph, {ints({0, 1}), ints({7, 8})}));
  CHECK(features.plus.num_instances == 4);
  CHECK(features.minus.num_instances == 2);
  CHECK(ids_of(made[0]) == Ids{6, 7});
  CHECK(ids_of(made[1]) == Ids{7, 8});
  CHECK(ids_of(made[2]) == Ids{6, 7});
  CHECK(ids_of(made[3]) == Ids{8, 9});
  CHECK(ids_of(made[4]) == ids_of(made[5]));
}

TEST_CASE("steps of one type that are ready together are one call", "[data]") {
  FakeFeatures features;
  for (int i = 0; i < 26; ++i) {
    features.add("f" + std::to_string(i),
                 {"x"},
                 {"plus " + std::to_string(i), "minus " + std::to_string(i)});
  }
  const auto graph = features.graph({field("x")});
  CHECK(graph->num_calls() == 2);
  graph->run(batch_of(*graph, {ints({1, 2, 3})}));
  CHECK(features.plus.num_calls == 1);
  CHECK(features.plus.num_instances == 26);
  CHECK(features.minus.num_calls == 1);
}

TEST_CASE("a type waits for those of its steps that are not ready yet", "[data]") {
  FakeFeatures features;
  features.add("a", {"x"}, {"plus 1", "minus 1"});
  features.add("b", {"x"}, {"pair 1"});
  features.definitions.back().from = {"x", "y"};
  features.add("c", {"b.0"}, {"plus 2", "minus 2"});
  const auto graph = features.graph({field("x"), field("y")});
  CHECK(graph->num_calls() == 3);
  CHECK(ids_of(graph->run(batch_of(*graph, {ints({1}), ints({2})})).at(0)) == Ids{3});
}

TEST_CASE("features that cannot be made are refused by name", "[data]") {
  {
    FakeFeatures features;
    features.add("user", {"usr"}, {"plus 1"});
    CHECK(
        refusal(features, {field("user_id"), field("age", TENON_F32)}) ==
        "[data.bad_feature] dataset \"fake\", feature \"user\": it reads \"usr\", which is neither "
        "a column of the dataset (user_id, age) nor an earlier feature (none)");
  }
  {
    FakeFeatures features;
    features.add("age2", {"age"}, {"plus 1"});
    CHECK_THAT(
        refusal(features, {field("age", TENON_F32)}),
        contains_text("[data.bad_feature] dataset \"fake\", feature \"age2\", step 1 (plus): "));
    CHECK_THAT(refusal(features, {field("age", TENON_F32)}),
               contains_text("takes i64\nInputs: f32, one per sample"));
  }
  {
    FakeFeatures features;
    features.add("x", {"x"}, {"plus 1"});
    CHECK_THAT(refusal(features, {field("x")}),
               contains_text("the dataset already has a column of that name"));
  }
  {
    FakeFeatures features;
    features.add("later", {"first"}, {"plus 1"});
    features.add("first", {"x"}, {"plus 1"});
    CHECK_THAT(refusal(features, {field("x")}), contains_text("it reads \"first\""));
  }
  {
    FakeFeatures features;
    features.add("a", {"x"}, {"plus 1"});
    CHECK_THAT(refusal(features, {{.name = "x.values", .dtype = TENON_I64, .axes = {{}}}}),
               contains_text("[data.bad_column] dataset \"fake\", feature \"a\": field"));
  }
}

TEST_CASE("an error of a call of several is told of the one whose it is", "[data]") {
  FakeFeatures features;
  features.add("a", {"x"}, {"plus 1"});
  features.add("b", {"y"}, {"plus 2"});
  features.plus.refused = 42;
  const auto graph = features.graph({field("x"), field("y")});
  CHECK(graph->num_calls() == 1);
  CHECK(graph->run(batch_of(*graph, {ints({1, 2}), ints({3, 4})})).size() == 2);
  try {
    graph->run(batch_of(*graph, {ints({1, 2}), ints({3, 42})}));
    FAIL("no error was thrown");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), contains_text("dataset \"fake\", feature \"b\", step 1 (plus): "));
    CHECK_THAT(error.what(), contains_text("sample 1 of the batch has a bad id"));
  }
}

TEST_CASE("columns that run backwards are told before a feature sees them", "[data]") {
  FakeFeatures features;
  features.add("a", {"l"}, {"plus 1"});
  const std::vector<Axis> list = {{.name = "", .size = -1}};
  const auto graph = features.graph({{.name = "l.values", .dtype = TENON_I64, .axes = list},
                                     {.name = "l.offsets", .dtype = TENON_I64, .axes = list}});
  Batch batch = batch_of(*graph, {ints({1, 2, 3}), ints({0, 3, 1})});
  batch.samples = 2;
  try {
    graph->run(batch);
    FAIL("no error was thrown");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          "[data.bad_batch] dataset \"fake\": column \"l\", which a feature reads: offsets of "
          "level 0 decrease from 3 to 1, at sample 1 of the batch");
  }
  CHECK(features.plus.num_calls == 0);
}

TEST_CASE("batches with features are the same for any number of loader threads", "[data]") {
  for (const bool is_stream : {false, true}) {
    std::vector<Ids> first;
    for (const int threads : {0, 1, 4}) {
      FakeFeatures features;
      features.add("a", {"sample"}, {"plus 1", "minus 5"});
      features.add("b", {"a"}, {"plus 1000000"});
      FakeMap map(103);
      FakeStream stream({20, 0, 31}, FakeStream::End::kAfterLast);
      DataSource& inner = is_stream ? static_cast<DataSource&>(stream) : map;
      const auto graph = features.graph(*inner.info().schema);
      FeatureSource source(inner, *graph);
      Loader loader(source,
                    std::nullopt,
                    0,
                    {.batch_size = 7, .shuffle = true, .seed = 3, .num_threads = threads});
      std::vector<Ids> all;
      while (const std::optional<Batch> batch = loader.next()) {
        REQUIRE(batch->fields.size() == 3);
        all.push_back(ids_of(batch->fields[0]));
        Ids expected = all.back();
        for (int64_t& id : expected) {
          id += 1 + 5 + 1000000;
        }
        CHECK(ids_of(*batch->find("b")) == expected);
      }
      CHECK(!map.was_unsafe);
      CHECK(!stream.was_unsafe);
      if (first.empty()) {
        first = all;
      }
      CHECK(all == first);
    }
    CHECK(first.size() >= 8);
  }
}

TEST_CASE("positions with features are those of the dataset", "[data]") {
  FakeFeatures features;
  features.add("a", {"sample"}, {"plus 1"});
  FakeStream stream({20, 31}, FakeStream::End::kWithLast);
  const auto graph = features.graph(*stream.info().schema);
  FeatureSource source(stream, *graph);
  Loader loader(source, std::nullopt, 0, {.batch_size = 8, .num_threads = 2});
  for (int i = 0; i < 3; ++i) {
    REQUIRE(loader.next());
  }
  const LoaderPosition at = loader.position();
  std::vector<Ids> rest;
  while (const std::optional<Batch> batch = loader.next()) {
    rest.push_back(ids_of(*batch->find("a")));
  }
  Loader again(source, std::nullopt, 0, {.batch_size = 8}, at);
  for (const Ids& expected : rest) {
    CHECK(ids_of(*again.next()->find("a")) == expected);
  }
  CHECK_FALSE(again.next());
}

TEST_CASE("a rank without a part of the last batch gets one without fields", "[data]") {
  FakeFeatures features;
  features.add("a", {"sample"}, {"plus 1"});
  FakeMap map(3);
  const auto graph = features.graph(*map.info().schema);
  FeatureSource source(map, *graph);
  Loader loader(source, std::nullopt, 0, {.batch_size = 2, .rank = {.rank = 1, .size = 2}});
  const std::optional<Batch> batch = loader.next();
  REQUIRE(batch);
  if (batch->samples == 0) {
    CHECK_FALSE(batch->fields[1].defined());
  } else {
    CHECK(ids_of(batch->fields[1]).size() == static_cast<size_t>(batch->samples));
  }
  CHECK(batch->fields.size() == 2);
}

}  // namespace tenon
