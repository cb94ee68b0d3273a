// SPDX-License-Identifier: Apache-2.0

#include "host/data/pack_groups.hpp"

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/tensor/philox.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tenon {

PackGroups::PackGroups(DataSource& source,
                       const Window* window,
                       const SampleOrder& order,
                       const PackOptions& options,
                       const RowOrder& rows)
    : source_(source), window_(window), order_(order), options_(options), rows_(rows) {}

int64_t PackGroups::num_groups() const {
  const int64_t whole = order_.size() / options_.group;
  return whole + (order_.size() % options_.group != 0 ? 1 : 0);
}

PackGroups::Group PackGroups::group(int64_t number) const {
  Group made;
  const std::vector<PackPiece> pieces = pieces_of(number, made.dropped);
  std::vector<int32_t> lengths;
  lengths.reserve(pieces.size());
  for (const PackPiece& piece : pieces) {
    lengths.push_back(static_cast<int32_t>(piece.length));
  }
  const RowOfEach packed = pack_rows(lengths, options_.length, options_.strategy);
  std::vector<PackRow> rows(packed.num_rows);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    rows[packed.row[i]].pieces.push_back(pieces[i]);
  }
  if (options_.strategy == PackStrategy::kGreedy) {
    made.rows = std::move(rows);
    return made;
  }
  if (!rows_.shuffle) {
    // Rows in the order of their first pieces.
    std::vector<bool> is_placed(rows.size(), false);
    for (const uint32_t row : packed.row) {
      if (!is_placed[row]) {
        is_placed[row] = true;
        made.rows.push_back(std::move(rows[row]));
      }
    }
    return made;
  }
  for (const uint32_t row : row_order(number, rows.size())) {
    made.rows.push_back(std::move(rows[row]));
  }
  return made;
}

// Rows come from the longest sample to the shortest, so their order has to be drawn.
std::vector<uint32_t> PackGroups::row_order(int64_t number, std::size_t num_rows) const {
  SampleOrderKey key = rows_.key;
  key.seed = mix_seeds(mix_seeds(key.seed, stream_of("data.packs")), static_cast<uint64_t>(number));
  const SampleOrder order(key, static_cast<int64_t>(num_rows), SampleOrder::Shuffle::kYes);
  std::vector<uint32_t> rows(num_rows);
  for (std::size_t i = 0; i < num_rows; ++i) {
    rows[i] = static_cast<uint32_t>(order.index(static_cast<int64_t>(i)));
  }
  return rows;
}

// Returns the sequences of a group in the global order.
std::vector<PackPiece> PackGroups::pieces_of(int64_t number, PackCounts& dropped) const {
  TENON_ASSERT(number >= 0 && number < num_groups(), "a group outside the window");
  const int64_t begin = number * options_.group;
  const int64_t end = begin + std::min(options_.group, order_.size() - begin);
  std::vector<int64_t> samples;
  for (int64_t position = begin; position < end; ++position) {
    samples.push_back(order_.index(position));
  }
  std::vector<int32_t> lengths(samples.size());
  source_.lengths(window_, samples, lengths);
  std::vector<PackPiece> pieces;
  pieces.reserve(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const int64_t whole = lengths[i];
    int64_t first = 0;
    if (whole > options_.length) {
      switch (options_.over_long) {
        case OverLong::kError:
          check_longest({.longest = whole, .sample = samples[i], .source = source_.name()},
                        window_,
                        options_);
          break;
        case OverLong::kDrop:
          ++dropped.over_long;
          dropped.lost += whole;
          continue;
        case OverLong::kCut:
          pieces.push_back({.sample = samples[i], .length = options_.length, .whole = whole});
          continue;
        case OverLong::kSplit:
          for (; whole - first > options_.length; first += options_.length) {
            pieces.push_back(
                {.sample = samples[i], .first = first, .length = options_.length, .whole = whole});
          }
          break;
      }
    }
    pieces.push_back(
        {.sample = samples[i], .first = first, .length = whole - first, .whole = whole});
  }
  return pieces;
}

std::vector<int64_t> PackGroups::part_samples(const PackPosition& position) const {
  const int64_t before = std::min(position.group, num_groups()) * options_.group;
  if (position.row == 0) {
    return source_.part_samples({.cursor = std::min(before, order_.size())});
  }
  const Group open = group(position.group);
  if (position.row >= static_cast<int64_t>(open.rows.size())) {
    return source_.part_samples({.cursor = std::min(before + options_.group, order_.size())});
  }
  std::vector<int64_t> samples = source_.part_samples({.cursor = before});
  for (int64_t row = 0; row < position.row; ++row) {
    for (const PackPiece& piece : open.rows[static_cast<std::size_t>(row)].pieces) {
      samples[source_.part_of(piece.sample)] += piece.first == 0 ? 1 : 0;
    }
  }
  return samples;
}

void check_longest(const LengthSummary& lengths, const Window* window, const PackOptions& options) {
  if (lengths.longest > options.length) {
    throw Error(
        "data.too_long",
        formatted(
            "{}: sample {} (counted from 0){} has {} tokens, but the rows of packing have {}; set "
            "\"over_long\" of packing to \"drop\", \"cut\" or \"split\", or use "
            "longer rows",
            lengths.source,
            lengths.sample,
            lengths.dataset != nullptr ? place_note(*lengths.dataset, window, lengths.sample) : "",
            lengths.longest,
            options.length));
  }
}

}  // namespace tenon
