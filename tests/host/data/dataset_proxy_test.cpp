// SPDX-License-Identifier: Apache-2.0
#include "host/data/dataset_proxy.hpp"

#include <tenon/status.h>

#include "host/tensor/stop_flag.hpp"

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

const tenon_axis kAxes[] = {{"B", -1}, {"T", 128}};
const tenon_field_spec kFields[] = {
    {sizeof(tenon_field_spec), "input_ids", kAxes, 2, TENON_I64, 0, 0.0},
    {sizeof(tenon_field_spec), "labels", kAxes, 2, TENON_I64, TENON_FIELD_HOST_ONLY, -100.0},
};

// What `describe` gives, and what `next_window` and `size` do. Each test sets its own.
tenon_dataset_info info;
tenon_window window;
uint32_t has_window;
int64_t num_samples;
bool is_stop_seen;

tenon_dataset table() {
  info = {sizeof(info), TENON_DATASET_MAP, 0, 0, 0, kFields, 2};
  tenon_dataset table{};
  table.struct_size = sizeof(table);
  table.describe = [](void*, tenon_dataset_info* out) -> tenon_status* {
    *out = info;
    return nullptr;
  };
  table.size = [](void*, const tenon_window*, int64_t* out) -> tenon_status* {
    *out = num_samples;
    return nullptr;
  };
  table.read = [](void*, const tenon_exec* exec, const tenon_read_args* args) -> tenon_status* {
    is_stop_seen = exec->stop_requested(exec) != 0;
    return args->writer->set_counts(
        args->writer, static_cast<int64_t>(args->num_indices), args->indices[0]);
  };
  table.next = [](void*, const tenon_exec*, tenon_next_args* args) -> tenon_status* {
    args->out_end = args->shard == 1 ? 2 : 0;  // every value but 0 is true
    return args->writer->set_counts(args->writer, args->max_samples, 0);
  };
  table.seek = [](void*, const tenon_exec*, const tenon_seek_args* args) -> tenon_status* {
    num_samples = args->position == nullptr ? -1 : static_cast<int64_t>(args->position_size);
    return nullptr;
  };
  table.next_window = [](void*, tenon_window* out, uint32_t* out_has) -> tenon_status* {
    *out = window;
    *out_has = has_window;
    return nullptr;
  };
  table.reset = [](void*, uint64_t epoch) -> tenon_status* {
    num_samples = static_cast<int64_t>(epoch);
    return nullptr;
  };
  return table;
}

struct Writer {
  int64_t samples = 0;
  int64_t tokens = 0;
  tenon_batch_writer abi{};

  Writer() {
    abi.struct_size = sizeof(abi);
    abi.impl = this;
    abi.set_counts =
        [](tenon_batch_writer* writer, int64_t samples, int64_t tokens) -> tenon_status* {
      static_cast<Writer*>(writer->impl)->samples = samples;
      static_cast<Writer*>(writer->impl)->tokens = tokens;
      return nullptr;
    };
  }
};

}  // namespace

TEST_CASE("a map-style dataset is described and read", "[data]") {
  const tenon_dataset good = table();
  const FakeComponent fake("dataset", TENON_DATASET_ID, &good);
  DatasetProxy dataset(fake.make());
  CHECK(dataset.info().style == DatasetStyle::kMap);
  CHECK_FALSE(dataset.info().has_windows);
  CHECK(dataset.info().num_shards == 1);
  const std::vector<FieldInfo>& fields = *dataset.info().schema;
  REQUIRE(fields.size() == 2);
  CHECK((fields[0].axes == std::vector<Axis>{{"B", -1}, {"T", 128}}));
  CHECK(fields[0].flags == 0);
  CHECK(fields[1].flags == TENON_FIELD_HOST_ONLY);
  CHECK(fields[1].pad == -100.0);

  num_samples = 41;
  CHECK(dataset.size(nullptr) == 41);
  const int64_t indices[] = {7, 3};
  Writer writer;
  dataset.read(nullptr, indices, writer.abi);
  CHECK(writer.samples == 2);
  CHECK(writer.tokens == 7);
  CHECK_FALSE(is_stop_seen);
  set_stop_requested(true);
  dataset.read(nullptr, indices, writer.abi);
  set_stop_requested(false);
  CHECK(is_stop_seen);
  num_samples = -1;
  CHECK_THROWS_WITH(dataset.size(nullptr), contains_text("[plugin.bad_result]"));
}

TEST_CASE("a stream is read by shards and put back to a position", "[data]") {
  const tenon_dataset good = table();
  info.style = TENON_DATASET_STREAM;
  info.num_shards = 2;
  const FakeComponent fake("dataset", TENON_DATASET_ID, &good);
  DatasetProxy dataset(fake.make());
  CHECK(dataset.info().style == DatasetStyle::kStream);
  CHECK(dataset.info().num_shards == 2);
  Writer writer;
  CHECK_FALSE(dataset.next(nullptr, 0, 5, writer.abi));
  CHECK(dataset.next(nullptr, 1, 6, writer.abi));
  CHECK(writer.samples == 6);
  dataset.seek(nullptr, 0, "abc");
  CHECK(num_samples == 3);
  dataset.seek(nullptr, 0, std::nullopt);
  CHECK(num_samples == -1);
  dataset.reset(9);
  CHECK(num_samples == 9);
}

TEST_CASE("a window keeps its label when the dataset goes on", "[data]") {
  const tenon_dataset good = table();
  info.has_windows = 1;
  const FakeComponent fake("dataset", TENON_DATASET_ID, &good);
  DatasetProxy dataset(fake.make());
  char label[] = "day 1";
  window = {sizeof(window), 17, label, 100, 1, 0};
  has_window = 1;
  const std::optional<Window> first = dataset.next_window();
  label[4] = '2';
  REQUIRE(first);
  const std::optional<Window> second = dataset.next_window();
  const Window copy = *first;
  CHECK(copy.id() == 17);
  CHECK(copy.label() == "day 1");
  CHECK(std::string(copy.abi()->label_ref) == "day 1");
  CHECK(copy.abi() == first->abi());
  CHECK(copy.size() == 100);
  CHECK(copy.is_skipped());
  CHECK(second->label() == "day 2");

  window.label_ref = nullptr;
  CHECK(dataset.next_window()->label().empty());
  window.size = -1;
  CHECK_THROWS_WITH(dataset.next_window(), contains_text("next_window returned the size -1"));
  has_window = 0;
  CHECK_FALSE(dataset.next_window());
}

TEST_CASE("what a dataset needs depends on its style", "[data]") {
  tenon_dataset bad = table();
  const FakeComponent fake("dataset", TENON_DATASET_ID, &bad);
  const auto missing = [&](auto tenon_dataset::*function) {
    const auto kept = bad.*function;
    bad.*function = nullptr;
    const std::string error = proxy_error<DatasetProxy>(fake);
    bad.*function = kept;
    return error;
  };
  CHECK(missing(&tenon_dataset::describe) == missing_function("dataset", "describe"));
  CHECK(missing(&tenon_dataset::size) == missing_function("dataset", "size"));
  CHECK(missing(&tenon_dataset::read) == missing_function("dataset", "read"));
  CHECK(missing(&tenon_dataset::next).empty());
  CHECK(missing(&tenon_dataset::next_window).empty());
  CHECK(missing(&tenon_dataset::reset).empty());
  info.has_windows = 1;
  CHECK(missing(&tenon_dataset::next_window) == missing_function("dataset", "next_window"));
  CHECK(missing(&tenon_dataset::reset) == missing_function("dataset", "reset"));
  info.has_windows = 0;
  info.style = TENON_DATASET_STREAM;
  info.num_shards = 1;
  CHECK(missing(&tenon_dataset::next) == missing_function("dataset", "next"));
  CHECK(missing(&tenon_dataset::seek) == missing_function("dataset", "seek"));
  CHECK(missing(&tenon_dataset::reset) == missing_function("dataset", "reset"));
  CHECK(missing(&tenon_dataset::read).empty());
}

TEST_CASE("a dataset that describes itself wrongly is refused", "[data]") {
  const tenon_dataset odd = table();
  const FakeComponent fake("dataset", TENON_DATASET_ID, &odd);
  const tenon_dataset_info good = info;
  info.style = 2;
  CHECK_THAT(proxy_error<DatasetProxy>(fake), contains_text("describe returned style 2"));
  info = good;
  info.style = TENON_DATASET_STREAM;
  CHECK_THAT(proxy_error<DatasetProxy>(fake),
             contains_text("describe returned num_shards 0, expected 1 to 65536"));
  info.num_shards = UINT32_MAX;
  CHECK_THAT(proxy_error<DatasetProxy>(fake), contains_text("num_shards 4294967295"));
  info = good;
  info.num_fields = 0;
  CHECK_THAT(proxy_error<DatasetProxy>(fake), contains_text("describe returned no fields"));
  tenon_field_spec fields[] = {kFields[0], kFields[0]};
  info = good;
  info.fields_ref = fields;
  CHECK_THAT(proxy_error<DatasetProxy>(fake), contains_text("\"input_ids\" is declared twice"));
  fields[0].dtype = TENON_CLASS_INTEGER;
  CHECK_THAT(proxy_error<DatasetProxy>(fake), contains_text("expected an exact dtype"));
  fields[0].name = nullptr;
  CHECK_THAT(proxy_error<DatasetProxy>(fake), contains_text("field 0 has no name"));
}
