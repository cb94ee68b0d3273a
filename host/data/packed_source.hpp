// SPDX-License-Identifier: Apache-2.0
//
// A map-style source whose samples loaders pack into rows of T tokens. Its fields are those of a
// row: each field of the samples, which lie side by side along the axis "T", then `position_ids`,
// which restart with each sample, and `segment_ids`, which number the samples of a row. Order,
// positions and windows are those of the packed source. pack_plan.hpp makes the rows.
// Threads: as in DataSource.

#pragma once

#include "host/data/outer_source.hpp"
#include "host/data/packing.hpp"

#include <cstdint>
#include <span>

namespace tenon {

class PackedSource final : public OuterSource {
 public:
  // `source` is borrowed.
  //
  // Errors   data.cannot_pack for a source without lengths, or a field that does not have one entry
  //          per token
  PackedSource(DataSource& source, const PackOptions& options);

  // Reads each sample into a separate row, and skips entries past the end of the row. Unlike other
  // reads, it is not concurrent, because it asks for lengths.
  void read(const Window* window,
            std::span<const int64_t> indices,
            tenon_batch_writer& writer) override;
  bool next(const Window* window,
            uint32_t shard,
            int64_t max_samples,
            tenon_batch_writer& writer) override;
  PackedSource* packed() override { return this; }

  const PackOptions& options() const { return options_; }

  // Reads rows as one batch. With no rows, the batch has no samples.
  //
  // Errors   data.bad_length if a sample has another length than lengths() says; data.bad_batch;
  //          errors of the source
  // Threads  [worker]
  Batch read_rows(const Window* window, std::span<const PackRow> rows);

 private:
  PackOptions options_;
};

}  // namespace tenon
