// SPDX-License-Identifier: Apache-2.0
#include "host/model/graph.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/plugin/model_proxy.hpp"

#include <functional>
#include <string>
#include <vector>

#include "tests/host/model/test_model.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"

namespace tenon {
namespace {

// A model of one block with a parameter "w", of shape [12, 8], and the values "x" and "y" [B, 12].
struct OneBlock {
  std::string name = "w";
  const tenon_split* of_parameter = nullptr;
  const tenon_split* of_value = nullptr;

  static tenon_status* describe(void* self, tenon_model_builder* b) {
    const auto& model = *static_cast<OneBlock*>(self);
    const tenon_axis axes[] = {{"B", -1}, {nullptr, 12}};
    uint32_t index = 0;
    tenon_value_spec x{};
    x.struct_size = sizeof(x);
    x.name = "x";
    x.dtype = TENON_CLASS_COMPUTE;
    x.ids = TENON_NO_INDEX;
    tenon_value_spec y = x;
    y.name = "y";
    y.source_kind = TENON_SOURCE_BLOCK;
    y.axes = axes;
    y.num_axes = 2;
    y.split = model.of_value;
    const int64_t shape[] = {12, 8};
    tenon_parameter_spec w{};
    w.struct_size = sizeof(w);
    w.name = model.name.c_str();
    w.shape = shape;
    w.ndim = 2;
    w.dtype = TENON_CLASS_PARAM;
    w.split = model.of_parameter;
    for (tenon_status* const status : {b->add_value(b, &x, &index),
                                       b->add_value(b, &y, &index),
                                       b->add_parameter(b, &w, &index)}) {
      if (status != nullptr) {
        return status;
      }
    }
    const uint32_t ends[] = {0, 1};
    const uint32_t parameter = 0;
    const tenon_block_spec block{
        sizeof(block), "block", 0, 0, &ends[0], 1, &ends[1], 1, &parameter, 1, nullptr, 0, nullptr};
    return b->add_block(b, &block, &index);
  }

  // The error of describing the model; "" if there is none.
  std::string problem() {
    static const tenon_model table{sizeof(tenon_model),
                                   describe,
                                   [](void*, const tenon_exec*, tenon_forward_args*) {
                                     return static_cast<tenon_status*>(nullptr);
                                   },
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   nullptr};
    ModelProxy proxy(made_instance("model", TENON_MODEL_ID, &table, this));
    try {
      describe_model(proxy);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
};

}  // namespace

TEST_CASE("a split fits the shape that it divides", "[model]") {
  const std::vector<int64_t> parts = {8, 2, 2};
  const std::vector<int64_t> units = {4, 1, 1};
  const auto of_parameter = [](uint32_t axis,
                               const std::vector<int64_t>& parts,
                               const std::vector<int64_t>& units) {
    const tenon_split split{sizeof(tenon_split), axis, 0, parts.data(), units.data(), parts.size()};
    return OneBlock{.of_parameter = &split}.problem();
  };
  CHECK(of_parameter(0, parts, units).empty());
  CHECK(of_parameter(1, {8}, {8}).empty());
  CHECK_THAT(of_parameter(2, parts, units), contains_text("is divided along axis 2 of 2"));
  CHECK_THAT(of_parameter(0, {}, {}), contains_text("is divided into no parts"));
  CHECK_THAT(of_parameter(0, {8, 4}, {3, 1}), contains_text("size 8 and 3 units"));
  CHECK_THAT(of_parameter(0, {8, -4, 8}, {1, 1, 1}), contains_text("part 1 of parameter 'w'"));
  CHECK_THAT(of_parameter(0, {INT64_MAX, INT64_MAX}, {1, 1}), contains_text("do not add up to 12"));
  CHECK_THAT(of_parameter(1, parts, units), contains_text("do not add up to 8"));
  const tenon_split of_heads{sizeof(tenon_split), 1, 0, parts.data(), units.data(), 3};
  CHECK(OneBlock{.of_value = &of_heads}.problem().empty());
  const tenon_split of_batch{sizeof(tenon_split), 0, 0, parts.data(), units.data(), 3};
  CHECK_THAT(OneBlock{.of_value = &of_batch}.problem(), contains_text("value 'y' do not add up"));
  const tenon_split short_one{8, 0, 0, parts.data(), units.data(), 3};
  CHECK_THAT(OneBlock{.of_parameter = &short_one}.problem(),
             contains_text("tenon_split has struct_size 8"));
}

TEST_CASE("a name with the separator of models is refused", "[model]") {
  CHECK(OneBlock{.name = "layers.0.w"}.problem().empty());
  CHECK_THAT(
      OneBlock{.name = "layers/0/w"}.problem(),
      contains_text("[model.bad_graph]") && contains_text("parameter 'layers/0/w' has a '/'"));
}

namespace {

// The error of describing a test model; "" if there is none.
std::string problem_of(TestModel test) {
  ModelProxy proxy(made_instance("model", TENON_MODEL_ID, test.table(), &test));
  try {
    describe_model(proxy);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// A chain of four blocks without parameters.
TestModel chain() {
  TestModel test;
  test.inputs = {"x"};
  test.num_values = 5;
  for (uint32_t b = 0; b < 4; ++b) {
    test.blocks.push_back({{b}, {b + 1}, {}, 0, {}});
  }
  return test;
}

}  // namespace

TEST_CASE("the blocks of a unit follow each other", "[model]") {
  TestModel test = chain();
  test.units = {"", "u", "u", "w"};
  ModelProxy proxy(made_instance("model", TENON_MODEL_ID, test.table(), &test));
  const ModelGraph graph = describe_model(proxy);
  CHECK(graph.unit_of(0) == ModelUnit{0, 0});
  CHECK(graph.unit_of(1) == ModelUnit{1, 2});
  CHECK(graph.unit_of(2) == ModelUnit{1, 2});
  CHECK(graph.unit_of(3) == ModelUnit{3, 3});
  CHECK(graph.blocks[0].unit_name() == "block0");
  CHECK(graph.blocks[2].unit_name() == "u");

  test.units = {"u", "w", "u"};
  CHECK_THAT(problem_of(test),
             contains_text("[model.bad_graph]") &&
                 contains_text("unit 'u' is interrupted: block 'block1' is between its blocks "
                               "'block0' and 'block2'; add the blocks of a unit one after the "
                               "other"));
  test.units = {"u", "", "u"};
  CHECK_THAT(problem_of(test), contains_text("unit 'u' is interrupted: block 'block1'"));
  test.units = {"block2"};
  CHECK_THAT(problem_of(test), contains_text("has the name of another block"));
  test.units = {"a/b"};
  CHECK_THAT(problem_of(test), contains_text("the name of unit 'a/b' has a '/'"));
}

TEST_CASE("only a batch field is optional", "[model]") {
  TestModel test = chain();
  test.value_flags = {TENON_VALUE_OPTIONAL};
  CHECK(problem_of(test).empty());
  test.value_flags = {0, TENON_VALUE_OPTIONAL};
  CHECK_THAT(problem_of(test),
             contains_text("[model.bad_graph]") &&
                 contains_text("value 'v1' is optional (TENON_VALUE_OPTIONAL), but is not a batch "
                               "field"));
  test.value_flags = {1U << 5};
  CHECK_THAT(problem_of(test), contains_text("value 'x' has flags 32"));
}

}  // namespace tenon
