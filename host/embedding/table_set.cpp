// SPDX-License-Identifier: Apache-2.0
//
// Compiled with OpenMP, for at::parallel_for.
#include "host/embedding/table_set.hpp"

#include <tenon/model.h>

#include "host/embedding/row_update.hpp"
#include "host/embedding/saved_rows.hpp"
#include "host/embedding/step_rows.hpp"
#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/tensor/field_match.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/tensor/state/saved_number.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace tenon {
namespace {

// Rows per call of an optimizer: enough work for a thread, few enough to divide among threads.
constexpr size_t kRowsPerCall = 4096;

constexpr char kUpdates[] = "updates";

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
  StepRows step;     // rows of training lookups
  StepRows other;    // rows of read-only lookups
  StepRows preview;  // rows of the step's previews

  // With several ranks: the rows that all ranks request from this rank.
  StepRows owned;
  StepRows owned_other;
  StepRows owned_preview;
  // Positions whose gradients are sent, in `step`, by owner; or received, in `owned`, by rank.
  std::vector<std::vector<uint32_t>> given;
  std::vector<std::vector<uint32_t>> due;
  // Current request: positions requested, by owner, and positions to answer, by rank.
  std::vector<std::vector<uint32_t>> wanted;
  std::vector<std::vector<uint32_t>> asked;
  bool is_has_grad = false;  // on any rank

  RowUpdate update;
};

TableSet::TableSet(std::vector<TableUse> tables,
                   std::vector<LookupUse> lookups,
                   const ExecBase& base,
                   Group* ranks)
    : uses_(std::move(lookups)) {
  const ExecBase on_cpu = base.on(at::kCPU);
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
    entries_[uses_[l].table]->lookups.push_back(l);
  }
}

TableSet::~TableSet() = default;

// Divides the tables among the compute threads.
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

std::unique_ptr<TableSet::Pass> TableSet::begin(const Batch* batch,
                                                const CallPoint& point,
                                                Lookup how) {
  if (exchange_.has_value() && exchange_->is_asking()) {
    answer_and_take();  // other ranks may need rows that this rank has not read
  }
  std::unique_ptr<Pass> pass(new Pass(*this, how, batch != nullptr));
  for (const auto& entry : entries_) {
    entry->frame.move_to(point);
    entry->other.clear();
    entry->owned_other.clear();
  }
  for (size_t l = 0; pass->has_samples_ && l < uses_.size(); ++l) {
    if (!uses_[l].column.empty()) {
      pass->values_[l].ids = lookup_ids(uses_[l], {}, batch);
      pass->values_[l].is_open = true;
      ++pass->num_grads_due_;
    }
  }
  for_each_table([&](size_t, Entry& entry) {
    for (const size_t l : entry.lookups) {
      if (Pass::Value& value = pass->values_[l]; value.is_open) {
        rows_of(entry, how).add(value.ids, value.positions);
      }
    }
    if (!exchange_.has_value()) {
      find_rows(entry, how, rows_of(entry, how));
    }
  });
  if (exchange_.has_value()) {
    ask_owners(how);
  }
  return pass;
}

StepRows& TableSet::rows_of(Entry& entry, Lookup how) {
  if (how == Lookup::kPreview) {
    return entry.preview;
  }
  return how == Lookup::kTrain ? entry.step : entry.other;
}

StepRows& TableSet::owned_of(Entry& entry, Lookup how) {
  if (how == Lookup::kPreview) {
    return entry.owned_preview;
  }
  return how == Lookup::kTrain ? entry.owned : entry.owned_other;
}

void TableSet::find_rows(Entry& entry, Lookup how, StepRows& found) const {
  const size_t dim = entry.table.spec().dim;
  const size_t n = found.pending.size();
  found.values.resize(found.rows.size() * dim);
  if (n == 0) {
    return;
  }
  if (how == Lookup::kPreview) {
    found.preview(entry.table);
    return;
  }
  const auto look_up = [&](std::span<const int64_t> ids,
                           std::span<const int64_t> counts,
                           std::span<int64_t> rows,
                           float* values) {
    if (how == Lookup::kTrain) {
      entry.table.find_or_insert(ids, counts, rows);
    } else {
      entry.table.find(ids, rows);
    }
    entry.table.read(rows, values, static_cast<int64_t>(dim));
  };
  const size_t first = found.pending.front();
  const bool is_run = found.pending.back() - first + 1 == n;  // positions ascend
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

// Starts requesting the pending ids from their owners.
void TableSet::ask_owners(Lookup how) {
  asked_how_ = how;
  const uint32_t num_ranks = exchange_->size();
  std::vector<std::vector<SeenIds>> ids(entries_.size(), std::vector<SeenIds>(num_ranks));
  for (size_t t = 0; t < entries_.size(); ++t) {
    Entry& entry = *entries_[t];
    StepRows& own = rows_of(entry, how);
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

// Looks up the ids that ranks request from this rank, and receives the owners' answers: for each
// id, whether it has a row, and its values.
void TableSet::answer_and_take() {
  const uint32_t num_ranks = exchange_->size();
  const std::vector<std::vector<RowExchange::Asked>> asked = exchange_->asked();
  for_each_table([&](size_t t, Entry& entry) {
    for (uint32_t r = 0; r < num_ranks; ++r) {
      owned_of(entry, asked_how_).add(asked[t][r], entry.asked[r]);
    }
    find_rows(entry, asked_how_, owned_of(entry, asked_how_));
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
      const StepRows& owned = owned_of(*entry, asked_how_);
      const size_t dim = entry->table.spec().dim;
      for (const uint32_t position : entry->asked[rank]) {
        *out++ = static_cast<float>(owned.has_row[position]);
        out = std::copy_n(owned.values.data() + position * dim, dim, out);
        if (asked_how_ == Lookup::kTrain && owned.has_row[position] != 0) {
          entry->due[rank].push_back(position);
        }
      }
    }
  };
  exchange_->send(answered, expected, fill, "rows of tables");
  std::vector<const float*> answers = exchange_->receive();
  for (const auto& entry : entries_) {
    StepRows& own = rows_of(*entry, asked_how_);
    const size_t dim = entry->table.spec().dim;
    own.values.resize(own.rows.size() * dim);
    for (uint32_t r = 0; r < num_ranks; ++r) {
      for (const uint32_t position : entry->wanted[r]) {
        own.has_row[position] = *answers[r]++ != 0 ? 1 : 0;
        std::copy_n(answers[r], dim, own.values.data() + position * dim);
        answers[r] += dim;
        if (asked_how_ == Lookup::kTrain && own.has_row[position] != 0) {
          entry->given[r].push_back(position);
        }
      }
    }
  }
}

at::Tensor TableSet::Pass::rows(size_t l, const at::Tensor& ids) {
  const LookupUse& use = tables_.uses_[l];
  Value& value = values_[l];
  Entry& entry = *tables_.entries_[use.table];
  const bool has_ranks = tables_.exchange_.has_value();
  if (has_ranks && tables_.exchange_->is_asking()) {
    tables_.answer_and_take();
  }
  if (use.column.empty()) {
    if (ids.defined() && has_samples_) {
      value.ids = lookup_ids(use, ids, nullptr);
      value.is_open = true;
      ++num_grads_due_;
      rows_of(entry, how_).add(value.ids, value.positions);
    }
    if (has_ranks) {
      tables_.ask_owners(how_);
      tables_.answer_and_take();
    } else if (value.is_open) {
      tables_.find_rows(entry, how_, rows_of(entry, how_));
    }
  }
  if (!value.is_open) {
    return {};
  }
  return pool(
      use.pooling, value.ids, value.positions, rows_of(entry, how_).values.data(), &value.chosen);
}

void TableSet::Pass::take_grad(size_t l, const at::Tensor& grad) {
  if (!has_samples_ || how_ != Lookup::kTrain) {
    return;
  }
  if (grad.defined()) {
    values_[l].grad = grad.to(at::kCPU, at::kFloat).contiguous();
  }
  if (--num_grads_due_ > 0) {
    return;
  }
  tables_.for_each_table([this](size_t, Entry& entry) { tables_.add_grads(entry, *this); });
}

void TableSet::add_grads(Entry& entry, Pass& pass) {
  StepRows& step = entry.step;
  for (const size_t l : entry.lookups) {
    Pass::Value& value = pass.values_[l];
    if (value.grad.defined()) {
      step.grads.resize(step.rows.size() * entry.table.spec().dim, 0.0F);
      add_pooled_grad(uses_[l].pooling,
                      value.ids,
                      value.positions,
                      step.has_row,
                      value.grad,
                      value.chosen,
                      step.grads.data(),
                      step.used.data());
      value.grad.reset();
    }
    value.is_open = false;
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
  // The message starts with a flag per table: whether any of its rows had a gradient on this rank.
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

// Adds up the gradients from all ranks, in the order of ranks.
void TableSet::take_gradients() {
  std::vector<const float*> given = exchange_->receive();
  for (const auto& entry : entries_) {
    entry->is_has_grad = false;
    for (const float*& numbers : given) {
      entry->is_has_grad = *numbers++ != 0 || entry->is_has_grad;
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

void TableSet::finish_gradients(double scale) {
  if (exchange_.has_value()) {
    take_gradients();
  }
  for_each_table([&](size_t, Entry& entry) {
    entry.update.gather(exchange_.has_value() ? entry.owned : entry.step,
                        entry.table.spec().dim,
                        scale,
                        entry.clip_row_norm);
  });
  non_finite_.clear();
  for (const auto& entry : entries_) {
    if (!entry->update.non_finite.empty() && non_finite_.empty()) {
      non_finite_ = "the gradient of " + entry->update.non_finite + " of table '" +
                    entry->table.spec().name + "'";
    }
  }
}

void TableSet::update(double factor, const CallPoint& point) {
  struct Call {
    Entry* entry;
    size_t first;
    size_t count;
    double lr;
  };
  std::vector<Call> calls;
  for (const auto& entry : entries_) {
    const size_t n = entry->update.rows.size();
    // Counts updates as a single rank with all rows would.
    const bool is_has_grad = exchange_.has_value() ? entry->is_has_grad : n > 0;
    if (!is_has_grad) {
      continue;
    }
    entry->frame.move_to(point);
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
      args.rows = entry.update.rows.data() + call.first;
      args.ids = entry.update.ids.data() + call.first;
      args.grads = entry.update.grads.data() + call.first * entry.table.spec().dim;
      args.counts = entry.update.counts.data() + call.first;
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
    if (!entry->update.rows.empty()) {
      entry->table.note_update(
          entry->update.rows, entry->update.counts, static_cast<int64_t>(point.step));
    }
  }
}

void TableSet::end_step(uint64_t step) {
  for (const auto& entry : entries_) {
    entry->step.clear();
    entry->owned.clear();
    entry->preview.clear();
    entry->owned_preview.clear();
    for (size_t r = 0; r < entry->given.size(); ++r) {
      entry->given[r].clear();
      entry->due[r].clear();
    }
    entry->update.rows.clear();
    entry->table.end_step(static_cast<int64_t>(step));
  }
  non_finite_.clear();
}

std::vector<TableMetrics> TableSet::take_metrics() {
  std::vector<TableMetrics> metrics;
  for (const auto& entry : entries_) {
    Table& table = entry->table;
    metrics.push_back({table.spec().name,
                       table.num_rows(),
                       table.num_bytes(),
                       table.row_bytes(),
                       table.take_counts()});
  }
  return metrics;
}

int64_t TableSet::num_bytes() const {
  int64_t bytes = 0;
  for (const auto& entry : entries_) {
    bytes += entry->table.num_bytes();
  }
  return bytes;
}

void TableSet::snapshot(StateTree& tree, const std::string& prefix) const {
  // In parallel, each table into a separate tree, because ids are sorted and rows gathered.
  std::vector<StateTree> parts(entries_.size(), tree.empty_like());
  const auto below = [&](size_t t) { return state_path(prefix, entries_[t]->table.spec().name); };
  at::parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t first, int64_t last) {
    for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(last); ++t) {
      if (!tree.is_excluded(below(t))) {
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
    if (tree.is_excluded(below)) {
      continue;
    }
    entry->table.load(tree, below, [this](int64_t id) { return is_own(id); });
    entry->updates = saved_signed_count(tree, state_path(below, kUpdates));
  }
}

int64_t TableSet::take_rows(
    size_t i, const StateTree& tree, const std::string& below, RowParts parts, int64_t step) {
  Entry& entry = *entries_[i];
  const int64_t taken = take_saved_rows(
      entry.table, tree, below, parts, step, [this](int64_t id) { return is_own(id); });
  if (parts == RowParts::kAll) {
    entry.updates = saved_signed_count(tree, state_path(below, kUpdates));
  }
  return taken;
}

bool TableSet::is_own(int64_t id) const {
  return !exchange_.has_value() ||
         RowExchange::owner_of(id, exchange_->size()) == exchange_->rank();
}

}  // namespace tenon
