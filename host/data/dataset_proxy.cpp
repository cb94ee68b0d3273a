// SPDX-License-Identifier: Apache-2.0

#include "host/data/dataset_proxy.hpp"

#include <tenon/draft/sample_places.h>

#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/plugin/interface_table.hpp"
#include "host/plugin/port_spec.hpp"
#include "host/plugin/stateful_proxy.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/state/state_bridge.hpp"
#include "host/tensor/tensor_service.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Every shard has a cursor on some rank, and a position in each checkpoint.
constexpr uint32_t kMaxShards = 65536;

FieldInfo copy_field(const tenon_field_spec& field,
                     std::size_t i,
                     const ComponentIdentity& identity) {
  identity.check_name(field.name, "field", i);
  const std::string of = "field \"" + std::string(field.name) + "\"";
  identity.check_flags(field.flags, TENON_FIELD_HOST_ONLY | TENON_FIELD_TEXT, of);
  if (!is_dtype(field.dtype)) {
    identity.fail_result(formatted("{} has dtype {}, expected an exact dtype", of, field.dtype));
  }
  return {.name = field.name,
          .dtype = field.dtype,
          .flags = field.flags,
          .axes = copy_axes(field.axes, field.num_axes, of, identity),
          .pad = field.pad};
}

// Returns the fields of `describe`, in its order.
BatchSchema schema_of(const tenon_dataset_info& info, const ComponentIdentity& identity) {
  if (info.fields_ref == nullptr || info.num_fields == 0) {
    identity.fail_result("describe returned no fields");
  }
  std::vector<FieldInfo> fields;
  for (std::size_t i = 0; i < info.num_fields; ++i) {
    FieldInfo field = copy_field(element_of(info.fields_ref, i, identity), i, identity);
    if (find_field(fields, field.name).has_value()) {
      identity.fail_result("field \"" + field.name + "\" is declared twice");
    }
    fields.push_back(std::move(field));
  }
  return std::make_shared<const std::vector<FieldInfo>>(std::move(fields));
}

const tenon_window* abi_of(const Window* window) {
  return window != nullptr ? window->abi() : nullptr;
}

}  // namespace

DatasetProxy::DatasetProxy(ComponentInstance instance, const tenon_mesh* mesh)
    : instance_(std::move(instance)),
      name_(instance_.identity().describe()),
      table_(table_of<tenon_dataset>(instance_, TENON_DATASET_ID)),
      frame_(instance_.host(), {.mesh = mesh, .tensors = tensor_service(), .ops = op_service()}) {
  const ComponentIdentity& identity = instance_.identity();
  TENON_REQUIRE(tenon_dataset, table_, describe, TENON_DATASET_ID, identity);
  const auto info =
      filled_by<tenon_dataset_info>(instance_, "describe", [&](tenon_dataset_info* out) {
        return table_->describe(instance_.self(), out);
      });

  if (info.style != TENON_DATASET_MAP && info.style != TENON_DATASET_STREAM) {
    identity.fail_result(
        formatted("describe returned style {}, expected one of TENON_DATASET_*", info.style));
  }
  info_.style = info.style == TENON_DATASET_MAP ? DatasetStyle::kMap : DatasetStyle::kStream;
  info_.has_windows = info.has_windows != 0;
  if (info_.style == DatasetStyle::kMap) {
    TENON_REQUIRE(tenon_dataset, table_, size, TENON_DATASET_ID, identity);
    TENON_REQUIRE(tenon_dataset, table_, read, TENON_DATASET_ID, identity);
  } else {
    TENON_REQUIRE(tenon_dataset, table_, next, TENON_DATASET_ID, identity);
    TENON_REQUIRE(tenon_dataset, table_, seek, TENON_DATASET_ID, identity);
    if (info.num_shards == 0 || info.num_shards > kMaxShards) {
      identity.fail_result(formatted(
          "describe returned num_shards {}, expected 1 to {}", info.num_shards, kMaxShards));
    }
    info_.num_shards = info.num_shards;
  }
  if (info_.has_windows) {
    TENON_REQUIRE(tenon_dataset, table_, next_window, TENON_DATASET_ID, identity);
  }
  if (info_.has_windows || info_.style == DatasetStyle::kStream) {
    TENON_REQUIRE(tenon_dataset, table_, reset, TENON_DATASET_ID, identity);
  }
  has_reset_ = TENON_HAS(tenon_dataset, table_, reset);
  info_.has_lengths =
      info_.style == DatasetStyle::kMap && TENON_HAS(tenon_dataset, table_, lengths);
  info_.schema = schema_of(info, identity);
}

int64_t DatasetProxy::size(const Window* window) {
  int64_t size = 0;
  instance_.call("size", [&] { return table_->size(instance_.self(), abi_of(window), &size); });
  if (size < 0) {
    instance_.identity().fail_result(formatted("size returned {}", size));
  }
  return size;
}

void DatasetProxy::read(const Window* window,
                        std::span<const int64_t> indices,
                        tenon_batch_writer& writer) {
  const tenon_read_args args{.struct_size = sizeof(tenon_read_args),
                             .window = abi_of(window),
                             .indices = indices.data(),
                             .num_indices = indices.size(),
                             .writer = &writer};
  instance_.call("read", [&] { return table_->read(instance_.self(), &frame_.exec(), &args); });
}

bool DatasetProxy::next(const Window* window,
                        uint32_t shard,
                        int64_t max_samples,
                        tenon_batch_writer& writer) {
  tenon_next_args args{.struct_size = sizeof(tenon_next_args),
                       .window = abi_of(window),
                       .shard = shard,
                       .out_end = 0,
                       .max_samples = max_samples,
                       .writer = &writer};
  instance_.call("next", [&] { return table_->next(instance_.self(), &frame_.exec(), &args); });
  return args.out_end != 0;
}

void DatasetProxy::seek(const Window* window,
                        uint32_t shard,
                        const std::optional<std::string>& position) {
  const auto bytes = position ? std::as_bytes(std::span(*position)) : std::span<const std::byte>();
  const tenon_seek_args args{.struct_size = sizeof(tenon_seek_args),
                             .window = abi_of(window),
                             .shard = shard,
                             .reserved = 0,
                             .position = bytes.data(),
                             .position_size = bytes.size()};
  instance_.call("seek", [&] { return table_->seek(instance_.self(), &frame_.exec(), &args); });
}

std::optional<Window> DatasetProxy::next_window() {
  uint32_t has_window = 0;
  auto window = filled_by<tenon_window>(instance_, "next_window", [&](tenon_window* out) {
    return table_->next_window(instance_.self(), out, &has_window);
  });
  if (has_window == 0) {
    return std::nullopt;
  }
  if (window.wait_ms != 0) {
    window.size = 0;
    return Window(window);
  }
  if (window.size < -1 || (window.size == -1 && info_.style == DatasetStyle::kMap)) {
    instance_.identity().fail_result(formatted("next_window returned the size {}", window.size));
  }
  return Window(window);
}

const LengthTable& DatasetProxy::lengths_of(const Window* window) {
  const uint64_t id = window != nullptr ? window->id() : 0;
  if (!lengths_ || window_of_lengths_ != id) {
    lengths_.reset();
    window_of_lengths_ = id;
    lengths_.emplace(name_, size(window), [&](int64_t first, std::span<int64_t> out) {
      const tenon_lengths_args args{.struct_size = sizeof(tenon_lengths_args),
                                    .window = abi_of(window),
                                    .first = first,
                                    .num_samples = out.size(),
                                    .out_lengths = out.data()};
      instance_.call("lengths",
                     [&] { return table_->lengths(instance_.self(), &frame_.exec(), &args); });
    });
  }
  return *lengths_;
}

void DatasetProxy::lengths(const Window* window,
                           std::span<const int64_t> indices,
                           std::span<int32_t> out) {
  const LengthTable& table = lengths_of(window);
  for (size_t i = 0; i < indices.size(); ++i) {
    out[i] = table.at(indices[i]);
  }
}

LengthSummary DatasetProxy::length_summary(const Window* window) {
  LengthSummary summary = lengths_of(window).summary();
  summary.dataset = this;
  return summary;
}

std::string DatasetProxy::place_of(const Window* window, int64_t index) {
  const auto* const table =
      static_cast<const tenon_sample_places*>(instance_.extension(TENON_SAMPLE_PLACES_ID));
  if (table == nullptr) {
    return "";
  }
  TENON_REQUIRE(
      tenon_sample_places, table, find_place, TENON_SAMPLE_PLACES_ID, instance_.identity());
  const char* place = nullptr;
  try {
    instance_.call("find_place", [&] {
      return table->find_place(instance_.self(), abi_of(window), index, &place);
    });
  } catch (const Error& error) {
    log_debug(formatted("{}: sample {} has no place: {}", name_, index, error.what()));
    return "";
  }
  return place != nullptr ? place : "";
}

SourceReport DatasetProxy::report() {
  const auto state = StatefulProxy::of(instance_);
  if (!state) {
    return {};
  }
  StateTree tree;
  StateWriter writer(tree, "state", state->version(), state->host());
  state->snapshot(*writer.abi());
  SourceReport report;
  for (int i = 0; tree.find(formatted("state/left_out/{}", i)) != nullptr; ++i) {
    const std::string text = tree.get_bytes(formatted("state/left_out/{}", i));
    for (const std::string_view line : lines_of(text)) {
      report.left_out.emplace_back(line);
    }
  }
  for (int i = 0; tree.has_subtree(formatted("state/problems/{}", i)); ++i) {
    const std::string at = formatted("state/problems/{}", i);
    report.bad_windows.push_back({.id = static_cast<uint64_t>(tree.get_int(at + "/id")),
                                  .label = tree.get_bytes(at + "/label"),
                                  .why = tree.get_bytes(at + "/why")});
  }
  return report;
}

void DatasetProxy::reset(uint64_t epoch) {
  lengths_.reset();
  if (has_reset_) {
    instance_.call("reset", [&] { return table_->reset(instance_.self(), epoch); });
  }
}

}  // namespace tenon
