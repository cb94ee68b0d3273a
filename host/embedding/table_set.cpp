// SPDX-License-Identifier: Apache-2.0
//
// Compiled with OpenMP, for at::parallel_for.
#include "host/embedding/table_set.hpp"

#include <tenon/model.h>

#include "host/embedding/distinct_ids.hpp"
#include "host/embedding/saved_rows.hpp"
#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/tensor/field_match.hpp"
#include "host/tensor/shape_text.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace tenon {
namespace {

// Rows of one call of an optimizer: enough for a thread, few enough to share out.
constexpr size_t kRowsPerCall = 4096;

constexpr char kUpdates[] = "updates";

[[noreturn]] void refuse_ids(const LookupUse& use, const std::string& what) {
  throw Error("table.bad_ids",
              "lookup '" + use.value + "': the column '" + use.column + "' " + what);
}

double sum_of_squares(const float* values, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += static_cast<double>(values[i]) * values[i];
  }
  return sum;
}

const FieldInfo* find_info(const std::vector<FieldInfo>& fields, const std::string& name) {
  const auto found = find_field(fields, name);
  return found.has_value() ? &fields[*found] : nullptr;
}

TableSpec completed(TableSpec spec, const SparseOptimizerProxy& optimizer) {
  const SparseOptimizerInfo& info = optimizer.info();
  for (const RowSlotSpec& slot : info.slots) {
    spec.slots.push_back({slot.name, slot.shape == TENON_ROW_SLOT_SCALAR, slot.dtype, slot.init});
  }
  if (spec.value_dtype != TENON_F32) {
    if (info.narrow == TENON_NARROW_REFUSED) {
      throw Error("table.narrow_values",
                  "table '" + spec.name + "': " + optimizer.instance().identity().describe() +
                      " updates fp32 values alone; give the table \"dtype\": \"fp32\", or another "
                      "optimizer");
    }
    spec.has_master = info.narrow == TENON_NARROW_MASTER;
  }
  return spec;
}

}  // namespace

// The distinct ids of a step, or of what is read beside it, and what goes with each, by position.
struct StepRows {
  DistinctIds ids;
  std::vector<int64_t> rows;     // of the table
  std::vector<uint8_t> has_row;  // 1 where that is one
  std::vector<float> values;     // [ids, dim]
  std::vector<float> grads;      // [ids, dim], as far as there are any
  std::vector<int64_t> used;     // entries that gave a gradient
  // Positions to look up: their ids are new, or had no row so far. And how often each was seen
  // since the last time.
  std::vector<uint32_t> pending;
  std::vector<int64_t> seen;

  void add(const LookupIds& lookup, std::vector<uint32_t>& positions) {
    const auto n = static_cast<size_t>(lookup.num_entries());
    const auto* const entries = lookup.ids.const_data_ptr<int64_t>();
    positions.resize(n);
    for (size_t e = 0; e < n; ++e) {
      const uint32_t position = ids.add(entries[e]);
      positions[e] = position;
      if (position == rows.size()) {
        make_place();
      }
      if (has_row[position] == 0 && seen[position]++ == 0) {
        pending.push_back(position);
      }
    }
  }

  // The same for ids that another rank has counted.
  void add(const RowExchange::Asked& asked, std::vector<uint32_t>& positions) {
    positions.resize(asked.ids.size());
    for (size_t i = 0; i < asked.ids.size(); ++i) {
      const uint32_t position = ids.add(asked.ids[i]);
      positions[i] = position;
      if (position == rows.size()) {
        make_place();
      }
      if (has_row[position] == 0) {
        if (seen[position] == 0) {
          pending.push_back(position);
        }
        seen[position] += asked.counts[i];
      }
    }
  }

  void make_place() {
    rows.push_back(kNoRow);
    has_row.push_back(0);
    used.push_back(0);
    seen.push_back(0);
  }

  void clear() {
    ids.clear();
    rows.clear();
    has_row.clear();
    values.clear();
    grads.clear();
    used.clear();
    pending.clear();
    seen.clear();
  }
};

struct TableSet::Entry {
  Entry(TableUse&& use, const ExecBase& base)
      : table(completed(std::move(use.spec), use.optimizer)),
        optimizer(std::move(use.optimizer)),
        lr(use.lr),
        clip_row_norm(use.clip_row_norm),
        frame(optimizer.instance().host(), base) {}

  Table table;
  SparseOptimizerProxy optimizer;
  double lr;
  std::optional<double> clip_row_norm;
  ExecFrame frame;
  int64_t updates = 0;  // applied
  std::vector<size_t> lookups;
  StepRows step;   // of training
  StepRows other;  // of what is only read
  std::string non_finite;

  // Among many ranks: of what all of them ask of this one.
  StepRows owned;
  StepRows owned_other;
  // Positions in `step` that go with gradients, by owner; and those in `owned` that come, by rank.
  std::vector<std::vector<uint32_t>> given;
  std::vector<std::vector<uint32_t>> due;
  // Under way: positions that were asked for, by owner; and that are answered, by rank.
  std::vector<std::vector<uint32_t>> wanted;
  std::vector<std::vector<uint32_t>> asked;
  bool is_touched = false;  // on any rank

  // Of an update.
  std::vector<int64_t> ids;
  std::vector<int64_t> rows;
  std::vector<int64_t> counts;
  std::vector<float> grads;
};

struct TableSet::Lookups {
  bool is_open = false;  // its ids are known
  LookupIds ids;
  std::vector<uint32_t> positions;  // by entry
  std::vector<int32_t> chosen;      // of a maximum
  at::Tensor grad;
};

TableSet::TableSet(std::vector<TableUse> tables,
                   std::vector<LookupUse> lookups,
                   const ExecBase& base,
                   Group* ranks)
    : uses_(std::move(lookups)) {
  ExecBase on_cpu = base;
  on_cpu.device = at::kCPU;
  on_cpu.stream = nullptr;
  for (TableUse& use : tables) {
    entries_.push_back(std::make_unique<Entry>(std::move(use), on_cpu));
  }
  if (ranks != nullptr && ranks->size() > 1) {
    exchange_.emplace(*ranks, entries_.size());
    for (const auto& entry : entries_) {
      entry->given.resize(ranks->size());
      entry->due.resize(ranks->size());
      entry->wanted.resize(ranks->size());
      entry->asked.resize(ranks->size());
    }
  }
  for (size_t l = 0; l < uses_.size(); ++l) {
    lookups_.push_back(std::make_unique<Lookups>());
    entries_[uses_[l].table]->lookups.push_back(l);
  }
}

TableSet::~TableSet() = default;

// Tables are shared out among the compute threads.
template <class Call>
void TableSet::for_each_table(Call call) {
  at::parallel_for(0, static_cast<int64_t>(entries_.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      call(static_cast<size_t>(t), *entries_[static_cast<size_t>(t)]);
    }
  });
}

const Table& TableSet::table(size_t i) const {
  return entries_[i]->table;
}

Table& TableSet::table(size_t i) {
  return entries_[i]->table;
}

void TableSet::check_fields(const std::vector<LookupUse>& lookups,
                            const std::vector<FieldInfo>& fields,
                            const std::string& dataset) {
  for (const LookupUse& use : lookups) {
    if (use.column.empty()) {
      continue;
    }
    const std::string called = "lookup '" + use.value + "' reads the column '" + use.column + "'";
    const FieldInfo* const fixed = find_info(fields, use.column);
    const FieldInfo* const values = find_info(fields, use.column + ".values");
    const FieldInfo* const offsets = find_info(fields, use.column + ".offsets");
    const bool is_ragged = fixed == nullptr && values != nullptr && offsets != nullptr;
    if (fixed == nullptr && !is_ragged) {
      throw Error(
          "table.column_missing",
          called + ", which " + dataset + " does not have (it has: " + field_names(fields) + ")");
    }
    const auto refuse = [&](const std::string& what) {
      throw Error("table.column_mismatch", called + " of " + dataset + ", " + what);
    };
    const FieldInfo& ids = fixed != nullptr ? *fixed : *values;
    if (ids.dtype != TENON_I64) {
      refuse("whose entries are not i64: hash it, or number it, by a feature");
    }
    if (fixed != nullptr && (ids.axes.empty() || ids.axes.size() > 2)) {
      refuse("which has " + std::to_string(ids.axes.size()) + " axes: ids are [B] or [B, n]");
    }
    if (is_ragged) {
      if (offsets->dtype != TENON_I64) {
        refuse("whose offsets are not i64");
      }
      if (find_info(fields, use.column + ".offsets.1") != nullptr) {
        refuse("which has lists of lists");
      }
      if (use.pooling.kind == TENON_POOL_NONE) {
        refuse("which is ragged, without a pooling");
      }
    }
    if (is_weighted(use.pooling.kind)) {
      const FieldInfo* const weights = find_info(fields, use.column + ".weights");
      if (weights == nullptr || weights->dtype != TENON_F32) {
        refuse("which has no weights (a field '" + use.column + ".weights' of f32)");
      }
    }
  }
}

LookupIds TableSet::ids_of(const LookupUse& use, const at::Tensor& ids, const Batch* batch) {
  LookupIds result;
  const auto on_host = [](const at::Tensor& tensor) { return tensor.to(at::kCPU).contiguous(); };
  at::Tensor given = ids;
  if (!use.column.empty()) {
    const at::Tensor* const fixed = batch->find(use.column);
    if (fixed == nullptr) {
      const at::Tensor* const values = batch->find(use.column + ".values");
      const at::Tensor* const offsets = batch->find(use.column + ".offsets");
      if (values == nullptr || offsets == nullptr) {
        refuse_ids(use, "is not in this batch");
      }
      result.ids = on_host(*values).view({-1});
      result.offsets = on_host(*offsets).view({-1});
    } else {
      given = *fixed;
    }
    if (const at::Tensor* const weights = batch->find(use.column + ".weights")) {
      result.weights = on_host(*weights).view({-1});
    }
  }
  if (!result.ids.defined()) {
    if (given.scalar_type() != at::kLong || given.dim() < 1 || given.dim() > 2) {
      refuse_ids(use,
                 "is " + shape_text(given.sizes()) + " " + c10::toString(given.scalar_type()) +
                     ", but ids are i64 [B] or [B, n]");
    }
    result.num_samples = given.size(0);
    result.is_matrix = given.dim() == 2;
    result.per_sample = result.is_matrix ? given.size(1) : 1;
    result.ids = on_host(given).view({-1});
  }
  if (result.weights.defined() && result.weights.numel() != result.ids.numel()) {
    refuse_ids(use,
               "has " + std::to_string(result.weights.numel()) + " weights for " +
                   std::to_string(result.ids.numel()) + " entries");
  }
  if (!result.offsets.defined()) {
    return result;
  }
  result.num_samples = result.offsets.numel() - 1;
  const auto* const offsets = result.offsets.const_data_ptr<int64_t>();
  if (result.num_samples != batch->samples) {
    refuse_ids(use,
               "has " + std::to_string(result.offsets.numel()) + " offsets in a batch of " +
                   std::to_string(batch->samples) + " samples");
  }
  for (int64_t s = 0; s <= result.num_samples; ++s) {
    const int64_t least = s > 0 ? offsets[s - 1] : 0;
    if (offsets[s] < least || (s == 0 && offsets[s] != 0)) {
      refuse_ids(use,
                 "has the offset " + std::to_string(offsets[s]) + " at sample " +
                     std::to_string(s) + " after " + std::to_string(least));
    }
  }
  if (offsets[result.num_samples] != result.ids.numel()) {
    refuse_ids(use,
               "has " + std::to_string(result.ids.numel()) + " entries, and offsets that end at " +
                   std::to_string(offsets[result.num_samples]));
  }
  return result;
}

void TableSet::begin(const Batch* batch, const CallPlace& place, Lookup how) {
  if (exchange_.has_value() && exchange_->is_asking()) {
    answer_and_take();  // others may want what nobody has read here
  }
  how_ = how;
  has_samples_ = batch != nullptr;
  num_grads_due_ = 0;
  for (const auto& entry : entries_) {
    entry->frame.move_to(place);
    entry->other.clear();
    entry->owned_other.clear();
  }
  for (const auto& lookup : lookups_) {
    lookup->is_open = false;
    lookup->grad.reset();
  }
  for (size_t l = 0; has_samples_ && l < uses_.size(); ++l) {
    if (!uses_[l].column.empty()) {
      lookups_[l]->ids = ids_of(uses_[l], {}, batch);
      lookups_[l]->is_open = true;
      ++num_grads_due_;
    }
  }
  for_each_table([&](size_t, Entry& entry) {
    for (const size_t l : entry.lookups) {
      if (lookups_[l]->is_open) {
        rows_of(entry).add(lookups_[l]->ids, lookups_[l]->positions);
      }
    }
    if (!exchange_.has_value()) {
      find_rows(entry, rows_of(entry));
    }
  });
  if (exchange_.has_value()) {
    ask_owners();
  }
}

StepRows& TableSet::rows_of(Entry& entry) const {
  return how_ == Lookup::kTrain ? entry.step : entry.other;
}

StepRows& TableSet::owned_of(Entry& entry) const {
  return how_ == Lookup::kTrain ? entry.owned : entry.owned_other;
}

void TableSet::find_rows(Entry& entry, StepRows& found) const {
  const size_t dim = entry.table.spec().dim;
  const size_t n = found.pending.size();
  found.values.resize(found.rows.size() * dim);
  if (n == 0) {
    return;
  }
  const auto look_up = [&](std::span<const int64_t> ids,
                           std::span<const int64_t> counts,
                           std::span<int64_t> rows,
                           float* values) {
    if (how_ == Lookup::kTrain) {
      entry.table.find_or_insert(ids, counts, rows);
    } else {
      entry.table.find(ids, rows);
    }
    entry.table.read(rows, values, static_cast<int64_t>(dim));
  };
  const size_t first = found.pending.front();
  const bool is_run = found.pending.back() - first + 1 == n;  // they ascend
  if (is_run) {
    look_up(found.ids.ids().subspan(first, n),
            std::span(found.seen).subspan(first, n),
            std::span(found.rows).subspan(first, n),
            found.values.data() + first * dim);
  } else {
    std::vector<int64_t> ids;
    std::vector<int64_t> counts;
    for (const uint32_t position : found.pending) {
      ids.push_back(found.ids.ids()[position]);
      counts.push_back(found.seen[position]);
    }
    std::vector<int64_t> rows(n, kNoRow);
    std::vector<float> values(n * dim);
    look_up(ids, counts, rows, values.data());
    for (size_t i = 0; i < n; ++i) {
      found.rows[found.pending[i]] = rows[i];
      std::copy_n(values.data() + i * dim, dim, found.values.data() + found.pending[i] * dim);
    }
  }
  for (const uint32_t position : found.pending) {
    found.has_row[position] = found.rows[position] != kNoRow ? 1 : 0;
    found.seen[position] = 0;
  }
  found.pending.clear();
}

// Begins to ask the owners for what is pending.
void TableSet::ask_owners() {
  const uint32_t num_ranks = exchange_->size();
  std::vector<std::vector<SeenIds>> ids(entries_.size(), std::vector<SeenIds>(num_ranks));
  for (size_t t = 0; t < entries_.size(); ++t) {
    Entry& entry = *entries_[t];
    StepRows& own = rows_of(entry);
    for (std::vector<uint32_t>& positions : entry.wanted) {
      positions.clear();
    }
    for (const uint32_t position : own.pending) {
      const int64_t id = own.ids.ids()[position];
      const uint32_t owner = RowExchange::owner_of(id, num_ranks);
      ids[t][owner].ids.push_back(id);
      ids[t][owner].counts.push_back(std::exchange(own.seen[position], 0));
      entry.wanted[owner].push_back(position);
    }
    own.pending.clear();
  }
  exchange_->ask(ids);
}

// Looks up what ranks ask of this one, and takes what the owners answer: for each id, whether it
// has a row, and its values.
void TableSet::answer_and_take() {
  const uint32_t num_ranks = exchange_->size();
  const std::vector<std::vector<RowExchange::Asked>> asked = exchange_->asked();
  for_each_table([&](size_t t, Entry& entry) {
    for (uint32_t r = 0; r < num_ranks; ++r) {
      owned_of(entry).add(asked[t][r], entry.asked[r]);
    }
    find_rows(entry, owned_of(entry));
  });
  std::vector<int64_t> answered(num_ranks, 0);
  std::vector<int64_t> expected(num_ranks, 0);
  for (const auto& entry : entries_) {
    for (uint32_t r = 0; r < num_ranks; ++r) {
      const int64_t width = 1 + int64_t{entry->table.spec().dim};
      answered[r] += static_cast<int64_t>(entry->asked[r].size()) * width;
      expected[r] += static_cast<int64_t>(entry->wanted[r].size()) * width;
    }
  }
  const auto fill = [&](uint32_t rank, float* out) {
    for (const auto& entry : entries_) {
      const StepRows& owned = owned_of(*entry);
      const size_t dim = entry->table.spec().dim;
      for (const uint32_t position : entry->asked[rank]) {
        *out++ = static_cast<float>(owned.has_row[position]);
        out = std::copy_n(owned.values.data() + position * dim, dim, out);
        if (how_ == Lookup::kTrain && owned.has_row[position] != 0) {
          entry->due[rank].push_back(position);
        }
      }
    }
  };
  exchange_->send(answered, expected, fill, "rows of tables");
  std::vector<const float*> answers = exchange_->receive();
  for (const auto& entry : entries_) {
    StepRows& own = rows_of(*entry);
    const size_t dim = entry->table.spec().dim;
    own.values.resize(own.rows.size() * dim);
    for (uint32_t r = 0; r < num_ranks; ++r) {
      for (const uint32_t position : entry->wanted[r]) {
        own.has_row[position] = *answers[r]++ != 0 ? 1 : 0;
        std::copy_n(answers[r], dim, own.values.data() + position * dim);
        answers[r] += dim;
        if (how_ == Lookup::kTrain && own.has_row[position] != 0) {
          entry->given[r].push_back(position);
        }
      }
    }
  }
}

at::Tensor TableSet::rows(size_t l, const at::Tensor& ids) {
  const LookupUse& use = uses_[l];
  Lookups& lookup = *lookups_[l];
  Entry& entry = *entries_[use.table];
  if (exchange_.has_value() && exchange_->is_asking()) {
    answer_and_take();
  }
  if (use.column.empty()) {
    if (ids.defined() && has_samples_) {
      lookup.ids = ids_of(use, ids, nullptr);
      lookup.is_open = true;
      ++num_grads_due_;
      rows_of(entry).add(lookup.ids, lookup.positions);
    }
    if (exchange_.has_value()) {
      ask_owners();
      answer_and_take();
    } else if (lookup.is_open) {
      find_rows(entry, rows_of(entry));
    }
  }
  if (!lookup.is_open) {
    return {};
  }
  return pool(
      use.pooling, lookup.ids, lookup.positions, rows_of(entry).values.data(), &lookup.chosen);
}

void TableSet::take_grad(size_t l, const at::Tensor& grad) {
  if (!has_samples_ || how_ != Lookup::kTrain) {
    return;
  }
  if (grad.defined()) {
    lookups_[l]->grad = grad.to(at::kCPU, at::kFloat).contiguous();
  }
  if (--num_grads_due_ > 0) {
    return;
  }
  for_each_table([this](size_t, Entry& entry) { add_grads(entry); });
}

void TableSet::add_grads(Entry& entry) {
  StepRows& step = entry.step;
  for (const size_t l : entry.lookups) {
    Lookups& lookup = *lookups_[l];
    if (lookup.grad.defined()) {
      step.grads.resize(step.rows.size() * entry.table.spec().dim, 0.0F);
      add_pooled_grad(uses_[l].pooling,
                      lookup.ids,
                      lookup.positions,
                      step.has_row,
                      lookup.grad,
                      lookup.chosen,
                      step.grads.data(),
                      step.used.data());
      lookup.grad.reset();
    }
    lookup.is_open = false;
  }
}

void TableSet::send_gradients() {
  if (!exchange_.has_value()) {
    return;
  }
  if (exchange_->is_asking()) {
    answer_and_take();
  }
  const uint32_t num_ranks = exchange_->size();
  // In front, whether any of a table's rows had a gradient here.
  std::vector<int64_t> given(num_ranks, static_cast<int64_t>(entries_.size()));
  std::vector<int64_t> due = given;
  for (const auto& entry : entries_) {
    for (uint32_t r = 0; r < num_ranks; ++r) {
      const int64_t width = 1 + int64_t{entry->table.spec().dim};
      given[r] += static_cast<int64_t>(entry->given[r].size()) * width;
      due[r] += static_cast<int64_t>(entry->due[r].size()) * width;
    }
  }
  const auto fill = [&](uint32_t rank, float* out) {
    for (const auto& entry : entries_) {
      *out++ = std::ranges::any_of(entry->step.used, [](int64_t n) { return n > 0; }) ? 1.0F : 0.0F;
    }
    for (const auto& entry : entries_) {
      const StepRows& step = entry->step;
      const size_t dim = entry->table.spec().dim;
      for (const uint32_t position : entry->given[rank]) {
        const int64_t used = step.used[position];
        *out++ = std::bit_cast<float>(static_cast<int32_t>(std::min<int64_t>(used, INT32_MAX)));
        out = used > 0 ? std::copy_n(step.grads.data() + position * dim, dim, out)
                       : std::fill_n(out, dim, 0.0F);
      }
    }
  };
  exchange_->send(given, due, fill, "gradients of tables");
}

// Adds up what ranks have given, in their order.
void TableSet::take_gradients() {
  std::vector<const float*> given = exchange_->receive();
  for (const auto& entry : entries_) {
    entry->is_touched = false;
    for (const float*& numbers : given) {
      entry->is_touched = *numbers++ != 0 || entry->is_touched;
    }
  }
  for (const auto& entry : entries_) {
    StepRows& owned = entry->owned;
    const size_t dim = entry->table.spec().dim;
    owned.grads.resize(owned.rows.size() * dim, 0.0F);
    for (uint32_t r = 0; r < exchange_->size(); ++r) {
      for (const uint32_t position : entry->due[r]) {
        owned.used[position] += std::bit_cast<int32_t>(*given[r]++);
        float* const sum = owned.grads.data() + position * dim;
        for (size_t d = 0; d < dim; ++d) {
          sum[d] += given[r][d];
        }
        given[r] += dim;
      }
    }
  }
}

// Puts the rows that had a gradient side by side, as an update takes them.
void TableSet::gather_touched(Entry& entry, double scale) const {
  const StepRows& step = exchange_.has_value() ? entry.owned : entry.step;
  const size_t dim = entry.table.spec().dim;
  entry.non_finite.clear();
  entry.ids.clear();
  entry.rows.clear();
  entry.counts.clear();
  entry.grads.clear();
  const size_t n = step.grads.size() / dim;
  entry.grads.reserve(step.grads.size());
  for (size_t i = 0; i < n; ++i) {
    if (step.used[i] == 0) {
      continue;
    }
    const float* const grad = step.grads.data() + i * dim;
    double factor = scale;
    const double squares = sum_of_squares(grad, static_cast<int64_t>(dim)) * scale * scale;
    if (!std::isfinite(squares) && entry.non_finite.empty()) {
      entry.non_finite = "the gradient of row " + std::to_string(step.ids.ids()[i]) +
                         " of table '" + entry.table.spec().name + "'";
    }
    if (entry.clip_row_norm.has_value() && squares > *entry.clip_row_norm * *entry.clip_row_norm) {
      factor *= *entry.clip_row_norm / std::sqrt(squares);
    }
    entry.ids.push_back(step.ids.ids()[i]);
    entry.rows.push_back(step.rows[i]);
    entry.counts.push_back(step.used[i]);
    const auto by = static_cast<float>(factor);
    for (size_t d = 0; d < dim; ++d) {
      entry.grads.push_back(grad[d] * by);
    }
  }
}

void TableSet::finish_gradients(double scale) {
  if (exchange_.has_value()) {
    take_gradients();
  }
  for_each_table([&](size_t, Entry& entry) { gather_touched(entry, scale); });
  non_finite_.clear();
  for (const auto& entry : entries_) {
    if (!entry->non_finite.empty() && non_finite_.empty()) {
      non_finite_ = entry->non_finite;
    }
  }
}

void TableSet::update(double factor, const CallPlace& place) {
  struct Call {
    Entry* entry;
    size_t first;
    size_t count;
    double lr;
  };
  std::vector<Call> calls;
  for (const auto& entry : entries_) {
    const size_t n = entry->rows.size();
    // The count of updates is that of one rank that has all rows.
    const bool is_touched = exchange_.has_value() ? entry->is_touched : n > 0;
    if (!is_touched) {
      continue;
    }
    entry->frame.move_to(place);
    ++entry->updates;
    for (size_t first = 0; first < n; first += kRowsPerCall) {
      calls.push_back({entry.get(), first, std::min(kRowsPerCall, n - first), entry->lr * factor});
    }
  }
  at::parallel_for(0, static_cast<int64_t>(calls.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      const Call& call = calls[static_cast<size_t>(c)];
      Entry& entry = *call.entry;
      tenon_sparse_update_args args{};
      args.struct_size = sizeof(args);
      args.layout = &entry.table.layout();
      args.n = call.count;
      args.rows = entry.rows.data() + call.first;
      args.ids = entry.ids.data() + call.first;
      args.grads = entry.grads.data() + call.first * entry.table.spec().dim;
      args.counts = entry.counts.data() + call.first;
      args.step = &entry.updates;
      args.lr = &call.lr;
      args.seed = entry.table.spec().seed;
      try {
        entry.optimizer.update(entry.frame.exec(), args);
      } catch (Error& error) {
        throw error.with_context("table '" + entry.table.spec().name + "'");
      }
    }
  });
  for (const auto& entry : entries_) {
    if (!entry->rows.empty()) {
      entry->table.note_update(entry->rows, entry->counts, static_cast<int64_t>(place.step));
    }
  }
}

void TableSet::end_step(uint64_t step) {
  for (const auto& entry : entries_) {
    entry->step.clear();
    entry->owned.clear();
    for (size_t r = 0; r < entry->given.size(); ++r) {
      entry->given[r].clear();
      entry->due[r].clear();
    }
    entry->rows.clear();
    entry->table.end_step(static_cast<int64_t>(step));
  }
  non_finite_.clear();
}

std::vector<TableFigures> TableSet::take_figures() {
  std::vector<TableFigures> figures;
  for (const auto& entry : entries_) {
    Table& table = entry->table;
    figures.push_back({table.spec().name,
                       table.num_rows(),
                       table.num_bytes(),
                       table.row_bytes(),
                       table.take_counts()});
  }
  return figures;
}

int64_t TableSet::num_bytes() const {
  int64_t bytes = 0;
  for (const auto& entry : entries_) {
    bytes += entry->table.num_bytes();
  }
  return bytes;
}

void TableSet::snapshot(StateTree& tree, const std::string& prefix) const {
  // Side by side, each into a tree of its own: ids are sorted, and rows gathered.
  std::vector<StateTree> parts(entries_.size(), tree.empty_like());
  const auto below = [&](size_t t) { return state_path(prefix, entries_[t]->table.spec().name); };
  at::parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t first, int64_t last) {
    for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(last); ++t) {
      if (!tree.is_left_out(below(t))) {
        entries_[t]->table.snapshot(parts[t], below(t));
      }
    }
  });
  for (size_t t = 0; t < parts.size(); ++t) {
    for (const auto& [name, entry] : parts[t].entries()) {
      tree.put_entry(name, entry);
    }
    for (const auto& [name, version] : parts[t].versions()) {
      tree.set_version(name, version);
    }
    tree.put_int(state_path(below(t), kUpdates), entries_[t]->updates);
  }
}

void TableSet::load(const StateTree& tree, const std::string& prefix) {
  for (const auto& entry : entries_) {
    const std::string below = state_path(prefix, entry->table.spec().name);
    if (tree.is_left_out(below)) {
      continue;
    }
    entry->table.load(tree, below, [this](int64_t id) { return is_own(id); });
    entry->updates = tree.get_int(state_path(below, kUpdates));
  }
}

int64_t TableSet::take_rows(
    size_t i, const StateTree& tree, const std::string& below, RowParts parts, int64_t step) {
  Entry& entry = *entries_[i];
  const int64_t taken = take_saved_rows(
      entry.table, tree, below, parts, step, [this](int64_t id) { return is_own(id); });
  if (parts == RowParts::kAll) {
    entry.updates = tree.get_int(state_path(below, kUpdates));
  }
  return taken;
}

bool TableSet::is_own(int64_t id) const {
  return !exchange_.has_value() ||
         RowExchange::owner_of(id, exchange_->size()) == exchange_->rank();
}

}  // namespace tenon
