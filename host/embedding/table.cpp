// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/table.hpp"

#include "host/embedding/table_parts.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace tenon {
namespace {

constexpr size_t kIdsAtOnce = 256;

}  // namespace

Table::Table(const TableSpec& spec) : parts_(std::make_unique<TableParts>(spec)) {
  parts_->check_spec();
}

Table::~Table() = default;

const TableSpec& Table::spec() const {
  return parts_->spec;
}

int64_t Table::num_rows() const {
  return parts_->rows.num_rows();
}

int64_t Table::num_waiting() const {
  return parts_->num_waiting;
}

int64_t Table::num_bytes() const {
  return parts_->num_bytes();
}

int64_t Table::row_bytes() const {
  return parts_->rows.row_bytes();
}

TableCounts Table::take_counts() {
  return std::exchange(parts_->counts, {});
}

void Table::find(std::span<const int64_t> ids, std::span<int64_t> rows) const {
  std::array<int32_t, kIdsAtOnce> numbers;
  for (size_t begin = 0; begin < ids.size(); begin += kIdsAtOnce) {
    const size_t n = std::min(kIdsAtOnce, ids.size() - begin);
    parts_->index.find(ids.subspan(begin, n), numbers.data());
    for (size_t i = 0; i < n; ++i) {
      // The padding id may have a row of an earlier run, whose recipe did not name it.
      rows[begin + i] =
          numbers[i] >= 0 && ids[begin + i] != parts_->spec.padding_id ? numbers[i] : kNoRow;
    }
  }
}

void Table::find_or_insert(std::span<const int64_t> ids,
                           std::span<const int64_t> counts,
                           std::span<int64_t> rows) {
  const size_t n = ids.size();
  for (size_t i = 0; i < std::min(kAhead, n); ++i) {
    parts_->index.prefetch(ids[i]);
  }
  for (size_t i = 0; i < n; ++i) {
    if (i + kAhead < n) {
      parts_->index.prefetch(ids[i + kAhead]);
    }
    int32_t* number = parts_->index.find_one(ids[i]);
    rows[i] = number != nullptr && *number >= 0 && ids[i] != parts_->spec.padding_id
                  ? *number
                  : parts_->insert(ids[i], counts[i], number);
  }
}

bool Table::preview(int64_t id, int64_t earlier, int64_t count, std::span<float> out) const {
  const int32_t* const number = parts_->index.find_one(id);
  if (number != nullptr && *number >= 0 && id != parts_->spec.padding_id) {
    const int64_t row = *number;
    read({&row, 1}, out.data(), static_cast<int64_t>(out.size()));
    return true;
  }
  if (!parts_->would_insert(id, earlier, count, number)) {
    std::ranges::fill(out, static_cast<float>(parts_->spec.missing));
    return false;
  }
  parts_->rows.read_initial(parts_->spec.seed, id, out);
  return true;
}

void Table::read(std::span<const int64_t> rows, float* out, int64_t stride) const {
  parts_->rows.read(rows, static_cast<float>(parts_->spec.missing), out, stride);
}

void Table::write(std::span<const int64_t> rows, const float* values, int64_t stride) {
  for (size_t i = 0; i < rows.size(); ++i) {
    parts_->rows.write(rows[i], values + static_cast<int64_t>(i) * stride);
  }
}

const tenon_row_layout& Table::layout() const {
  return parts_->rows.layout();
}

void Table::note_update(std::span<const int64_t> rows,
                        std::span<const int64_t> counts,
                        int64_t step) {
  const int64_t now = step + parts_->steps_before;
  parts_->step = std::max(parts_->step, now);
  const uint32_t last_step = narrowed(now);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) {
      parts_->rows.prefetch_notes(rows[i + kAhead]);
    }
    RowNotes& notes = parts_->rows.notes(rows[i]);
    notes = {narrowed(notes.count + counts[i]), last_step};
  }
}

void Table::end_step(int64_t step) {
  const int64_t ended = step + parts_->steps_before;
  if (parts_->spec.evict.unseen_steps) {
    parts_->evict_unseen(ended);
  }
  if (parts_->spec.evict.max_rows && num_rows() > *parts_->spec.evict.max_rows) {
    parts_->evict_excess(ended, num_rows() - *parts_->spec.evict.max_rows);
  }
  parts_->step = ended + 1;
}

Table::RowInfo Table::info(int64_t row) const {
  const RowNotes& notes = parts_->rows.notes(row);
  return {notes.count, notes.last_step};
}

void Table::renew(std::span<const int64_t> ids,
                  std::span<const RowInfo> infos,
                  std::span<int64_t> rows) {
  for (size_t i = 0; i < ids.size(); ++i) {
    const RowNotes notes = {narrowed(infos[i].count), narrowed(infos[i].last_step)};
    int32_t* number = parts_->index.find_one(ids[i]);
    if (number != nullptr && *number >= 0) {
      rows[i] = *number;
      parts_->rows.renew(rows[i], parts_->spec.seed, ids[i], notes);
    } else {
      rows[i] = parts_->add_row(ids[i], notes, number);
    }
  }
}

std::vector<int64_t> Table::ids() const {
  std::vector<int64_t> ids;
  ids.reserve(static_cast<size_t>(num_rows()));
  parts_->index.visit(0, UINT64_MAX, [&](uint64_t, int64_t id, int32_t number) {
    if (number >= 0) {
      ids.push_back(id);
    }
    return false;
  });
  std::ranges::sort(ids);
  return ids;
}

}  // namespace tenon
