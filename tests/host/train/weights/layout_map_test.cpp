// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/layout_map.hpp"

#include <tenon/draft/weights_layout.h>
#include <tenon/model.h>

#include "host/checkpoint/weights_folder.hpp"
#include "host/error/error.hpp"
#include "host/train/weights/weights_import.hpp"

#include <ATen/Functions.h>

#include <string>
#include <vector>

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

// What the fake model says of its layout, for one test.
struct Entry {
  const char* name;
  const char* parameter;
  uint32_t flags = 0;
  int64_t first = 0;
  int64_t index = 0;
};
std::vector<Entry> g_entries;
bool g_differs = false;

tenon_status* describe(void*, const char*, uint32_t, tenon_layout_builder* builder) {
  for (const Entry& entry : g_entries) {
    const tenon_layout_tensor tensor{sizeof(tenon_layout_tensor),
                                     entry.name,
                                     entry.parameter,
                                     entry.flags,
                                     0,
                                     entry.first,
                                     entry.index};
    if (tenon_status* const status = builder->add_tensor(builder, &tensor)) {
      return status;
    }
  }
  return builder->add_file(builder, "config.json", "{\"width\": 3}");
}

tenon_status* compare(void*,
                      const char*,
                      const tenon_options*,
                      tenon_layout_differences* differences) {
  return g_differs ? differences->add(differences, "width", "3", "4") : nullptr;
}

const void* extension(void*, const char* id) {
  static const tenon_weights_layout table{sizeof(tenon_weights_layout), describe, compare};
  return std::string(id) == TENON_WEIGHTS_LAYOUT_ID ? &table : nullptr;
}

// A model with q [2, 3], k [1, 3], down [3, 2] and a norm [3], which "also" is tied to.
class LayoutModel {
 public:
  LayoutModel() : fake_("model", TENON_MODEL_ID, &table_), instance_(make()) {
    const auto add = [this](const char* name, std::vector<int64_t> shape) {
      ModelParameter parameter;
      parameter.name = name;
      parameter.shape = std::move(shape);
      parameter.dtype = TENON_CLASS_PARAM;
      parameter.blocks = {0};
      graph_.parameters.push_back(std::move(parameter));
    };
    add("q", {2, 3});
    add("k", {1, 3});
    add("down", {3, 2});
    add("norm", {3});
    add("also", {3});
    graph_.parameters.back().same_as = 3;
    ModelBlock block;
    block.name = "only";
    block.parameters = {0, 1, 2, 3, 4};
    graph_.blocks.push_back(block);
    g_differs = false;
    g_entries = {{"qk", "k", 0, 2},
                 {"up", "down", TENON_LAYOUT_TRANSPOSED},
                 {"qk", "q"},
                 {"norm", "norm"},
                 {"other", "also", TENON_LAYOUT_ALIAS}};
  }

  // Adds experts [3, 2, 4], whose slices are transposed matrices of files.
  void add_experts() {
    ModelParameter experts;
    experts.name = "experts";
    experts.shape = {3, 2, 4};
    experts.dtype = TENON_CLASS_PARAM;
    experts.blocks = {0};
    graph_.blocks[0].parameters.push_back(static_cast<uint32_t>(graph_.parameters.size()));
    graph_.parameters.push_back(std::move(experts));
    constexpr uint32_t kFlags = TENON_LAYOUT_SLICE | TENON_LAYOUT_TRANSPOSED;
    g_entries.push_back({"experts.2.w", "experts", kFlags, 0, 2});
    g_entries.push_back({"experts.0.w", "experts", kFlags, 0, 0});
    g_entries.push_back({"experts.1.w", "experts", kFlags, 0, 1});
  }

  const ComponentInstance& instance() const { return instance_; }
  const ModelGraph& graph() const { return graph_; }
  LayoutMap map() const { return layout_map_of(instance_, graph_, "hf", TENON_F32); }
  std::string failure() const {
    try {
      map();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  ComponentInstance make() {
    fake_.descriptor.get_extension = extension;
    return fake_.make();
  }

  tenon_model table_{};
  FakeComponent fake_;
  ComponentInstance instance_;
  ModelGraph graph_;
};

at::Tensor value_of(const Weight& weight) {
  int64_t numel = 1;
  for (const int64_t size : weight.shape) {
    numel *= size;
  }
  return (at::arange(numel, at::kFloat) + 100 * static_cast<int64_t>(weight.parameter))
      .view(weight.shape);
}

}  // namespace

TEST_CASE("weights go to joined and transposed tensors of a layout, and come back", "[train]") {
  const LayoutModel model;
  const LayoutMap map = model.map();
  REQUIRE(map.files.size() == 1);
  std::vector<WeightTensor> tensors;
  std::vector<at::Tensor> values;
  for (const MappedTensor& tensor : map.tensors) {
    values.push_back(joined(
        tensor, [&](const MappedWeight& part) { return value_of(map.weights[part.weight]); }));
    CHECK(values.back().sizes() == at::IntArrayRef(tensor.shape));
    tensors.push_back({tensor.name, at::kFloat, tensor.shape});
  }
  REQUIRE(tensors.size() == 4);
  CHECK(tensors[0].name == "qk");
  CHECK(at::equal(values[0], at::cat({value_of(map.weights[0]), value_of(map.weights[1])})));
  CHECK(tensors[1].shape == std::vector<int64_t>{2, 3});
  CHECK(at::equal(values[1], value_of(map.weights[2]).t()));
  CHECK(map.tensors[3].is_alias);

  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "out").string();
  const at::ScalarType kept = GENERATE(at::kFloat, at::kDouble);
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].dtype = kept;
  }
  write_weights_folder(
      path, tensors, [&](size_t i) { return values[i].to(kept); }, {{"config.json", "{}"}}, 1000);
  ParameterLayout layout;
  layout.partition_of = [](uint32_t) { return 0; };
  ParameterStore store(model.graph(), layout);
  const WeightsImport imported(model.instance(), model.graph(), {.format = "hf", .from = path});
  imported.load(store);
  for (const Weight& weight : map.weights) {
    CAPTURE(weight.name);
    CHECK(at::equal(store.leaf(weight.parameter).detach(), value_of(weight)));
  }

  // The second name of a tensor must be that tensor.
  const std::string other = (scratch.path() / "other").string();
  values[3] = values[3] + 1;
  write_weights_folder(
      other, tensors, [&](size_t i) { return values[i].to(kept); }, {}, 1000);
  const WeightsImport wrong(model.instance(), model.graph(), {.format = "hf", .from = other});
  CHECK_THROWS_WITH(
      wrong.load(store),
      contains_text("[weights.mismatch]") && contains_text("'other' has different values"));
}

TEST_CASE("the slices of a parameter are tensors of files, and come back", "[train]") {
  LayoutModel model;
  model.add_experts();
  const LayoutMap map = model.map();
  const Weight& experts = map.weights.back();
  REQUIRE(experts.name == "experts");
  std::vector<WeightTensor> tensors;
  std::vector<at::Tensor> values;
  for (const MappedTensor& tensor : map.tensors) {
    if (!tensor.is_alias) {
      tensors.push_back({tensor.name, at::kFloat, tensor.shape});
      values.push_back(joined(tensor, [&](const MappedWeight& part) {
        const at::Tensor whole = value_of(map.weights[part.weight]);
        return part.is_slice() ? whole[part.slice] : whole;
      }));
    }
  }
  REQUIRE(tensors.size() == 6);
  // Tensor 3 is slice 2 of [3, 2, 4], transposed.
  CHECK(tensors[3].name == "experts.2.w");
  CHECK(tensors[3].shape == std::vector<int64_t>{4, 2});
  CHECK(at::equal(values[3], value_of(experts)[2].t()));

  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "out").string();
  write_weights_folder(
      path, tensors, [&](size_t i) { return values[i]; }, {{"config.json", "{}"}}, 1000);
  const WeightsImport imported(model.instance(), model.graph(), {.format = "hf", .from = path});
  // On one rank, and on one of two that keep half of each group.
  for (const int64_t slice : {-1, 0, 1}) {
    CAPTURE(slice);
    ParameterLayout layout;
    layout.partition_of = [](uint32_t) { return 0; };
    if (slice >= 0) {
      layout.sharing = {.num_slices = 2, .slice = slice, .is_counted = true};
    }
    ParameterStore store(model.graph(), layout);
    imported.load(store);
    for (const Weight& weight : map.weights) {
      CAPTURE(weight.name);
      const ParameterStore::Position& position = store.position(weight.parameter);
      const FlatGroup& group = store.groups()[position.group];
      const FlatPart& part = group.part(position.entry);
      CHECK(at::equal(group.data().narrow(0, part.in_slice, part.length()),
                      values_of(part.piece, value_of(weight))));
    }
  }
}

TEST_CASE("slices that are missing, given twice or of another form are refused", "[train]") {
  LayoutModel model;
  model.add_experts();
  REQUIRE(model.failure().empty());
  const std::vector<Entry> sound = g_entries;
  const auto failure_with = [&](size_t i, const Entry& entry) {
    g_entries = sound;
    g_entries[i] = entry;
    return model.failure();
  };
  constexpr uint32_t kSlice = TENON_LAYOUT_SLICE;
  constexpr uint32_t kTurned = TENON_LAYOUT_SLICE | TENON_LAYOUT_TRANSPOSED;
  const size_t first = sound.size() - 3;
  CHECK_THAT(failure_with(first, {"more", "experts", kTurned, 0, 1}),
             contains_text("[weights.bad_layout]") &&
                 contains_text("slice 1 of 'experts' is given twice, by 'more' and by "));
  CHECK_THAT(failure_with(first, {"experts.3.w", "experts", kTurned, 0, 3}),
             contains_text("'experts.3.w' is slice 3 of 'experts', which has 3 slices"));
  CHECK_THAT(failure_with(first, {"experts.2.w", "experts", kSlice, 0, 2}),
             contains_text("of 'experts' have different flags"));
  CHECK_THAT(failure_with(first, {"experts.2.w", "experts", kTurned, 1, 2}),
             contains_text("a range of rows"));
  CHECK_THAT(failure_with(first, {"experts.2.w", "q", kTurned, 0, 1}),
             contains_text("its slices are no matrices"));
  g_entries = sound;
  g_entries.pop_back();
  CHECK_THAT(model.failure(), contains_text("slice 1 of 'experts' is missing"));
  g_entries = sound;
  g_entries.push_back({"all", "experts"});
  CHECK_THAT(model.failure(), contains_text("as a whole, and as slices"));
  g_entries = sound;
  g_entries.push_back({"experts.0.w", "k", 0, 1});
  CHECK_THAT(model.failure(), contains_text("a slice is a tensor of its own"));

  // In files: a slice that is missing, and one of another shape.
  g_entries = sound;
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "out").string();
  std::vector<WeightTensor> tensors;
  for (const MappedTensor& tensor : model.map().tensors) {
    if (!tensor.is_alias && tensor.name != "experts.0.w") {
      tensors.push_back({tensor.name,
                         at::kFloat,
                         tensor.name == "experts.1.w" ? std::vector<int64_t>{2, 4} : tensor.shape});
    }
  }
  write_weights_folder(
      path, tensors, [&](size_t i) { return at::zeros(tensors[i].shape); }, {}, 1000);
  CHECK_THROWS_WITH(WeightsImport(model.instance(), model.graph(), {.format = "hf", .from = path}),
                    contains_text("[weights.mismatch]") &&
                        contains_text("'experts.0.w' is missing") &&
                        contains_text("'experts.1.w' is [2, 4], but the model expects [4, 2]"));
}

TEST_CASE("what differs between files and a model is named", "[train]") {
  const LayoutModel model;
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "out").string();
  const std::vector<WeightTensor> tensors = {
      {"qk", at::kFloat, {3, 4}}, {"up", at::kLong, {2, 3}}, {"left", at::kFloat, {1}}};
  write_weights_folder(
      path,
      tensors,
      [&](size_t i) { return at::zeros(tensors[i].shape, tensors[i].dtype); },
      {{"config.json", "{}"}},
      1000);
  g_differs = true;
  CHECK_THROWS_WITH(WeightsImport(model.instance(), model.graph(), {.format = "hf", .from = path}),
                    contains_text("[weights.mismatch]") &&
                        contains_text("width is 3 in the recipe, and 4 in config.json") &&
                        contains_text("'qk' is [3, 4], but the model expects [3, 3]") &&
                        contains_text("'up' has the dtype Long") &&
                        contains_text("'norm' is missing") &&
                        contains_text("'left' [1] is not a tensor of the model"));
}

TEST_CASE("a folder with two names of one tensor is refused", "[train]") {
  const LayoutModel model;
  g_entries = {{"m.qk", "k", 0, 2},
               {"m.up", "down", TENON_LAYOUT_TRANSPOSED},
               {"m.qk", "q"},
               {"m.norm", "norm"},
               {"m.other", "also", TENON_LAYOUT_ALIAS}};
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "out").string();
  // The names lack the prefix "m.", and one tensor also has it.
  const std::vector<WeightTensor> tensors = {{"qk", at::kFloat, {3, 3}},
                                             {"up", at::kFloat, {2, 3}},
                                             {"norm", at::kFloat, {3}},
                                             {"m.norm", at::kFloat, {3}}};
  write_weights_folder(
      path, tensors, [&](size_t i) { return at::zeros(tensors[i].shape); }, {}, 1000);
  CHECK_THROWS_WITH(WeightsImport(model.instance(), model.graph(), {.format = "hf", .from = path}),
                    contains_text("[weights.mismatch]") &&
                        contains_text("'m.norm' and 'norm' would both be 'm.norm'"));
}

TEST_CASE("a layout that is not whole is refused", "[train]") {
  const LayoutModel model;
  REQUIRE(model.failure().empty());
  const std::vector<Entry> sound = g_entries;
  const auto failure_with = [&](size_t i, const Entry& entry) {
    g_entries = sound;
    g_entries[i] = entry;
    return model.failure();
  };
  CHECK_THAT(failure_with(0, {"qk", "k", 0, 1}),
             contains_text("[weights.bad_layout]") && contains_text("leave gaps"));
  CHECK_THAT(failure_with(0, {"qk", "down", 0, 2}), contains_text("rows of different sizes"));
  CHECK_THAT(failure_with(0, {"qk", "v", 0, 2}), contains_text("no such parameter"));
  CHECK_THAT(failure_with(3, {"norm", "norm", TENON_LAYOUT_TRANSPOSED}),
             contains_text("is not a matrix"));
  CHECK_THAT(failure_with(3, {"more", "q"}), contains_text("'q' has 2 places"));
  CHECK_THAT(failure_with(3, {"norm", "norm", TENON_LAYOUT_ALIAS}),
             contains_text("'norm' has no place"));
  CHECK_THAT(failure_with(3, {"other", "norm"}), contains_text("another name of a tensor"));

  const tenon_model table{};
  const FakeComponent plain("model", TENON_MODEL_ID, &table);
  CHECK_THROWS_WITH(layout_map_of(plain.make(), model.graph(), "hf", TENON_F32),
                    contains_text("[weights.no_layout]"));
}

}  // namespace tenon
