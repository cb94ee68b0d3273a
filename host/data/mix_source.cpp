// SPDX-License-Identifier: Apache-2.0

#include "host/data/mix_source.hpp"

#include "host/data/batch_builder.hpp"
#include "host/data/rank_sampler.hpp"
#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/tensor/field_match.hpp"
#include "host/tensor/philox.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

namespace tenon {
namespace {

// `"web" (dataset "text" ...)`.
std::string named(const MixPart& part) {
  return "\"" + part.name + "\" (" + part.source->name() + ")";
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

std::string field_text(const FieldInfo& field) {
  std::string text = describe({.dtype = field.dtype, .axes = &field.axes});
  if (field.pad != 0) {
    text += " padded with " + number_text(field.pad);
  }
  if ((field.flags & TENON_FIELD_HOST_ONLY) != 0) {
    text += " on the host alone";
  }
  return text;
}

// Returns how many shards of a stream shard `number` of a mix reads.
int64_t num_own_shards(uint32_t of_stream, uint32_t of_mix, uint32_t number) {
  return (static_cast<int64_t>(of_stream) - number + of_mix - 1) / of_mix;
}

// Returns how many samples of a map-style source shard `number` of a mix reads.
int64_t num_own_samples(int64_t size, uint32_t of_mix, uint32_t number) {
  return size > number ? (size - number + of_mix - 1) / of_mix : 0;
}

}  // namespace

MixSource::MixSource(std::vector<MixPart> parts, const MixOptions& options)
    : parts_(std::move(parts)), options_(options) {
  TENON_ASSERT(!parts_.empty(), "a mix has at least one source");
  name_ = "the mix of";
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    name_ += (i == 0 ? " \"" : i + 1 == parts_.size() ? " and \"" : ", \"") + parts_[i].name + "\"";
  }
  check_parts();
  join_schemas();
  std::vector<double> weights;
  std::vector<int64_t> sizes;
  bool has_stream = false;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const MixPart& part = parts_[i];
    weights.push_back(part.weight);
    if (!is_map(i)) {
      const uint32_t shards = part.source->info().num_shards;
      info_.num_shards = has_stream ? std::min(info_.num_shards, shards) : shards;
      has_stream = true;
      part_infos_.push_back({.name = part.name, .size = std::nullopt});
      sizes.push_back(0);
      continue;
    }
    const int64_t size = part.source->size(nullptr);
    if (size > kMostSamples) {
      throw Error(
          "plugin.bad_result",
          formatted(
              "{}: size returned {} samples, expected at most 2^62", part.source->name(), size));
    }
    if (size == 0 && part.weight > 0) {
      throw Error("data.empty", name_ + ": " + named(part) + " has no samples");
    }
    part_infos_.push_back(
        {.name = part.name, .size = size, .has_lengths = part.source->info().has_lengths});
    sizes.push_back(size);
  }
  if (!has_stream) {
    info_.style = DatasetStyle::kMap;
    info_.has_own_order = true;
    info_.has_lengths = std::ranges::all_of(parts_, [](const MixPart& part) {
      return part.weight == 0 || part.source->info().has_lengths;
    });
    order_.emplace(options_.seed, weights, std::move(sizes), options_.when);
    return;
  }
  info_.style = DatasetStyle::kStream;
  if (options_.when == WhenOneEnds::kRepeat) {
    const auto stream = std::ranges::find_if(parts_, [](const MixPart& part) {
      return part.source->info().style == DatasetStyle::kStream;
    });
    throw Error("data.bad_mix",
                name_ + ": " + named(*stream) +
                    " is a stream, which cannot restart within an epoch; set \"when_one_ends\" to "
                    "\"stop\" or \"continue\"");
  }
  begin_shards();
}

void MixSource::check_parts() const {
  double sum = 0;
  for (const MixPart& part : parts_) {
    if (!std::isfinite(part.weight) || part.weight < 0) {
      throw Error("data.bad_mix",
                  name_ + ": the weight of \"" + part.name + "\" is " + number_text(part.weight) +
                      ", expected a non-negative number");
    }
    sum += part.weight > 0 ? 1 : 0;
    if (part.source->info().has_windows) {
      throw Error("data.bad_mix",
                  name_ + ": " + named(part) +
                      " has windows, which a mix does not support; turn them off in its options");
    }
  }
  if (sum == 0) {
    throw Error("data.bad_mix", name_ + ": all weights are 0, expected at least one above 0");
  }
}

void MixSource::join_schemas() {
  info_.schema = parts_.front().source->info().schema;
  const std::vector<FieldInfo>& wanted = *info_.schema;
  for (const FieldInfo& field : wanted) {
    if (const auto why = why_not_rows(field)) {
      throw Error("data.bad_mix",
                  name_ + ": field \"" + field.name + "\" of " + named(parts_.front()) + " is " +
                      field_text(field) + ", but a mix combines samples row by row: " + *why);
    }
  }
  for (const MixPart& part : parts_) {
    const std::vector<FieldInfo>& fields = *part.source->info().schema;
    std::vector<std::size_t> own;
    for (const FieldInfo& field : wanted) {
      const std::optional<std::size_t> found = find_field(fields, field.name);
      if (!found) {
        throw Error("data.bad_mix",
                    name_ + ": " + named(part) + " has no field \"" + field.name + "\", which " +
                        named(parts_.front()) + " has");
      }
      if (!(fields[*found] == field)) {
        throw Error("data.bad_mix",
                    name_ + ": field \"" + field.name + "\" is " + field_text(field) + " in " +
                        named(parts_.front()) + " and " + field_text(fields[*found]) + " in " +
                        named(part) + "; all sources of a mix need the same fields");
      }
      own.push_back(*found);
    }
    for (const FieldInfo& field : fields) {
      if (!find_field(wanted, field.name)) {
        throw Error("data.bad_mix",
                    name_ + ": " + named(parts_.front()) + " has no field \"" + field.name +
                        "\", which " + named(part) + " has");
      }
    }
    fields_.push_back(std::move(own));
  }
}

bool MixSource::is_map(std::size_t part) const {
  return parts_[part].source->info().style == DatasetStyle::kMap;
}

// The first source has the same order as without a mix; other sources have separate seeds.
SampleOrder MixSource::order_of(std::size_t part, uint64_t pass) const {
  const uint64_t seed = part == 0 ? options_.seed : mix_seeds(options_.seed, part);
  return {{.seed = seed, .epoch = pass, .window_id = 0},
          *part_infos_[part].size,
          options_.shuffle ? SampleOrder::Shuffle::kYes : SampleOrder::Shuffle::kNo};
}

void MixSource::reset(uint64_t epoch) {
  epoch_ = epoch;
  for (const MixPart& part : parts_) {
    part.source->reset(epoch);
  }
  if (info_.style == DatasetStyle::kStream) {
    begin_shards();
  }
}

void MixSource::begin_shards() {
  shards_.clear();
  for (uint32_t number = 0; number < info_.num_shards; ++number) {
    shards_.push_back(shard_at(number, {.turn = 0, .parts = {}}));
  }
}

std::vector<int64_t> MixSource::part_samples(const LoaderPosition& position) const {
  if (order_) {
    return order_->counts(epoch_, position.cursor);
  }
  std::vector<int64_t> taken(parts_.size(), 0);
  for (const ShardPosition& shard : position.shards) {
    if (shard.position) {
      const MixShardPosition at = decode_mix_position(*shard.position, parts_.size());
      for (std::size_t i = 0; i < taken.size(); ++i) {
        taken[i] += at.parts[i].taken;
      }
    }
  }
  return taken;
}

std::string MixSource::order_text() const {
  std::string text = std::string("\"") + word_of(options_.when) + "\" of";
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    text += (i == 0 ? " " : ", ") + number_text(parts_[i].weight) + " of ";
    text += part_infos_[i].size ? formatted("{} samples", *part_infos_[i].size)
                                : formatted("{} shards", parts_[i].source->info().num_shards);
  }
  return text;
}

// ---- map style ----

int64_t MixSource::size(const Window*) {
  return order_->num_samples();
}

MixSource::Split MixSource::split(std::span<const int64_t> indices) const {
  Split of_parts{.samples = std::vector<std::vector<int64_t>>(parts_.size()),
                 .rows = std::vector<std::vector<int64_t>>(parts_.size())};
  // By source: the pass of its last sample, and the order in this pass.
  std::vector<std::optional<std::pair<uint64_t, SampleOrder>>> orders(parts_.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const MixOrder::Sample sample = order_->at(epoch_, indices[i]);
    auto& order = orders[sample.source];
    if (!order || order->first != sample.pass) {
      order.emplace(sample.pass, order_of(sample.source, sample.pass));
    }
    of_parts.samples[sample.source].push_back(order->second.index(sample.position));
    of_parts.rows[sample.source].push_back(static_cast<int64_t>(i));
  }
  return of_parts;
}

void MixSource::read(const Window*, std::span<const int64_t> indices, tenon_batch_writer& writer) {
  Split of_parts = split(indices);
  std::vector<BatchPart> parts;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (!of_parts.samples[i].empty()) {
      parts.push_back(read_indices(i, of_parts.samples[i]));
      parts.back().rows = std::move(of_parts.rows[i]);
    }
  }
  write_rows(*info_.schema, parts, writer);
}

void MixSource::lengths(const Window*, std::span<const int64_t> indices, std::span<int32_t> out) {
  const Split of_parts = split(indices);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    std::vector<int32_t> own(of_parts.samples[i].size());
    if (!own.empty()) {
      parts_[i].source->lengths(nullptr, of_parts.samples[i], own);
    }
    for (std::size_t k = 0; k < own.size(); ++k) {
      out[static_cast<std::size_t>(of_parts.rows[i][k])] = own[k];
    }
  }
}

LengthSummary MixSource::length_summary(const Window*) {
  LengthSummary all;
  for (const MixPart& part : parts_) {
    if (part.weight == 0) {
      continue;
    }
    LengthSummary own = part.source->length_summary(nullptr);
    all.fingerprint = mix_seeds(all.fingerprint, own.fingerprint);
    if (own.longest > all.longest) {
      own.fingerprint = all.fingerprint;
      all = std::move(own);
    }
  }
  return all;
}

std::size_t MixSource::part_of(int64_t index) const {
  return order_->at(epoch_, index).source;
}

std::string MixSource::place_of(const Window*, int64_t index) {
  const MixOrder::Sample sample = order_->at(epoch_, index);
  const SampleOrder order = order_of(sample.source, sample.pass);
  return parts_[sample.source].source->place_of(nullptr, order.index(sample.position));
}

BatchPart MixSource::read_indices(std::size_t part, const std::vector<int64_t>& indices) {
  DataSource& source = *parts_[part].source;
  BatchBuilder builder(source, static_cast<int64_t>(indices.size()));
  source.read(nullptr, indices, builder.writer());
  return {.batch = builder.finish(), .fields = fields_[part], .rows = {}};
}

// ---- stream style ----

MixSource::Shard MixSource::shard_at(uint32_t number, MixShardPosition at) const {
  at.parts.resize(parts_.size());
  std::vector<double> weights;
  uint64_t num_ended = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    weights.push_back(at.parts[i].has_ended ? 0 : parts_[i].weight);
    num_ended += at.parts[i].has_ended ? 1 : 0;
  }
  Shard shard{.at = std::move(at), .turns = std::nullopt};
  if (std::ranges::any_of(weights, [](double weight) { return weight > 0; })) {
    shard.turns.emplace(mix_seeds(mix_seeds(options_.seed, number), num_ended), weights);
  }
  return shard;
}

void MixSource::seek(const Window*, uint32_t shard, const std::optional<std::string>& position) {
  MixShardPosition at;
  if (position) {
    at = decode_mix_position(*position, parts_.size());
  }
  shards_[shard] = shard_at(shard, std::move(at));
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (is_map(i)) {
      continue;
    }
    DataSource& source = *parts_[i].source;
    const MixPartPosition& part = shards_[shard].at.parts[i];
    const int64_t num_own = num_own_shards(source.info().num_shards, info_.num_shards, shard);
    for (int64_t own = part.shard; own < num_own; ++own) {
      const auto number = static_cast<uint32_t>(shard + own * info_.num_shards);
      source.seek(nullptr, number, own == part.shard ? part.position : std::nullopt);
    }
  }
}

bool MixSource::has_left(std::size_t part, uint32_t number, const MixPartPosition& at) const {
  if (is_map(part)) {
    return at.taken < num_own_samples(*part_infos_[part].size, info_.num_shards, number);
  }
  const uint32_t of_stream = parts_[part].source->info().num_shards;
  return at.shard < num_own_shards(of_stream, info_.num_shards, number);
}

bool MixSource::next(const Window*,
                     uint32_t number,
                     int64_t max_samples,
                     tenon_batch_writer& writer) {
  Shard& shard = shards_[number];
  std::vector<BatchPart> read;
  int64_t num_read = 0;
  bool is_over = !shard.turns.has_value();
  while (!is_over && num_read < max_samples) {
    const std::size_t source = shard.turns->at(shard.at.turn).source;
    MixPartPosition& at = shard.at.parts[source];
    int64_t run = 1;  // consecutive turns of one source are one read
    while (num_read + run < max_samples && shard.turns->at(shard.at.turn + run).source == source) {
      ++run;
    }
    int64_t num_got = 0;
    while (num_got < run && has_left(source, number, at)) {
      BatchPart part = read_some(source, number, at, run - num_got);
      for (int64_t row = 0; row < part.batch.samples; ++row) {
        part.rows.push_back(num_read + num_got + row);
      }
      num_got += part.batch.samples;
      at.taken += part.batch.samples;
      if (part.batch.samples > 0) {
        read.push_back(std::move(part));
      }
    }
    num_read += num_got;
    shard.at.turn += num_got;
    if (num_got == run) {
      continue;
    }
    // The source has ended: its turn has come, and no sample is left.
    at.has_ended = true;
    shard.at.turn = 0;
    shard = shard_at(number, std::move(shard.at));
    is_over = options_.when == WhenOneEnds::kStop || !shard.turns.has_value();
  }
  write_rows(*info_.schema, read, writer);
  const std::string position = encode(shard.at);
  throw_if_failed(writer.set_position(&writer, position.data(), position.size()));
  return is_over;
}

BatchPart MixSource::read_some(std::size_t part,
                               uint32_t number,
                               MixPartPosition& at,
                               int64_t most) {
  if (!is_map(part)) {
    return read_stream(part, number, at, most);
  }
  const int64_t size = *part_infos_[part].size;
  const SampleOrder order = order_of(part, epoch_);
  std::vector<int64_t> indices;
  const int64_t end = std::min(at.taken + most, num_own_samples(size, info_.num_shards, number));
  for (int64_t n = at.taken; n < end; ++n) {
    indices.push_back(order.index(number + n * info_.num_shards));
  }
  return read_indices(part, indices);
}

// Reads up to `most` samples of the current shard of the stream, possibly none at its end.
BatchPart MixSource::read_stream(std::size_t part,
                                 uint32_t number,
                                 MixPartPosition& at,
                                 int64_t most) {
  DataSource& source = *parts_[part].source;
  const uint32_t own = number + at.shard * info_.num_shards;
  BatchBuilder builder(source, most);
  const bool has_ended = source.next(nullptr, own, most, builder.writer());
  Batch batch = builder.finish();
  const std::string where = formatted("{}: a read of shard {}", source.name(), own);
  if (!has_ended && batch.samples == 0) {
    throw Error("data.bad_batch",
                where + " returned no sample, expected at least one before the end of the shard");
  }
  if (!has_ended && !builder.position()) {
    throw Error("data.bad_batch", where + " set no position, expected one call of set_position");
  }
  at.shard += has_ended ? 1 : 0;
  at.position = has_ended ? std::nullopt : builder.position();
  return {.batch = std::move(batch), .fields = fields_[part], .rows = {}};
}

}  // namespace tenon
