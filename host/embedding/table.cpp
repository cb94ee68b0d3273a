// SPDX-License-Identifier: Apache-2.0

#include "host/embedding/table.hpp"

#include "host/embedding/id_index.hpp"
#include "host/embedding/row_store.hpp"
#include "host/error/error.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/philox.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/tensor/staging_memory.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

namespace tenon {
namespace {

constexpr size_t kChunk = 256;
constexpr size_t kAhead = 24;  // ids under way at once

// What the index notes of an id that is not admitted yet: how often it was seen, up to kMostSeen,
// and roughly when: in steps of `age_unit`, modulo kAges. Below zero, and never IdIndex::kNothing.
constexpr int kSeenBits = 20;
constexpr int64_t kMostSeen = (int64_t{1} << kSeenBits) - 1;
constexpr int64_t kAges = 2047;

struct Waiting {
  int64_t seen = 0;
  int64_t age = 0;
};

int32_t number_of(Waiting waiting) {
  return static_cast<int32_t>(-1 - (waiting.age << kSeenBits | waiting.seen));
}
Waiting waiting_of(int32_t number) {
  const int64_t code = -1 - int64_t{number};
  return {code & kMostSeen, code >> kSeenBits};
}

uint32_t narrowed(int64_t n) {
  return static_cast<uint32_t>(std::clamp<int64_t>(n, 0, UINT32_MAX));
}

[[noreturn]] void bad_state(const std::string& table, const std::string& what) {
  throw Error("table.bad_state",
              "the saved rows of table '" + table + "' do not fit: " + what +
                  "; go on with the recipe that they were saved with");
}

}  // namespace

struct Table::Impl {
  explicit Impl(const TableSpec& table_spec) : spec(table_spec), rows(table_spec) {}

  [[noreturn]] void bad_spec(const std::string& what) const {
    throw Error("table.bad_spec", "table '" + spec.name + "': " + what);
  }

  void check_spec() const {
    const AdmitOptions& admit = spec.admit;
    if (admit.count < 1 || admit.count > kMostSeen) {
      bad_spec("ids cannot be admitted at a count of " + std::to_string(admit.count) +
               "; choose 1 to " + std::to_string(kMostSeen));
    }
    if (!(admit.probability > 0 && admit.probability <= 1)) {
      bad_spec("ids cannot be admitted with a probability of " + std::to_string(admit.probability) +
               "; choose one above 0 and up to 1");
    }
    const EvictOptions& evict = spec.evict;
    for (const auto& [what, n] : {std::pair{"unseen_steps", evict.unseen_steps},
                                  std::pair{"min_count", evict.min_count},
                                  std::pair{"max_rows", evict.max_rows}}) {
      if (n && *n < 1) {
        bad_spec("an eviction by " + std::string(what) + " " + std::to_string(*n) +
                 " would leave nothing; choose 1 or more");
      }
    }
    if (evict.min_count && !evict.unseen_steps) {
      bad_spec(
          "min_count says which of the rows that were not seen for unseen_steps go; "
          "give unseen_steps too");
    }
    if (spec.max_bytes && *spec.max_bytes < num_bytes()) {
      bad_spec("it takes " + std::to_string(num_bytes()) + " bytes without a row, and may take " +
               std::to_string(*spec.max_bytes) + "; give it more with `bytes`");
    }
  }

  int64_t num_bytes() const { return index.num_bytes() + rows.num_bytes(); }

  // Throws table.full if one more id in the index, and one more row if `with_row`, go beyond what
  // the table may have.
  void check_room(bool with_row) const {
    if (with_row && rows.is_full()) {
      full("no table holds more rows than that on a rank; use more ranks");
    }
    if (spec.max_bytes) {
      const int64_t bytes = index.num_bytes_after_insert() +
                            (with_row ? rows.num_bytes_after_add() : rows.num_bytes());
      if (bytes > *spec.max_bytes) {
        full("with one id more it takes " + std::to_string(bytes) + ", and `bytes` allows " +
             std::to_string(*spec.max_bytes) +
             "; raise it, bound the table with `evict` (max_rows, unseen_steps), let ids in later "
             "with `admit`, or use more ranks");
      }
    }
  }

  [[noreturn]] void full(const std::string& what) const {
    throw Error("table.full",
                "table '" + spec.name + "' is full: it has " + std::to_string(rows.num_rows()) +
                    " rows in " + std::to_string(num_bytes()) + " bytes, " +
                    std::to_string(rows.row_bytes()) + " a row; " + what);
  }

  bool admits_all() const { return spec.admit.count <= 1 && spec.admit.probability >= 1; }

  // Whether one of the occurrences after the first `seen`, `count` of them, lets an id in.
  bool is_admitted(int64_t id, int64_t seen, int64_t count) const {
    const AdmitOptions& admit = spec.admit;
    const int64_t last = std::min(seen + count, kMostSeen);
    if (last == kMostSeen) {
      return true;  // as often as can be told
    }
    const int64_t first = std::max(seen + 1, admit.count);
    if (first > last) {
      return false;
    }
    if (admit.probability >= 1) {
      return true;
    }
    const uint64_t stream = mix_seeds(spec.seed ^ 0x61646D6974ULL, static_cast<uint64_t>(id));
    for (int64_t k = first; k <= last; ++k) {
      const uint64_t bits = mix_seeds(stream, static_cast<uint64_t>(k));
      if (static_cast<double>(bits >> 11) * 0x1p-53 < admit.probability) {
        return true;
      }
    }
    return false;
  }

  // Steps in a unit of a waiting id's age, of which kAges are many times unseen_steps.
  int64_t age_unit() const {
    return std::max<int64_t>(1, spec.evict.unseen_steps.value_or(1) / 256);
  }
  int64_t age_now() const { return step / age_unit() % kAges; }

  // The row of an id that has none, or kNoRow if it is not admitted. `number` is what the index
  // notes of it, or null.
  int64_t insert(int64_t id, int64_t count, int32_t* number) {
    int64_t seen = 0;
    if (!admits_all()) {
      seen = number != nullptr ? waiting_of(*number).seen : 0;
      if (!is_admitted(id, seen, count)) {
        const int32_t noted = number_of({std::min(seen + count, kMostSeen), age_now()});
        if (number != nullptr) {
          *number = noted;
        } else {
          check_room(/*with_row=*/false);
          index.insert(id, noted);
          ++num_waiting;
        }
        counts.refused += count;
        return kNoRow;
      }
    }
    const int64_t row = add_row(id, {narrowed(seen), narrowed(step)}, number);
    ++counts.inserted;
    return row;
  }

  // A row for an id that has none; `number` is what the index notes of the id, or null.
  int64_t add_row(int64_t id, RowNotes notes, int32_t* number) {
    if (spec.max_bytes || rows.is_full()) {
      check_room(/*with_row=*/true);
    }
    const int64_t row = rows.add(spec.seed, id, notes);
    if (number != nullptr) {
      *number = static_cast<int32_t>(row);
      --num_waiting;
    } else {
      try {
        index.insert(id, static_cast<int32_t>(row));
      } catch (...) {
        rows.free(row);
        throw;
      }
    }
    return row;
  }

  // Calls due(notes) for the rows of ids whose hash lies in the range, and waiting_due(waiting) for
  // the ids that wait, and takes out those for which it is true.
  template <class Due, class WaitingDue>
  void sweep(uint64_t first, uint64_t last, Due&& due, WaitingDue&& waiting_due) {
    // Rows of neighbours in the index lie anywhere: they are fetched ahead, some at a time.
    const auto pieces = static_cast<uint64_t>(static_cast<double>(index.size()) *
                                              (static_cast<double>(last - first) * 0x1p-64) / 64.0);
    const uint64_t width = (last - first) / (pieces + 1);
    for (uint64_t begin = first;;) {
      const uint64_t end = last - begin <= width ? last : begin + width;
      index.visit(begin, end, [&](uint64_t, int64_t, int32_t number) {
        if (number >= 0) {
          rows.prefetch_notes(number);
        }
        return false;
      });
      index.visit(begin, end, [&](uint64_t, int64_t, int32_t number) {
        if (number < 0) {
          const bool goes = waiting_due(waiting_of(number));
          num_waiting -= goes ? 1 : 0;
          return goes;
        }
        const bool goes = due(rows.notes(number));
        if (goes) {
          rows.free(number);
          ++counts.evicted;
        }
        return goes;
      });
      if (end == last) {
        break;
      }
      begin = end + 1;
    }
  }

  // One part of a round through the table, which takes an eighth of unseen_steps.
  void evict_unseen(int64_t ended) {
    const int64_t unseen = *spec.evict.unseen_steps;
    const auto parts = static_cast<uint64_t>(std::clamp<int64_t>(unseen / 8, 1, 1024));
    const uint64_t width = UINT64_MAX / parts;
    const uint64_t first = sweep_at;
    const uint64_t last = UINT64_MAX - first <= width ? UINT64_MAX : first + width;
    const int64_t min_count = spec.evict.min_count.value_or(INT64_MAX);
    const int64_t now = ended / age_unit() % kAges;
    sweep(
        first,
        last,
        [&](const RowNotes& notes) {
          return ended - int64_t{notes.last_step} >= unseen && int64_t{notes.count} < min_count;
        },
        [&](const Waiting& waiting) {
          return ((now - waiting.age + kAges) % kAges) * age_unit() >= unseen;
        });
    sweep_at = last + 1;  // 0 after the end
  }

  // The worst rows of a part of the table eight times as large as what has to go.
  void evict_excess(int64_t ended, int64_t excess) {
    struct Candidate {
      uint64_t key;
      uint64_t hash;
      int64_t id;
    };
    const bool by_count = spec.evict.policy == EvictPolicy::kLeastFrequent;
    const int64_t wanted = 8 * excess + 256;
    std::vector<Candidate> candidates;  // not of this step, unless nothing else is left
    std::vector<Candidate> of_this_step;
    const double part = static_cast<double>(wanted) / static_cast<double>(rows.num_rows());
    const uint64_t width = part >= 1 ? UINT64_MAX : static_cast<uint64_t>(part * 0x1p64);
    uint64_t covered = 0;
    bool is_round = false;
    while (!is_round && (covered < width || static_cast<int64_t>(candidates.size()) < excess)) {
      // The range ends at the end of the hashes or where the round has begun.
      const uint64_t first = excess_at;
      const uint64_t most = std::min(UINT64_MAX - first, UINT64_MAX - covered);
      const uint64_t last = first + std::min(covered < width ? width - covered : width, most);
      collect(first, last, [&](uint64_t hash, int64_t id, const RowNotes& notes) {
        const uint64_t key = by_count ? uint64_t{notes.count} << 32 | notes.last_step
                                      : uint64_t{notes.last_step} << 32 | notes.count;
        (int64_t{notes.last_step} >= ended ? of_this_step : candidates).push_back({key, hash, id});
      });
      is_round = covered + (last - first) + 1 <= covered;  // 2^64 hashes
      covered += last - first + 1;
      excess_at = last + 1;
    }
    const auto is_worse = [](const Candidate& a, const Candidate& b) {
      return a.key != b.key ? a.key < b.key : a.hash < b.hash;
    };
    if (static_cast<int64_t>(candidates.size()) < excess) {
      std::ranges::sort(of_this_step, is_worse);
      of_this_step.resize(static_cast<size_t>(excess) - candidates.size());
      candidates.insert(candidates.end(), of_this_step.begin(), of_this_step.end());
    } else {
      std::ranges::nth_element(candidates, candidates.begin() + excess, is_worse);
      candidates.resize(static_cast<size_t>(excess));
    }
    for (const Candidate& candidate : candidates) {
      index.visit(candidate.hash, candidate.hash, [&](uint64_t, int64_t id, int32_t number) {
        if (id != candidate.id) {
          return false;
        }
        rows.free(number);
        ++counts.evicted;
        return true;
      });
    }
  }

  template <class Use>
  void collect(uint64_t first, uint64_t last, Use&& use) {
    std::vector<std::pair<std::pair<uint64_t, int64_t>, int32_t>> found;
    index.visit(first, last, [&](uint64_t hash, int64_t id, int32_t number) {
      if (number >= 0) {
        found.push_back({{hash, id}, number});
      }
      return false;
    });
    for (size_t i = 0; i < found.size(); ++i) {
      if (i + kAhead < found.size()) {
        rows.prefetch_notes(found[i + kAhead].second);
      }
      use(found[i].first.first, found[i].first.second, rows.notes(found[i].second));
    }
  }

  std::vector<std::pair<int64_t, int32_t>> sorted_entries() const {
    std::vector<std::pair<int64_t, int32_t>> entries;
    entries.reserve(static_cast<size_t>(index.size()));
    index.visit(0, UINT64_MAX, [&](uint64_t, int64_t id, int32_t number) {
      entries.emplace_back(id, number);
      return false;
    });
    std::ranges::sort(entries);
    return entries;
  }

  // "values", "master", "slots/exp_avg".
  std::string field_name(size_t f) const {
    const size_t first_slot = rows.fields().size() - spec.slots.size();
    return f == 0           ? "values"
           : f < first_slot ? "master"
                            : "slots/" + spec.slots[f - first_slot].name;
  }

  TableSpec spec;
  mutable IdIndex index;  // visiting it without removals changes nothing
  RowStore rows;
  TableCounts counts;
  int64_t num_waiting = 0;
  int64_t step = 0;        // under way
  uint64_t sweep_at = 0;   // hash at which the next sweep begins
  uint64_t excess_at = 0;  // the same of the next search for what is too much
};

Table::Table(const TableSpec& spec) : impl_(std::make_unique<Impl>(spec)) {
  impl_->check_spec();
}

Table::~Table() = default;

const TableSpec& Table::spec() const {
  return impl_->spec;
}

int64_t Table::num_rows() const {
  return impl_->rows.num_rows();
}

int64_t Table::num_waiting() const {
  return impl_->num_waiting;
}

int64_t Table::num_bytes() const {
  return impl_->num_bytes();
}

int64_t Table::row_bytes() const {
  return impl_->rows.row_bytes();
}

TableCounts Table::take_counts() {
  return std::exchange(impl_->counts, {});
}

void Table::find(std::span<const int64_t> ids, std::span<int64_t> rows) const {
  std::array<int32_t, kChunk> numbers;
  for (size_t begin = 0; begin < ids.size(); begin += kChunk) {
    const size_t n = std::min(kChunk, ids.size() - begin);
    impl_->index.find(ids.subspan(begin, n), numbers.data());
    for (size_t i = 0; i < n; ++i) {
      rows[begin + i] = numbers[i] >= 0 ? numbers[i] : kNoRow;
    }
  }
}

void Table::find_or_insert(std::span<const int64_t> ids,
                           std::span<const int64_t> counts,
                           std::span<int64_t> rows) {
  const size_t n = ids.size();
  for (size_t i = 0; i < std::min(kAhead, n); ++i) {
    impl_->index.prefetch(ids[i]);
  }
  for (size_t i = 0; i < n; ++i) {
    if (i + kAhead < n) {
      impl_->index.prefetch(ids[i + kAhead]);
    }
    int32_t* number = impl_->index.find_one(ids[i]);
    rows[i] =
        number != nullptr && *number >= 0 ? *number : impl_->insert(ids[i], counts[i], number);
  }
}

void Table::read(std::span<const int64_t> rows, float* out, int64_t stride) const {
  impl_->rows.read(rows, static_cast<float>(impl_->spec.missing), out, stride);
}

void Table::write(std::span<const int64_t> rows, const float* values, int64_t stride) {
  for (size_t i = 0; i < rows.size(); ++i) {
    impl_->rows.write(rows[i], values + static_cast<int64_t>(i) * stride);
  }
}

const tenon_row_layout& Table::layout() const {
  return impl_->rows.layout();
}

void Table::note_update(std::span<const int64_t> rows,
                        std::span<const int64_t> counts,
                        int64_t step) {
  impl_->step = std::max(impl_->step, step);
  const uint32_t last_step = narrowed(step);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) {
      impl_->rows.prefetch_notes(rows[i + kAhead]);
    }
    RowNotes& notes = impl_->rows.notes(rows[i]);
    notes = {narrowed(notes.count + counts[i]), last_step};
  }
}

void Table::end_step(int64_t step) {
  if (impl_->spec.evict.unseen_steps) {
    impl_->evict_unseen(step);
  }
  if (impl_->spec.evict.max_rows && num_rows() > *impl_->spec.evict.max_rows) {
    impl_->evict_excess(step, num_rows() - *impl_->spec.evict.max_rows);
  }
  impl_->step = step + 1;
}

Table::RowInfo Table::info(int64_t row) const {
  const RowNotes& notes = impl_->rows.notes(row);
  return {notes.count, notes.last_step};
}

void Table::renew(std::span<const int64_t> ids,
                  std::span<const RowInfo> infos,
                  std::span<int64_t> rows) {
  for (size_t i = 0; i < ids.size(); ++i) {
    const RowNotes notes = {narrowed(infos[i].count), narrowed(infos[i].last_step)};
    int32_t* number = impl_->index.find_one(ids[i]);
    if (number != nullptr && *number >= 0) {
      rows[i] = *number;
      impl_->rows.renew(rows[i], impl_->spec.seed, ids[i], notes);
    } else {
      rows[i] = impl_->add_row(ids[i], notes, number);
    }
  }
}

std::vector<int64_t> Table::ids() const {
  std::vector<int64_t> ids;
  ids.reserve(static_cast<size_t>(num_rows()));
  impl_->index.visit(0, UINT64_MAX, [&](uint64_t, int64_t id, int32_t number) {
    if (number >= 0) {
      ids.push_back(id);
    }
    return false;
  });
  std::ranges::sort(ids);
  return ids;
}

namespace {

// What the next record will tell belongs to the state as well.
constexpr std::pair<const char*, int64_t TableCounts::*> kCounts[] = {
    {"since_record/inserted", &TableCounts::inserted},
    {"since_record/refused", &TableCounts::refused},
    {"since_record/evicted", &TableCounts::evicted}};

constexpr int64_t kRowsLoadedAtOnce = 1 << 16;

// One field of all rows, in the order of ids; read while nothing changes.
class FieldSource final : public TensorSource {
 public:
  FieldSource(const RowStore& rows,
              std::shared_ptr<const std::vector<int64_t>> order,
              const RowStore::Field& field,
              int64_t dim)
      : TensorSource(*scalar_type_of(field.dtype),
                     field.is_scalar ? std::vector<int64_t>{std::ssize(*order)}
                                     : std::vector<int64_t>{std::ssize(*order), dim}),
        rows_(rows),
        order_(std::move(order)),
        field_(field) {}

  void read(int64_t first, const at::Tensor& out) const override {
    const size_t element = c10::elementSize(dtype());
    auto* to = static_cast<std::byte*>(out.mutable_data_ptr());
    size_t at = static_cast<size_t>(first) * element;
    for (size_t left = out.nbytes(); left > 0;) {
      const size_t in_row = at % field_.bytes;
      const size_t taken = std::min(field_.bytes - in_row, left);
      std::memcpy(to, row(at / field_.bytes) + in_row, taken);
      to += taken;
      at += taken;
      left -= taken;
    }
  }

 private:
  const std::byte* row(size_t i) const {
    return static_cast<const std::byte*>(rows_.field((*order_)[i], field_));
  }

  const RowStore& rows_;
  std::shared_ptr<const std::vector<int64_t>> order_;
  RowStore::Field field_;
};

}  // namespace

void Table::snapshot(StateTree& tree, const std::string& prefix) const {
  const RowStore& rows = impl_->rows;
  const auto put = [&](const std::string& name, const at::Tensor& tensor) {
    tree.put_tensor(state_path(prefix, name),
                    tensor,
                    StateTree::Copy::kNo,  // they were made for it
                    kStateByRow);
  };
  const auto entries = impl_->sorted_entries();
  const auto n = num_rows();
  const auto waiting = static_cast<int64_t>(entries.size()) - n;
  const at::Tensor ids = staged_empty({n}, at::kLong);
  const at::Tensor counts = staged_empty({n}, at::kLong);
  const at::Tensor last_steps = staged_empty({n}, at::kLong);
  const at::Tensor waiting_ids = at::empty({waiting}, at::kLong);
  const at::Tensor waiting_notes = at::empty({waiting}, at::kInt);
  const auto order = std::make_shared<std::vector<int64_t>>();
  order->reserve(static_cast<size_t>(n));
  int64_t at_waiting = 0;
  for (const auto& [id, number] : entries) {
    if (number < 0) {
      waiting_ids.mutable_data_ptr<int64_t>()[at_waiting] = id;
      waiting_notes.mutable_data_ptr<int32_t>()[at_waiting++] = number;
      continue;
    }
    const size_t at = order->size();
    ids.mutable_data_ptr<int64_t>()[at] = id;
    counts.mutable_data_ptr<int64_t>()[at] = rows.notes(number).count;
    last_steps.mutable_data_ptr<int64_t>()[at] = rows.notes(number).last_step;
    order->push_back(number);
  }
  put("ids", ids);
  put("counts", counts);
  put("last_steps", last_steps);
  for (size_t f = 0; f < rows.fields().size(); ++f) {
    if (tree.is_left_out(state_path(prefix, impl_->field_name(f)))) {
      continue;
    }
    auto field =
        std::make_shared<FieldSource>(rows, order, rows.fields()[f], int64_t{impl_->spec.dim});
    if (tree.copies() == StateTree::Copies::kNone) {
      tree.put_source(state_path(prefix, impl_->field_name(f)), std::move(field), kStateByRow);
    } else {
      const at::Tensor values = staged_empty(field->shape(), field->dtype());
      field->read(0, values);
      put(impl_->field_name(f), values);
    }
  }
  put("waiting/ids", waiting_ids);
  put("waiting/notes", waiting_notes);
  tree.put_int(state_path(prefix, "step"), impl_->step);
  tree.put_int(
      state_path(prefix, "sweep_at"), static_cast<int64_t>(impl_->sweep_at), TENON_STATE_PER_RANK);
  tree.put_int(state_path(prefix, "excess_at"),
               static_cast<int64_t>(impl_->excess_at),
               TENON_STATE_PER_RANK);
  for (const auto& [name, member] : kCounts) {
    tree.put_int(state_path(prefix, name), impl_->counts.*member, TENON_STATE_PER_RANK);
  }
}

void Table::load(const StateTree& tree, const std::string& prefix) {
  load(tree, prefix, [](int64_t) { return true; });
}

void Table::load(const StateTree& tree,
                 const std::string& prefix,
                 const std::function<bool(int64_t id)>& is_mine) {
  const auto at_name = [&](const std::string& name) { return state_path(prefix, name); };
  const auto check = [&](const std::string& name, std::vector<int64_t> sizes) {
    if (const std::vector<int64_t> have = tree.shape_of(at_name(name)); have != sizes) {
      bad_state(impl_->spec.name,
                name + " is " + shape_text(have) + " where " + shape_text(sizes) + " belongs");
    }
  };
  // Shapes are looked at before anything is read.
  const std::vector<int64_t> shape = tree.shape_of(at_name("ids"));
  const int64_t n = shape.empty() ? 0 : shape[0];
  check("ids", {n});
  check("counts", {n});
  check("last_steps", {n});
  const RowStore& rows = impl_->rows;
  for (size_t f = 0; f < rows.fields().size(); ++f) {
    check(impl_->field_name(f),
          rows.fields()[f].is_scalar ? std::vector<int64_t>{n}
                                     : std::vector<int64_t>{n, int64_t{impl_->spec.dim}});
  }
  auto loaded = std::make_unique<Impl>(impl_->spec);
  loaded->step = tree.get_int(at_name("step"));
  // What belongs to a rank is not there where ranks have changed: sweeps begin anew.
  const auto get = [&](const std::string& name) {
    return tree.find(at_name(name)) != nullptr ? tree.get_int(at_name(name)) : 0;
  };
  loaded->sweep_at = static_cast<uint64_t>(get("sweep_at"));
  loaded->excess_at = static_cast<uint64_t>(get("excess_at"));
  for (const auto& [name, member] : kCounts) {
    loaded->counts.*member = get(name);
  }
  const auto take = [&](int64_t id) {
    if (loaded->index.find_one(id) != nullptr) {
      bad_state(impl_->spec.name, "id " + std::to_string(id) + " stands there twice");
    }
  };
  // A stretch of rows at a time, so that no second copy of the table is made.
  for (int64_t first = 0; first < n; first += kRowsLoadedAtOnce) {
    const int64_t size = std::min(kRowsLoadedAtOnce, n - first);
    const at::Tensor ids = at::empty({size}, at::kLong);
    const at::Tensor counts = at::empty({size}, at::kLong);
    const at::Tensor last_steps = at::empty({size}, at::kLong);
    tree.copy_rows(at_name("ids"), first, ids);
    tree.copy_rows(at_name("counts"), first, counts);
    tree.copy_rows(at_name("last_steps"), first, last_steps);
    std::vector<at::Tensor> fields;
    for (size_t f = 0; f < rows.fields().size(); ++f) {
      const RowStore::Field& field = rows.fields()[f];
      const auto type = *scalar_type_of(field.dtype);
      fields.push_back(field.is_scalar ? at::empty({size}, type)
                                       : at::empty({size, int64_t{impl_->spec.dim}}, type));
      tree.copy_rows(at_name(impl_->field_name(f)), first, fields.back());
    }
    for (int64_t i = 0; i < size; ++i) {
      const int64_t id = ids.const_data_ptr<int64_t>()[i];
      if (!is_mine(id)) {
        continue;
      }
      take(id);
      const int64_t row = loaded->add_row(id,
                                          {narrowed(counts.const_data_ptr<int64_t>()[i]),
                                           narrowed(last_steps.const_data_ptr<int64_t>()[i])},
                                          nullptr);
      for (size_t f = 0; f < fields.size(); ++f) {
        const RowStore::Field& field = loaded->rows.fields()[f];
        std::memcpy(loaded->rows.field(row, field),
                    static_cast<const std::byte*>(fields[f].const_data_ptr()) +
                        static_cast<size_t>(i) * field.bytes,
                    field.bytes);
      }
    }
  }
  const at::Tensor waiting_ids = tree.get_tensor(at_name("waiting/ids")).contiguous();
  const at::Tensor waiting_notes = tree.get_tensor(at_name("waiting/notes")).contiguous();
  if (waiting_ids.scalar_type() != at::kLong || waiting_notes.scalar_type() != at::kInt ||
      waiting_ids.dim() != 1 || waiting_notes.sizes() != waiting_ids.sizes()) {
    bad_state(impl_->spec.name, "waiting/ids and waiting/notes do not go together");
  }
  for (int64_t i = 0; i < waiting_ids.numel(); ++i) {
    const int64_t id = waiting_ids.const_data_ptr<int64_t>()[i];
    const int32_t number = waiting_notes.const_data_ptr<int32_t>()[i];
    if (!is_mine(id)) {
      continue;
    }
    take(id);
    if (number >= 0 || number == IdIndex::kNothing) {
      bad_state(impl_->spec.name, "waiting/notes holds " + std::to_string(number));
    }
    loaded->check_room(/*with_row=*/false);
    loaded->index.insert(id, number);
    ++loaded->num_waiting;
  }
  impl_ = std::move(loaded);
}

}  // namespace tenon
