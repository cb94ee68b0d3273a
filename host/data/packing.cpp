// SPDX-License-Identifier: Apache-2.0

#include "host/data/packing.hpp"

#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <cstdio>

namespace tenon {
namespace {

const char* words_of(OverLong what) {
  switch (what) {
    case OverLong::kError:
      return "refused";
    case OverLong::kDrop:
      return "dropped";
    case OverLong::kCut:
      return "cut";
    case OverLong::kSplit:
      return "split";
  }
  return "";
}

}  // namespace

std::string describe(const PackOptions& options) {
  return formatted("{} into rows of {} tokens, in groups of {} samples, over-long samples {}",
                   word_of(options.strategy),
                   options.length,
                   options.group,
                   words_of(options.over_long));
}

std::string describe(const PackCounts& counts, const PackOptions& options) {
  const double entries = static_cast<double>(counts.rows) * static_cast<double>(options.length);
  char fill[32];
  std::snprintf(fill,
                sizeof(fill),
                "%.2f",
                counts.rows > 0 ? 100 * static_cast<double>(counts.tokens) / entries : 0.0);
  std::string text = counted(counts.samples, "sample") + " in " + counted(counts.rows, "row") +
                     formatted(" of {} tokens, {}% full", options.length, fill);
  if (counts.over_long == 0) {
    return text;
  }
  text += "; " + counted(counts.over_long, "sample") + (counts.over_long == 1 ? " was" : " were") +
          " longer than a row and " + words_of(options.over_long);
  if (counts.lost > 0) {
    text += formatted(
        ", {} {} tokens", options.over_long == OverLong::kCut ? "by" : "with", counts.lost);
  }
  return text;
}

PackCounts& PackCounts::operator+=(const PackCounts& more) {
  rows += more.rows;
  samples += more.samples;
  tokens += more.tokens;
  over_long += more.over_long;
  lost += more.lost;
  return *this;
}

PackCounts PackCounts::operator-(const PackCounts& less) const {
  return {.rows = rows - less.rows,
          .samples = samples - less.samples,
          .tokens = tokens - less.tokens,
          .over_long = over_long - less.over_long,
          .lost = lost - less.lost};
}

// A sample counts with its first piece.
PackCounts counts_of(const PackRow& row, OverLong over_long) {
  PackCounts counts = row.dropped;
  counts.rows = 1;
  for (const PackPiece& piece : row.pieces) {
    counts.tokens += piece.length;
    if (piece.first == 0) {
      const int64_t rest = piece.whole - piece.length;
      ++counts.samples;
      counts.over_long += rest > 0 ? 1 : 0;
      counts.lost += over_long == OverLong::kCut ? rest : 0;
    }
  }
  return counts;
}

}  // namespace tenon
