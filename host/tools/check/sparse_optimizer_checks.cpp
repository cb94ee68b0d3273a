// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/sparse_optimizer_proxy.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/at_once.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/sparse_rows.hpp"
#include "host/tools/check/subject.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr int64_t kNumRows = 13;
constexpr int64_t kRowSteps = 4;
constexpr std::size_t kRowThreads = 4;

std::vector<int64_t> used_rows() {
  return {11, 0, 7, 3, 12, 5, 6, 1};
}

bool is_used(int64_t row) {
  const std::vector<int64_t> used = used_rows();
  return std::ranges::find(used, row) != used.end();
}

// A sparse optimizer, and rows in one of the dtypes that it supports.
class RowTrial {
 public:
  RowTrial(Subject& subject,
           const CheckedComponent& checked,
           ComponentInstance instance,
           uint32_t value_dtype)
      : subject_(subject),
        name_(checked.name()),
        optimizer_(std::move(instance)),
        frame_(optimizer_.instance().host(), check_exec_base(subject.request())),
        value_dtype_(value_dtype) {}

  std::string name() const { return name_ + " with " + dtype_name(value_dtype_) + " values"; }
  const SparseOptimizerInfo& info() const { return optimizer_.info(); }

  SparseRows start() const {
    std::mt19937_64 generator = subject_.generator();
    return {info(), value_dtype_, kNumRows, generator};
  }

  // The gradients of a step, the same each time.
  CheckedRows update_of(int64_t step) const {
    std::mt19937_64 generator(subject_.request().seed + 1000 + static_cast<uint64_t>(step));
    return SparseRows::random_update(used_rows(), generator);
  }

  void apply(const SparseRows& rows,
             const CheckedRows& update,
             int64_t step,
             const float* found_inf = nullptr) const {
    subject_.note("update of " + name());
    rows.apply(optimizer_, frame_.exec(), update, step, found_inf);
  }
  // By several threads at once: says nothing to the parent.
  void apply_at_once(const SparseRows& rows, const CheckedRows& update, int64_t step) const {
    rows.apply(optimizer_, frame_.exec(), update, step);
  }

  void train(const SparseRows& rows, int64_t first, int64_t last) const {
    for (int64_t step = first; step <= last; ++step) {
      apply(rows, update_of(step), step);
    }
  }

 private:
  Subject& subject_;
  std::string name_;
  SparseOptimizerProxy optimizer_;
  ExecFrame frame_;
  uint32_t value_dtype_;
};

// Returns the first row that differs, or nothing.
std::optional<int64_t> differing_row(const SparseRows& a, const SparseRows& b) {
  for (int64_t row = 0; row < a.num_rows(); ++row) {
    if (a.row_bytes(row) != b.row_bytes(row)) {
      return row;
    }
  }
  return std::nullopt;
}

using RowBody = std::function<void(const RowTrial& trial, Findings& findings)>;

// Calls `body` for each sparse optimizer, with each dtype of values that it supports.
CheckResult for_each_row_trial(Subject& subject,
                               const std::function<void(const CheckedComponent& checked,
                                                        const RowTrial& trial,
                                                        uint32_t value_dtype,
                                                        Findings& findings)>& body) {
  return subject.for_each_instance(
      "sparse_optimizer",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        const at::AutoGradMode no_grad(false);
        subject.note("describe of " + checked.name());
        const RowTrial first(subject, checked, std::move(instance), TENON_F32);
        if (!first.info().runs_on_cpu) {
          findings.add_skipped(checked.name() + " does not run on the CPU");
          return;
        }
        findings.add_examined();
        body(checked, first, TENON_F32, findings);
        if (first.info().narrow != TENON_NARROW_REFUSED) {
          for (const uint32_t dtype : {TENON_BF16, TENON_F16}) {
            const RowTrial narrow(subject, checked, subject.create(checked), dtype);
            body(checked, narrow, dtype, findings);
          }
        }
      });
}

CheckResult for_each_sparse_optimizer(Subject& subject, const RowBody& body) {
  return for_each_row_trial(
      subject, [&](const CheckedComponent&, const RowTrial& trial, uint32_t, Findings& findings) {
        body(trial, findings);
      });
}

// Adds a problem if rows differ from those of one call for all.
void compare_rows(const RowTrial& trial,
                  const SparseRows& expected,
                  const SparseRows& found,
                  const std::string& what,
                  Findings& findings) {
  if (const auto row = differing_row(expected, found)) {
    findings.add_problem(formatted("{} updates row {} to other bits {}", trial.name(), *row, what));
  }
}

// Updates disjoint ranges of rows by several threads at once.
void apply_in_threads(const RowTrial& trial,
                      const SparseRows& rows,
                      const CheckedRows& update,
                      int64_t step) {
  const std::size_t count = update.rows.size();
  run_at_once(kRowThreads, [&](std::size_t i) {
    trial.apply_at_once(
        rows,
        update.part(count * i / kRowThreads, count * (i + 1) / kRowThreads, SparseRows::kDim),
        step);
  });
}

}  // namespace

CheckResult check_row_update(Subject& subject) {
  return for_each_sparse_optimizer(subject, [](const RowTrial& trial, Findings& findings) {
    const SparseRows rows = trial.start();
    const SparseRows before(rows);
    trial.apply(rows, {}, 1);
    if (const auto row = differing_row(before, rows)) {
      findings.add_problem(
          formatted("{} changes row {} in an update of no rows", trial.name(), *row));
    }
    trial.train(rows, 1, kRowSteps);
    for (int64_t row = 0; row < kNumRows; ++row) {
      const bool is_same = before.row_bytes(row) == rows.row_bytes(row);
      if (is_used(row) && is_same) {
        findings.add_problem(
            formatted("{} does not change row {} in {} updates", trial.name(), row, kRowSteps));
      } else if (!is_used(row) && !is_same) {
        findings.add_problem(
            formatted("{} changes row {}, which no update names", trial.name(), row));
      } else if (!rows.is_finite(row)) {
        findings.add_problem(formatted("{} makes row {} non-finite", trial.name(), row));
      }
    }
    if (!rows.is_padding_kept()) {
      findings.add_problem(trial.name() + " writes outside of the fields of rows");
    }
  });
}

CheckResult check_row_independence(Subject& subject) {
  return for_each_sparse_optimizer(subject, [](const RowTrial& trial, Findings& findings) {
    const SparseRows whole = trial.start();
    const SparseRows reversed(whole);
    const SparseRows alone(whole);
    const SparseRows split(whole);
    const SparseRows threaded(whole);
    for (int64_t step = 1; step <= kRowSteps; ++step) {
      const CheckedRows update = trial.update_of(step);
      const std::size_t count = update.rows.size();
      trial.apply(whole, update, step);
      trial.apply(reversed, update.reversed(SparseRows::kDim), step);
      for (std::size_t i = 0; i < count; ++i) {
        trial.apply(alone, update.part(i, i + 1, SparseRows::kDim), step);
      }
      const std::size_t cut = 1 + static_cast<std::size_t>(step) % (count - 1);
      trial.apply(split, update.part(cut, count, SparseRows::kDim), step);
      trial.apply(split, update.part(0, cut, SparseRows::kDim), step);
      apply_in_threads(trial, threaded, update, step);
    }
    compare_rows(trial, whole, reversed, "if they come in another order", findings);
    compare_rows(trial, whole, alone, "if each row has a separate call", findings);
    compare_rows(trial, whole, split, "if the rows are split over two calls", findings);
    compare_rows(trial, whole, threaded, "if four threads update different rows", findings);
  });
}

CheckResult check_row_resume(Subject& subject) {
  return for_each_row_trial(
      subject,
      [&](const CheckedComponent& checked,
          const RowTrial& trial,
          uint32_t value_dtype,
          Findings& findings) {
        const SparseRows whole = trial.start();
        trial.train(whole, 1, kRowSteps);
        const SparseRows saved(whole);
        trial.train(whole, kRowSteps + 1, 2 * kRowSteps);
        const RowTrial resumed(subject, checked, subject.create(checked), value_dtype);
        resumed.train(saved, kRowSteps + 1, 2 * kRowSteps);
        compare_rows(trial, whole, saved, "in a new instance of itself", findings);
      });
}

CheckResult check_row_found_inf(Subject& subject) {
  return for_each_sparse_optimizer(subject, [](const RowTrial& trial, Findings& findings) {
    const SparseRows rows = trial.start();
    trial.train(rows, 1, 1);
    const SparseRows before(rows);
    const float found = 1;
    trial.apply(rows, trial.update_of(2), 1, &found);
    compare_rows(trial, before, rows, "although found_inf is 1", findings);
    const float none = 0;
    trial.apply(rows, trial.update_of(2), 2, &none);
    if (!differing_row(before, rows).has_value()) {
      findings.add_problem(trial.name() + " changes nothing although found_inf is 0");
    }
  });
}

CheckResult check_row_non_finite(Subject& subject) {
  return for_each_sparse_optimizer(subject, [](const RowTrial& trial, Findings& findings) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const SparseRows expected = trial.start();
      const SparseRows rows(expected);
      CheckedRows update = trial.update_of(1);
      trial.apply(expected, update, 1);
      update.grads[0] = bad;
      trial.apply(rows, update, 1);
      for (int64_t row = 0; row < kNumRows; ++row) {
        if (row != update.rows[0] && expected.row_bytes(row) != rows.row_bytes(row)) {
          findings.add_problem(formatted("a gradient of {} for row {} changes row {} of {}",
                                         bad,
                                         update.rows[0],
                                         row,
                                         trial.name()));
        }
      }
    }
  });
}

}  // namespace tenon
