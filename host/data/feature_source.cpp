// SPDX-License-Identifier: Apache-2.0

#include "host/data/feature_source.hpp"

#include "host/data/batch_builder.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"

#include <numeric>

namespace tenon {
namespace {

// Lengths that count other tokens than the batch follow from the axis "T" again.
void write_lengths(const Batch& batch, tenon_batch_writer& writer) {
  if (!batch.lengths.defined()) {
    return;
  }
  const auto* const lengths = batch.lengths.const_data_ptr<int64_t>();
  if (std::accumulate(lengths, lengths + batch.samples, int64_t{0}) == batch.tokens) {
    throw_if_failed(writer.set_lengths(&writer, lengths, static_cast<std::size_t>(batch.samples)));
  }
}

}  // namespace

FeatureSource::FeatureSource(DataSource& source, const FeatureGraph& graph)
    : OuterSource(source), graph_(graph) {
  info_.schema = graph.schema();
}

void FeatureSource::read(const Window* window,
                         std::span<const int64_t> indices,
                         tenon_batch_writer& writer) {
  BatchBuilder builder(source_, static_cast<int64_t>(indices.size()));
  source_.read(window, indices, builder.writer());
  write(builder.finish(), writer);
}

bool FeatureSource::next(const Window* window,
                         uint32_t shard,
                         int64_t max_samples,
                         tenon_batch_writer& writer) {
  BatchBuilder builder(source_, max_samples);
  const bool has_ended = source_.next(window, shard, max_samples, builder.writer());
  const Batch batch = builder.finish();
  if (builder.position()) {
    throw_if_failed(
        writer.set_position(&writer, builder.position()->data(), builder.position()->size()));
  }
  write(batch, writer);
  return has_ended;
}

void FeatureSource::write(const Batch& batch, tenon_batch_writer& writer) const {
  const bool is_empty = batch.samples == 0 && info_.style == DatasetStyle::kStream;
  if (!is_empty) {  // an empty batch has no fields to write
    std::vector<at::Tensor> fields = batch.fields;
    const std::vector<at::Tensor> made = graph_.run(batch);
    fields.insert(fields.end(), made.begin(), made.end());
    for (std::size_t i = 0; i < fields.size(); ++i) {
      throw_if_failed(writer.add_tensor(&writer, static_cast<uint32_t>(i), borrow(fields[i])));
    }
  }
  throw_if_failed(writer.set_counts(&writer, batch.samples, batch.tokens));
  write_lengths(batch, writer);
}

}  // namespace tenon
