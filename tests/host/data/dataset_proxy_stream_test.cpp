// SPDX-License-Identifier: Apache-2.0

#include <tenon/component.h>
#include <tenon/dataset.h>

#include "host/data/data_stream.hpp"
#include "host/data/dataset_proxy.hpp"
#include "host/error/error.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/host/data/fake_source.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// A dataset behind the ABI: two windows of three shards, of which shard s has 3 + s samples.
struct Plugin {
  static constexpr uint32_t kShards = 3;
  uint32_t style = TENON_DATASET_STREAM;
  uint64_t window = 0;
  int64_t positions[kShards] = {};
  bool has_null_position = false;
  bool writes_twice = false;

  static Plugin& of(void* self) { return *static_cast<Plugin*>(self); }

  static tenon_status* describe(void* self, tenon_dataset_info* out) {
    static const tenon_axis kAxes[] = {{"B", -1}};
    static const tenon_field_spec kFields[] = {
        {sizeof(tenon_field_spec), "sample", kAxes, 1, TENON_I64, TENON_FIELD_HOST_ONLY, -1.0}};
    out->style = of(self).style;
    out->has_windows = 1;
    out->num_shards = kShards;
    out->fields_ref = kFields;
    out->num_fields = 1;
    return nullptr;
  }

  static tenon_status* write(tenon_batch_writer* writer, std::vector<int64_t> samples) {
    const auto n = static_cast<int64_t>(samples.size());
    void* data = nullptr;
    if (tenon_status* const status = writer->add(writer, 0, 1, &n, &data)) {
      return status;
    }
    std::copy(samples.begin(), samples.end(), static_cast<int64_t*>(data));
    return writer->set_counts(writer, n, 0);
  }

  static tenon_status* size(void*, const tenon_window* window, int64_t* out) {
    *out = window->size;
    return nullptr;
  }

  static tenon_status* read(void* self, const tenon_exec*, const tenon_read_args* args) {
    std::vector<int64_t> samples;
    for (size_t i = 0; i < args->num_indices; ++i) {
      samples.push_back(args->indices[i] + 100 * static_cast<int64_t>(args->window->id));
    }
    tenon_status* const status = write(args->writer, samples);
    return status == nullptr && of(self).writes_twice ? write(args->writer, samples) : status;
  }

  static tenon_status* next(void* self, const tenon_exec*, tenon_next_args* args) {
    int64_t& position = of(self).positions[args->shard];
    const int64_t size = 3 + int64_t{args->shard};
    std::vector<int64_t> samples;
    while (position < size && static_cast<int64_t>(samples.size()) < args->max_samples) {
      samples.push_back(100 * static_cast<int64_t>(args->window->id) + 10 * int64_t{args->shard} +
                        position++);
    }
    args->out_end = position == size ? 1 : 0;
    if (tenon_status* const status =
            args->writer->set_position(args->writer, &position, sizeof(position))) {
      return status;
    }
    return write(args->writer, samples);
  }

  static tenon_status* seek(void* self, const tenon_exec*, const tenon_seek_args* args) {
    int64_t& position = of(self).positions[args->shard];
    position = 0;
    if (args->position == nullptr) {
      of(self).has_null_position = true;
    } else {
      std::copy_n(static_cast<const char*>(args->position),
                  args->position_size,
                  reinterpret_cast<char*>(&position));
    }
    return nullptr;
  }

  static tenon_status* next_window(void* self, tenon_window* out, uint32_t* out_has) {
    *out_has = of(self).window < 2 ? 1 : 0;
    out->id = ++of(self).window;
    out->label_ref = out->id == 1 ? "one" : "two";
    out->size = of(self).style == TENON_DATASET_MAP ? 4 : -1;
    return nullptr;
  }

  static tenon_status* reset(void* self, uint64_t) {
    of(self).window = 0;
    return nullptr;
  }
};

// Makes a source of `plugin`, through descriptor, instance and proxy as of a loaded one.
class Loaded {
 public:
  explicit Loaded(Plugin& plugin) : library_({"org.example.numbers", "1.0", "numbers.so"}, {}) {
    // `create` has no other way to reach it.
    static Plugin* instance = nullptr;
    instance = &plugin;
    table_.struct_size = sizeof(table_);
    table_.describe = Plugin::describe;
    table_.size = Plugin::size;
    table_.read = Plugin::read;
    table_.next = Plugin::next;
    table_.seek = Plugin::seek;
    table_.next_window = Plugin::next_window;
    table_.reset = Plugin::reset;
    descriptor_.struct_size = sizeof(descriptor_);
    descriptor_.kind = "dataset";
    descriptor_.type = "numbers";
    descriptor_.interface_id = TENON_DATASET_ID;
    descriptor_.table = &table_;
    descriptor_.create = [](const tenon_host*, const tenon_create_args*, void** out_self) {
      *out_self = instance;
      return static_cast<tenon_status*>(nullptr);
    };
    descriptor_.destroy = [](void*) {};
    library_.components.push_back(
        {&library_, &descriptor_, "dataset", "numbers", TENON_DATASET_ID, &table_, "", "{}"});
  }

  DatasetProxy proxy() {
    CreateRequest request;
    request.place = "/data/train";
    return DatasetProxy(ComponentInstance::create(library_.components[0], request));
  }

 private:
  tenon_dataset table_{};
  tenon_component descriptor_{};
  LoadedPlugin library_;
};

TEST_CASE("a plugin's schema reaches the loaders", "[data]") {
  Plugin plugin;
  Loaded loaded(plugin);
  const DatasetProxy source(loaded.proxy());
  CHECK_THAT(source.name(), contains_text("dataset \"numbers\""));
  CHECK(source.info().style == DatasetStyle::kStream);
  CHECK(source.info().has_windows);
  CHECK(source.info().num_shards == 3);
  REQUIRE(source.info().schema->size() == 1);
  const FieldInfo& field = source.info().schema->front();
  CHECK(field.name == "sample");
  CHECK(field.dtype == TENON_I64);
  CHECK(field.flags == TENON_FIELD_HOST_ONLY);
  CHECK((field.axes == std::vector<Axis>{{"B", -1}}));
  CHECK(field.pad == -1.0);
}

TEST_CASE("a plugin's stream is read, saved and resumed through the ABI", "[data]") {
  Plugin plugin;
  Loaded loaded(plugin);
  DatasetProxy source(loaded.proxy());
  StateTree tree;
  {
    DataStream stream(source, {.batch_size = 2, .num_threads = 2, .prefetch = 4});
    stream.begin_epoch(0);
    REQUIRE(stream.next_window());
    CHECK(stream.window_label() == "one");
    CHECK(plugin.has_null_position);
    CHECK(drain(stream.loader()) ==
          std::vector<std::vector<int64_t>>{
              {100, 101}, {110, 111}, {120, 121}, {102}, {112, 113}, {122, 123}, {124}});
    REQUIRE(stream.next_window());
    CHECK(samples_of(*stream.loader().next()) == std::vector<int64_t>{200, 201});
    CHECK(samples_of(*stream.loader().next()) == std::vector<int64_t>{210, 211});
    stream.snapshot(tree, "data");
  }
  DataStream stream(source, {.batch_size = 2});
  stream.load(tree, "data");
  CHECK(stream.window_label() == "two");
  CHECK(drain(stream.loader()) ==
        std::vector<std::vector<int64_t>>{{220, 221}, {202}, {212, 213}, {222, 223}, {224}});
  CHECK_FALSE(stream.next_window());
}

TEST_CASE("a plugin's samples are read by index through the ABI", "[data]") {
  Plugin plugin{.style = TENON_DATASET_MAP};
  Loaded loaded(plugin);
  DatasetProxy source(loaded.proxy());
  DataStream stream(source, {.batch_size = 3, .num_threads = 1});
  stream.begin_epoch(0);
  REQUIRE(stream.next_window());
  CHECK(stream.loader().num_samples() == 4);
  CHECK(drain(stream.loader()) == std::vector<std::vector<int64_t>>{{100, 101, 102}, {103}});
}

TEST_CASE("a plugin that breaks its schema is named", "[data]") {
  Plugin plugin{.style = TENON_DATASET_MAP, .writes_twice = true};
  Loaded loaded(plugin);
  DatasetProxy source(loaded.proxy());
  DataStream stream(source, {.batch_size = 3, .num_threads = 1});
  stream.begin_epoch(0);
  REQUIRE(stream.next_window());
  CHECK_THROWS_WITH(stream.loader().next(),
                    contains_text("[data.bad_batch]") && contains_text("numbers.so") &&
                        contains_text("field \"sample\" is written twice"));
}

}  // namespace
}  // namespace tenon
