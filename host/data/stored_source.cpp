// SPDX-License-Identifier: Apache-2.0

#include "host/data/stored_source.hpp"

#include "host/data/batch_builder.hpp"
#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

bool is_by_position(const FieldInfo& field) {
  return field.axes.size() == 2 && field.axes[0].name == "B" && field.axes[1].name == "T";
}

// Returns why no values can be stored for the samples of a source; "" if they can.
std::string unstorable(const DataSource& source) {
  if (source.info().style == DatasetStyle::kStream) {
    return "is a stream, whose samples have no numbers";
  }
  if (source.info().has_windows) {
    return "has windows, whose samples are not known before the run";
  }
  if (!source.parts().empty()) {
    return "is a mixture, in which a sample has no number of its own";
  }
  if (std::ranges::none_of(*source.info().schema, is_by_position)) {
    return "has no field with the axes B and T";
  }
  return {};
}

}  // namespace

StoredSource::StoredSource(DataSource& source,
                           std::vector<std::string> fields,
                           at::ScalarType dtype)
    : OuterSource(source), dtype_(dtype), fields_(std::move(fields)), values_(fields_.size()) {
  if (const std::string why = unstorable(source); !why.empty()) {
    throw Error("data.cannot_store",
                "outputs of a model cannot be stored for the samples of " + source.name() +
                    ": it " + why + "; set \"outputs\" of the model to \"computed\"");
  }
  std::vector<FieldInfo> schema = *info_.schema;
  like_ = static_cast<size_t>(std::ranges::find_if(schema, is_by_position) - schema.begin());
  const std::vector<Axis> axes = schema[like_].axes;
  for (const std::string& name : fields_) {
    schema.push_back(
        {.name = name, .dtype = static_cast<uint32_t>(dtype), .flags = 0, .axes = axes, .pad = 0});
  }
  info_.schema = std::make_shared<const std::vector<FieldInfo>>(std::move(schema));
}

void StoredSource::set_values(const std::string& field,
                              std::shared_ptr<const SampleValues> values) {
  const auto found = std::ranges::find(fields_, field);
  TENON_ASSERT(found != fields_.end(), "values of a field that the source does not add");
  values_[static_cast<size_t>(found - fields_.begin())] = std::move(values);
}

void StoredSource::read(const Window* window,
                        std::span<const int64_t> indices,
                        tenon_batch_writer& writer) {
  BatchBuilder builder(source_, static_cast<int64_t>(indices.size()));
  source_.read(window, indices, builder.writer());
  const Batch batch = builder.finish();
  // Without own lengths, a sample is as long as its batch, which differs between batches.
  const int64_t* const lengths = source_.info().has_lengths && batch.lengths.defined()
                                     ? batch.lengths.const_data_ptr<int64_t>()
                                     : nullptr;
  std::vector<at::Tensor> fields = batch.fields;
  for (const std::shared_ptr<const SampleValues>& values : values_) {
    const at::Tensor field_BT = at::zeros(batch.fields[like_].sizes(), dtype_);
    for (size_t b = 0; values != nullptr && b < indices.size(); ++b) {
      const int64_t num_values =
          values->read(indices[b], field_BT.select(0, static_cast<int64_t>(b)));
      if (lengths != nullptr && num_values != lengths[b]) {
        throw Error("outputs.corrupt",
                    formatted("{}: sample {} has {} stored values (expected {}, its length); "
                              "remove the folder of the values to compute them again",
                              source_.name(),
                              indices[b],
                              num_values,
                              lengths[b]));
      }
    }
    fields.push_back(field_BT);
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    throw_if_failed(writer.add_tensor(&writer, static_cast<uint32_t>(i), borrow(fields[i])));
  }
  throw_if_failed(writer.set_counts(&writer, batch.samples, batch.tokens));
  if (batch.lengths.defined()) {
    throw_if_failed(writer.set_lengths(
        &writer, batch.lengths.const_data_ptr<int64_t>(), static_cast<size_t>(batch.samples)));
  }
}

bool StoredSource::next(const Window* /*window*/,
                        uint32_t /*shard*/,
                        int64_t /*max_samples*/,
                        tenon_batch_writer& /*writer*/) {
  TENON_ASSERT(false, "a source with stored values is no stream");
  return true;
}

}  // namespace tenon
