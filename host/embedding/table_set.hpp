// SPDX-License-Identifier: Apache-2.0
//
// The tables of a run: looks up what a model reads of them, sums the gradients by row over a step's
// microbatches, and has each table's optimizer update the rows that were touched. It knows no
// model: which value a lookup makes is the caller's.
//
//   begin, rows ..., take_grad ...                      once a microbatch
//   send_gradients, finish_gradients, update, end_step  once a step
//
// Among many ranks each row has one owner, by the hash of its id. A rank asks the owners for the
// ids of a microbatch and gives them the sums of its gradients once a step; owners add them up in
// the order of ranks. All ranks make the same calls in the same order, idle ones too.
//
// Invariants: each distinct id of a step is looked up once, and its row updated once; the sum of a
// row's gradients has the order of microbatches, lookups and entries; what is read in evaluation
// changes nothing; a row's result depends on no other row and on no thread.
// Threads: the train thread; work is shared out among the compute threads.
#pragma once

#include "host/distributed/collectives/group.hpp"
#include "host/embedding/lookup_column.hpp"
#include "host/embedding/row_exchange.hpp"
#include "host/embedding/row_file.hpp"
#include "host/embedding/table.hpp"
#include "host/plugin/sparse_optimizer_proxy.hpp"
#include "host/tensor/batch.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// A table and what updates it. Slots and master of `spec` follow from the optimizer.
struct TableUse {
  TableSpec spec;
  SparseOptimizerProxy optimizer;
  double lr = 0;                             // before schedule and factor
  std::optional<double> clip_row_norm = {};  // of each row's gradient
};

// What tables did since the last record.
struct TableMetrics {
  std::string name;
  int64_t rows = 0;   // now
  int64_t bytes = 0;  // now
  int64_t row_bytes = 0;
  TableCounts counts;
};

struct StepRows;

class TableSet final : public Stateful {
 public:
  // `ranks`, borrowed and nobody else's, are those that share out the rows; null: this one alone.
  // Errors  table.narrow_values where an optimizer cannot update such; table.bad_spec
  TableSet(std::vector<TableUse> tables,
           std::vector<LookupUse> lookups,
           const ExecBase& base,
           Group* ranks = nullptr);
  ~TableSet() override;
  TableSet(const TableSet&) = delete;
  TableSet& operator=(const TableSet&) = delete;

  // Checks that a dataset has the columns that are looked up.
  // Errors  table.column_missing, table.column_mismatch: lookup, column and what there is
  static void check_fields(const std::vector<LookupUse>& lookups,
                           const std::vector<FieldInfo>& fields,
                           const std::string& dataset) {
    check_lookup_columns(lookups, fields, dataset);
  }

  size_t size() const { return entries_.size(); }
  const Table& table(size_t i) const;
  Table& table(size_t i);

  enum class Lookup { kTrain, kRead };
  // A microbatch begins, with its columns; `batch` is null on a rank without samples. What the
  // last one has left over is dropped.
  // Errors  table.bad_ids: offsets that run backwards, and the like; table.full
  void begin(const Batch* batch, const CallPlace& place, Lookup how);
  // The value of lookup `l`, once; undefined on a rank without samples. `ids` as LookupUse says.
  // Shapes  as model.h says, fp32
  at::Tensor rows(size_t l, const at::Tensor& ids);
  // The gradient of that value, once; undefined where there is none.
  void take_grad(size_t l, const at::Tensor& grad);

  // All gradients of the step are there: begins to give them to the owners of the rows.
  void send_gradients();
  // Waits for what others have given to this rank; multiplies them by `scale`, clips them.
  void finish_gradients(double scale);
  // "" where they are finite, else which is not: "the gradient of row 42 of table 'user'". From
  // finish_gradients on.
  const std::string& non_finite() const { return non_finite_; }

  // Updates the rows that had a gradient, by rates lr * factor.
  // Errors  plugin.failed
  void update(double factor, const CallPlace& place);
  // The step is over, updated or not: forgets its gradients, and lets tables evict.
  void end_step(uint64_t step);

  std::vector<TableMetrics> take_metrics();
  int64_t num_bytes() const;

  // Stateful, between steps: each table below its name, and its counter of updates.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;

  // Puts those rows of a saved table that are this rank's into table `i`, as take_saved_rows, and
  // with RowParts::kAll its counter of updates. Says how many rows. All ranks make the same call.
  int64_t take_rows(
      size_t i, const StateTree& tree, const std::string& below, RowParts parts, int64_t step);

 private:
  struct Entry;
  struct Lookups;

  template <class Call>
  void for_each_table(Call call);
  StepRows& rows_of(Entry& entry) const;
  void find_rows(Entry& entry, StepRows& found) const;
  void add_grads(Entry& entry);
  // Of what this rank's own batches ask, and of what ranks ask of it.
  StepRows& owned_of(Entry& entry) const;
  void ask_owners();
  void answer_and_take();
  void take_gradients();
  bool is_own(int64_t id) const;

  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<LookupUse> uses_;
  std::vector<std::unique_ptr<Lookups>> lookups_;
  std::optional<RowExchange> exchange_;  // of several ranks
  Lookup how_ = Lookup::kRead;
  bool has_samples_ = false;
  size_t num_grads_due_ = 0;  // of the microbatch
  std::string non_finite_;
};

}  // namespace tenon
