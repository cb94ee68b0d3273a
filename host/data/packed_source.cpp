// SPDX-License-Identifier: Apache-2.0

#include "host/data/packed_source.hpp"

#include "host/data/batch_builder.hpp"
#include "host/device/host_memory.hpp"
#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tenon {
namespace {

constexpr char kPositionIds[] = "position_ids";
constexpr char kSegmentIds[] = "segment_ids";
constexpr double kIgnoredLabel = -100;

[[noreturn]] void refuse(const DataSource& source, const std::string& why) {
  throw Error("data.cannot_pack", source.name() + ": " + why);
}

bool has_tokens(const FieldInfo& field) {
  return field.axes.size() >= 2 && field.axes[0].name == "B" && field.axes[1].name == "T";
}

// Returns the index of the first field with the axis T, or the number of fields.
std::size_t first_of_tokens(const std::vector<FieldInfo>& fields) {
  return static_cast<std::size_t>(std::ranges::find_if(fields, has_tokens) - fields.begin());
}

// Columns have no axis T. A feature of tokens is therefore [B, n], with as many entries as T has.
bool may_have_tokens(const FieldInfo& field, const std::vector<FieldInfo>& fields) {
  const std::size_t other = first_of_tokens(fields);
  return other < fields.size() && field.axes.size() == 2 && field.axes[0].name == "B" &&
         field.axes[1].name.empty() && field.axes[1].size == fields[other].axes[1].size;
}

// Returns why a field cannot be packed, or nothing.
std::string why_not(const FieldInfo& field) {
  const auto is_named = [](const char* name) {
    return [name](const Axis& axis) { return axis.name == name; };
  };
  if (field.name == kPositionIds || field.name == kSegmentIds) {
    return "packing makes a field of this name";
  }
  if (!has_tokens(field)) {
    return "it does not have one entry per token: its first axes are not B and T";
  }
  if (std::any_of(field.axes.begin() + 2, field.axes.end(), is_named("T")) ||
      std::any_of(field.axes.begin() + 2, field.axes.end(), is_named("B"))) {
    return "it has the axis B or T twice";
  }
  return "";
}

BatchSchema schema_of_rows(const DataSource& source, int64_t length) {
  std::vector<FieldInfo> fields = *source.info().schema;
  for (FieldInfo& field : fields) {
    if (may_have_tokens(field, *source.info().schema)) {
      field.axes[1].name = "T";
    }
    if (const std::string why = why_not(field); !why.empty()) {
      refuse(source,
             "field \"" + field.name + "\" cannot be packed: " + why +
                 "; choose a dataset without the field, or remove \"packing\"");
    }
    field.axes[1].size = length;
    // Padding must never be trained on.
    field.pad = field.name == "labels" ? kIgnoredLabel : field.pad;
  }
  for (const char* const name : {kPositionIds, kSegmentIds}) {
    fields.push_back({.name = name,
                      .dtype = TENON_I64,
                      .flags = 0,
                      .axes = {{.name = "B"}, {.name = "T", .size = length}}});
  }
  return std::make_shared<const std::vector<FieldInfo>>(std::move(fields));
}

// Names the sources without lengths, in a mix.
void check_lengths(const DataSource& source) {
  if (source.info().style != DatasetStyle::kMap) {
    refuse(source, "a stream has no lengths, which packing needs; remove \"packing\"");
  }
  if (source.info().has_lengths) {
    return;
  }
  std::string which;
  for (const MixPartInfo& part : source.parts()) {
    if (!part.has_lengths) {
      which += (which.empty() ? "" : ", ") + ("\"" + part.name + "\"");
    }
  }
  refuse(source,
         (which.empty() ? "it has" : which + " has") +
             std::string(" no `lengths`, which packing needs; choose a dataset that has, or remove "
                         "\"packing\""));
}

// Fills rows from the samples of several reads.
class RowFiller {
 public:
  RowFiller(const DataSource& source, BatchSchema schema, int64_t num_rows, int64_t length)
      : source_(source),
        tokens_(first_of_tokens(*source.info().schema)),
        num_rows_(num_rows),
        length_(length),
        batch_(empty_batch(schema)) {
    batch_.samples = num_rows;
    batch_.packed_samples = 0;
    batch_.lengths = empty_host_tensor(TENON_I64, {num_rows});
    for (std::size_t f = num_own_fields(); f < batch_.fields.size(); ++f) {
      batch_.fields[f] = empty_host_tensor(TENON_I64, {num_rows, length});
    }
  }

  // `samples` has the sample of each piece, in order.
  void fill(int64_t row, const PackRow& what, const Batch& samples) {
    check(what, samples);
    int64_t used = 0;
    for (std::size_t i = 0; i < what.pieces.size(); ++i) {
      const PackPiece& piece = what.pieces[i];
      for (std::size_t f = 0; f < num_own_fields(); ++f) {
        copy(f, row, used, samples.fields[f], static_cast<int64_t>(i), piece);
      }
      mark(row, used, piece.length, static_cast<int64_t>(i));
      batch_.sequences.push_back({.row = row,
                                  .first = used,
                                  .length = piece.length,
                                  .part = static_cast<uint32_t>(source_.part_of(piece.sample))});
      used += piece.length;
      *batch_.packed_samples += piece.first == 0 ? 1 : 0;
    }
    for (std::size_t f = 0; used < length_ && f < num_own_fields(); ++f) {
      batch_.fields[f]
          .select(0, row)
          .narrow(0, used, length_ - used)
          .fill_((*batch_.schema)[f].pad);
    }
    mark_padding(row, used, static_cast<int64_t>(what.pieces.size()));
    batch_.lengths.mutable_data_ptr<int64_t>()[row] = used;
    batch_.tokens += used;
  }

  Batch take() { return std::move(batch_); }

 private:
  std::size_t num_own_fields() const { return batch_.fields.size() - 2; }

  void check(const PackRow& what, const Batch& samples) const {
    if (!samples.lengths.defined()) {
      throw Error("data.bad_length",
                  source_.name() +
                      ": a read counted other tokens than its entries, and set no lengths; "
                      "packing needs set_lengths");
    }
    for (std::size_t f = 0; f < num_own_fields(); ++f) {
      if (samples.fields[f].size(1) != samples.fields[tokens_].size(1)) {
        throw Error("data.bad_batch",
                    formatted("{}: field \"{}\" has {} entries per sample where the axis T has "
                              "size {}; packing needs one entry per token",
                              source_.name(),
                              (*batch_.schema)[f].name,
                              samples.fields[f].size(1),
                              samples.fields[tokens_].size(1)));
      }
    }
    const auto* const lengths = samples.lengths.const_data_ptr<int64_t>();
    for (std::size_t i = 0; i < what.pieces.size(); ++i) {
      const PackPiece& piece = what.pieces[i];
      if (lengths[i] != piece.whole) {
        throw Error("data.bad_length",
                    formatted("{}: a read gave sample {} the length {}, but `lengths` returned {}",
                              source_.name(),
                              piece.sample,
                              lengths[i],
                              piece.whole));
      }
    }
  }

  // Copies the entries of a piece. The first read decides the sizes of axes that are not declared.
  void copy(std::size_t f,
            int64_t row,
            int64_t at,
            const at::Tensor& from,
            int64_t sample,
            const PackPiece& piece) {
    at::Tensor& to = batch_.fields[f];
    if (!to.defined()) {
      std::vector<int64_t> shape = from.sizes().vec();
      shape[0] = num_rows_;
      shape[1] = length_;
      to = empty_host_tensor((*batch_.schema)[f].dtype, shape);
    } else if (from.sizes().slice(2) != to.sizes().slice(2)) {
      throw Error("data.bad_batch",
                  source_.name() + ": field \"" + (*batch_.schema)[f].name + "\" has shape " +
                      shape_text(from.sizes()) + " in one read, and " + shape_text(to.sizes()) +
                      " in the rows of packing; the axes after T must have equal sizes");
    }
    const int64_t entry_bytes = entry_size(to);
    const auto* const source = static_cast<const std::byte*>(from.const_data_ptr());
    auto* const target = static_cast<std::byte*>(to.mutable_data_ptr());
    std::memcpy(target + (row * length_ + at) * entry_bytes,
                source + (sample * from.size(1) + piece.first) * entry_bytes,
                static_cast<std::size_t>(piece.length * entry_bytes));
  }

  // Bytes of a token of a field.
  static int64_t entry_size(const at::Tensor& field) {
    int64_t bytes = static_cast<int64_t>(field.element_size());
    for (const int64_t size : field.sizes().slice(2)) {
      bytes *= size;
    }
    return bytes;
  }

  // Numbers the positions of a segment from 0.
  void mark(int64_t row, int64_t at, int64_t length, int64_t segment) {
    const std::size_t first = num_own_fields();
    int64_t* const positions =
        batch_.fields[first].mutable_data_ptr<int64_t>() + row * length_ + at;
    int64_t* const segments =
        batch_.fields[first + 1].mutable_data_ptr<int64_t>() + row * length_ + at;
    for (int64_t t = 0; t < length; ++t) {
      positions[t] = t;
      segments[t] = segment;
    }
  }

  // Padding has a segment and no positions: a row may be longer than any sequence that the model
  // takes, and models choose tables by the largest position.
  void mark_padding(int64_t row, int64_t at, int64_t segment) {
    const std::size_t first = num_own_fields();
    batch_.fields[first].select(0, row).narrow(0, at, length_ - at).zero_();
    batch_.fields[first + 1].select(0, row).narrow(0, at, length_ - at).fill_(segment);
  }

  const DataSource& source_;
  std::size_t tokens_;  // index of a field with the axis T
  int64_t num_rows_;
  int64_t length_;
  Batch batch_;
};

}  // namespace

PackedSource::PackedSource(DataSource& source, const PackOptions& options)
    : OuterSource(source), options_(options) {
  check_lengths(source);
  info_.schema = schema_of_rows(source, options.length);
}

Batch PackedSource::read_rows(const Window* window, std::span<const PackRow> rows) {
  if (rows.empty()) {
    return empty_batch(info_.schema);
  }
  RowFiller filler(source_, info_.schema, static_cast<int64_t>(rows.size()), options_.length);
  std::vector<int64_t> samples;
  // A read for each row: samples of one read are as wide as the longest of them.
  for (std::size_t row = 0; row < rows.size(); ++row) {
    samples.clear();
    for (const PackPiece& piece : rows[row].pieces) {
      samples.push_back(piece.sample);
    }
    BatchBuilder builder(source_, static_cast<int64_t>(samples.size()));
    source_.read(window, samples, builder.writer());
    filler.fill(static_cast<int64_t>(row), rows[row], builder.finish());
  }
  return filler.take();
}

void PackedSource::read(const Window* window,
                        std::span<const int64_t> indices,
                        tenon_batch_writer& writer) {
  std::vector<int32_t> lengths(indices.size());
  source_.lengths(window, indices, lengths);
  std::vector<PackRow> rows(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    rows[i].pieces.push_back({.sample = indices[i],
                              .first = 0,
                              .length = std::min<int64_t>(lengths[i], options_.length),
                              .whole = lengths[i]});
  }
  const Batch batch = read_rows(window, rows);
  for (std::size_t f = 0; f < batch.fields.size(); ++f) {
    throw_if_failed(writer.add_tensor(&writer, static_cast<uint32_t>(f), borrow(batch.fields[f])));
  }
  throw_if_failed(writer.set_counts(&writer, batch.samples, batch.tokens));
  throw_if_failed(writer.set_lengths(
      &writer, batch.lengths.const_data_ptr<int64_t>(), static_cast<std::size_t>(batch.samples)));
}

bool PackedSource::next(const Window*, uint32_t, int64_t, tenon_batch_writer&) {
  TENON_ASSERT(false, "a packed source is map style");
  return true;
}

}  // namespace tenon
