// SPDX-License-Identifier: Apache-2.0
#include "window_deal.hpp"

#include <algorithm>

namespace tenon {
namespace {

// floor(n * part / parts), computed without overflow of the product.
int64_t share_of(int64_t n, int64_t part, int64_t parts) {
  return static_cast<int64_t>(static_cast<__int128>(n) * part / parts);
}

// Cuts rows [begin, end) out of the concatenated spans.
std::vector<RowSpan> cut(const std::vector<RowSpan>& spans, int64_t begin, int64_t end) {
  std::vector<RowSpan> out;
  int64_t at = 0;
  for (const RowSpan& span : spans) {
    const int64_t first = std::max(begin, at);
    const int64_t last = std::min(end, at + span.count);
    if (first < last) {
      RowSpan part = span;
      part.first = span.first + first - at;
      part.count = last - first;
      out.push_back(std::move(part));
    }
    at += span.count;
  }
  return out;
}

}  // namespace

std::vector<RowSpan> spans_of(const DataWindow& window,
                              const RowShare& share,
                              const WindowWalk::Open& open) {
  std::vector<RowSpan> spans;
  for (const WindowPart& part : window.parts) {
    const std::shared_ptr<const SourceFile> file = open(part.file);
    std::vector<RowSpan> of_file;
    for (const RowGroup& group : file->groups()) {
      if (group.rows > 0) {
        of_file.push_back({part.file, group.number, 0, group.rows});
      }
    }
    if (part.count >= 0) {
      of_file = cut(of_file, part.first, part.first + part.count);
    }
    spans.insert(spans.end(), of_file.begin(), of_file.end());
  }
  if (share.from == 0 && share.to == share.of) {
    return spans;
  }
  const int64_t rows = num_rows_of(spans);
  return cut(spans, share_of(rows, share.from, share.of), share_of(rows, share.to, share.of));
}

int64_t num_rows_of(const std::vector<RowSpan>& spans) {
  int64_t rows = 0;
  for (const RowSpan& span : spans) {
    rows += span.count;
  }
  return rows;
}

std::vector<std::vector<RowSpan>> assign_to_shards(const std::vector<RowSpan>& spans,
                                                   size_t num_shards,
                                                   DealBy by) {
  std::vector<std::vector<RowSpan>> shards(num_shards);
  if (by == DealBy::kRows) {
    const int64_t rows = num_rows_of(spans);
    const auto parts = static_cast<int64_t>(num_shards);
    for (int64_t s = 0; s < parts; ++s) {
      shards[static_cast<size_t>(s)] =
          cut(spans, share_of(rows, s, parts), share_of(rows, s + 1, parts));
    }
    return shards;
  }
  size_t turn = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    if (i > 0 && (by == DealBy::kRowGroups || spans[i].file.name != spans[i - 1].file.name)) {
      ++turn;
    }
    shards[turn % num_shards].push_back(spans[i]);
  }
  return shards;
}

}  // namespace tenon
