// SPDX-License-Identifier: Apache-2.0
//
// The tables of a run. Looks up the rows that a model reads, sums gradients by row over a step's
// microbatches, and has each table's optimizer update the rows that have gradients. It does not
// know the model: the caller assigns lookups to values.
//
//   begin, rows ..., take_grad ...                      once per microbatch
//   send_gradients, finish_gradients, update, end_step  once per step
//
// With several ranks, the hash of an id determines the rank that owns its row. For each microbatch,
// a rank requests rows from their owners. Once per step, it sends the owners the sums of its
// gradients, which they add up in the order of ranks. All ranks make the same calls in the same
// order, even without samples.
//
// Invariants: In a step, each row is read once and updated once. The gradients of a row are summed
// in the order of microbatches, lookups and entries. Only training lookups change a table. The
// result of a row does not depend on other rows or on threads.
// Threads: the train thread; work is divided among the compute threads.
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

// A table and its optimizer. The optimizer determines the slots and the master of `spec`.
struct TableUse {
  TableSpec spec;
  SparseOptimizerProxy optimizer;
  double lr = 0;                             // learning rate, before the schedule's factor
  std::optional<double> clip_row_norm = {};  // maximum norm of a row's gradient
};

// Metrics of a table since the last record.
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
  // Rows are sharded over `ranks`, which is borrowed for exclusive use; null: only this rank.
  // Errors  table.narrow_values if an optimizer cannot update values of the dtype; table.bad_spec
  TableSet(std::vector<TableUse> tables,
           std::vector<LookupUse> lookups,
           const ExecBase& base,
           Group* ranks = nullptr);
  ~TableSet() override;
  TableSet(const TableSet&) = delete;
  TableSet& operator=(const TableSet&) = delete;

  // Checks that a dataset has the columns that lookups read.
  // Errors  table.column_missing, table.column_mismatch: names lookup, column and the problem
  static void check_fields(const std::vector<LookupUse>& lookups,
                           const std::vector<FieldInfo>& fields,
                           const std::string& dataset) {
    check_lookup_columns(lookups, fields, dataset);
  }

  size_t size() const { return entries_.size(); }
  const Table& table(size_t i) const;
  Table& table(size_t i);

  // kPreview reads the rows that a later kTrain pass of the step will read, with the initial values
  // of rows that this pass will insert. The microbatches are previewed in the order in which they
  // are trained, all before the first kTrain pass of the step.
  enum class Lookup { kTrain, kRead, kPreview };
  // The lookups of one microbatch. Passes of kTrain may exist at the same time; there is one other
  // pass at a time.
  class Pass {
   public:
    // Returns the value of lookup `l`; undefined on a rank without samples. Call once. `ids` is
    // read only if the lookup has no column.
    // Shapes  as in model.h, fp32
    // Errors  as TableSet::begin
    at::Tensor rows(size_t l, const at::Tensor& ids);
    // Takes the gradient of that value; undefined if there is none. Call once.
    void take_grad(size_t l, const at::Tensor& grad);

   private:
    friend class TableSet;
    struct Value {
      bool is_open = false;  // its ids are known
      LookupIds ids;
      std::vector<uint32_t> positions;  // by entry
      std::vector<int32_t> chosen;      // for TENON_POOL_MAX
      at::Tensor grad;
    };
    Pass(TableSet& tables, Lookup how, bool has_samples)
        : tables_(tables), how_(how), has_samples_(has_samples), values_(tables.uses_.size()) {}

    TableSet& tables_;
    const Lookup how_;
    const bool has_samples_;
    size_t num_grads_due_ = 0;
    std::vector<Value> values_;  // by lookup
  };
  // Starts a microbatch, and looks up its columns. `batch` is null on a rank without samples.
  // Errors  table.bad_ids: invalid ids, weights or offsets, such as decreasing offsets; table.full
  std::unique_ptr<Pass> begin(const Batch* batch, const CallPoint& point, Lookup how);

  // Starts sending the gradients of the step to the owners of the rows. Call after all take_grad.
  void send_gradients();
  // Waits for the gradients from other ranks, multiplies all gradients by `scale`, and clips them.
  void finish_gradients(double scale);
  // "" if the gradients are finite; else the first one that is not: "the gradient of row 42 of
  // table 'user'". Valid from finish_gradients to end_step.
  const std::string& non_finite() const { return non_finite_; }

  // Updates the rows that have a gradient, with learning rates lr * factor.
  // Errors  plugin.failed
  void update(double factor, const CallPoint& point);
  // Ends the step, updated or skipped: clears its gradients, and lets tables evict rows.
  void end_step(uint64_t step);

  std::vector<TableMetrics> take_metrics();
  int64_t num_bytes() const;

  // Stateful, between steps. Saves each table and its number of updates below the table's name.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;

  // Loads this rank's rows of a saved table into table `i`, as take_saved_rows does, and with
  // RowParts::kAll also its number of updates. Returns the number of rows. All ranks make the same
  // call.
  int64_t take_rows(
      size_t i, const StateTree& tree, const std::string& below, RowParts parts, int64_t step);

 private:
  struct Entry;

  template <class Call>
  void for_each_table(Call call);
  static StepRows& rows_of(Entry& entry, Lookup how);
  void find_rows(Entry& entry, Lookup how, StepRows& found) const;
  void add_grads(Entry& entry, Pass& pass);
  // rows_of() has the rows for this rank's batches; owned_of() the rows that ranks request from it.
  static StepRows& owned_of(Entry& entry, Lookup how);
  void ask_owners(Lookup how);
  void answer_and_take();
  void take_gradients();
  bool is_own(int64_t id) const;

  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<LookupUse> uses_;
  std::optional<RowExchange> exchange_;  // if there are several ranks
  Lookup asked_how_ = Lookup::kRead;     // of the request under way
  std::string non_finite_;
};

}  // namespace tenon
