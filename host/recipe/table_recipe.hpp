// SPDX-License-Identifier: Apache-2.0
//
// The section "tables" of a recipe.
#pragma once

#include "host/recipe/component_use.hpp"
#include "host/recipe/resume_rule.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

enum class TableDtype { kFp32, kBf16, kFp16 };
enum class RowInitKind { kZeros, kOnes, kConstant, kNormal, kTruncNormal, kUniform };
enum class RowsToEvict { kLeastRecent, kLeastFrequent };

struct RowInitRecipe {
  RowInitKind kind = RowInitKind::kZeros;
  double value = 0;
  double mean = 0;
  double deviation = 0.01;
  double low = -0.01;
  double high = 0.01;

  template <class Section>
  static void bind(Section& s) {
    s.choice("type",
             &RowInitRecipe::kind,
             {{"zeros", RowInitKind::kZeros},
              {"ones", RowInitKind::kOnes},
              {"constant", RowInitKind::kConstant},
              {"normal", RowInitKind::kNormal},
              {"trunc_normal", RowInitKind::kTruncNormal},
              {"uniform", RowInitKind::kUniform}})
        .required()
        .doc("distribution of each element; drawn from seed, table, id and element only");
    s.key("value", &RowInitRecipe::value).doc("value of constant");
    s.key("mean", &RowInitRecipe::mean).doc("mean of normal and trunc_normal");
    s.key("deviation", &RowInitRecipe::deviation)
        .min(0)
        .doc("standard deviation of normal and trunc_normal; the latter is cut at two of them");
    s.key("low", &RowInitRecipe::low).doc("lower bound of uniform, inclusive");
    s.key("high", &RowInitRecipe::high).doc("upper bound of uniform, exclusive");
  }
};

struct AdmitRecipe {
  std::int64_t count = 1;
  double probability = 1;

  template <class Section>
  static void bind(Section& s) {
    s.key("count", &AdmitRecipe::count)
        .min(1)
        .max(1000000000)
        .doc("occurrences in training before an id gets a row");
    s.key("probability", &AdmitRecipe::probability)
        .above(0)
        .max(1)
        .doc("probability that an occurrence counts");
  }
};

struct EvictRecipe {
  std::optional<std::int64_t> unseen_steps;
  std::optional<std::int64_t> min_count;
  std::optional<std::int64_t> max_rows;
  RowsToEvict policy = RowsToEvict::kLeastRecent;

  template <class Section>
  static void bind(Section& s) {
    s.key("unseen_steps", &EvictRecipe::unseen_steps)
        .count()
        .doc("steps without an update after which a row is evicted; null: never");
    s.key("min_count", &EvictRecipe::min_count)
        .count()
        .doc("evict by unseen_steps only rows with fewer occurrences than this; null: all");
    s.key("max_rows", &EvictRecipe::max_rows)
        .count()
        .doc("largest number of rows on a rank; policy selects rows to evict; null: no limit");
    s.choice("policy",
             &EvictRecipe::policy,
             {{"least_recent", RowsToEvict::kLeastRecent},
              {"least_frequent", RowsToEvict::kLeastFrequent}})
        .doc("rows to evict first beyond max_rows");
  }
};

// A table, or the defaults of all tables that a pattern matches. An absent key has its value from a
// pattern, else from the model, else the default in its doc.
struct TableRecipe {
  std::string name;                   // with '*' or '?': a pattern
  std::vector<std::string> features;  // names or patterns of the model's tables; empty: `name`
  std::optional<std::int64_t> dim;
  std::optional<TableDtype> dtype;
  std::optional<ComponentUse> optimizer;
  std::optional<RowInitRecipe> init;
  std::optional<AdmitRecipe> admit;
  std::optional<EvictRecipe> evict;
  std::optional<std::int64_t> bytes;
  std::optional<double> missing;
  std::optional<std::int64_t> padding_id;
  std::optional<double> clip_row_norm;
  std::optional<double> lr_factor;

  template <class Section>
  static void bind(Section& s) {
    s.doc("a table, or the defaults of all tables that the pattern matches");
    s.key("features", &TableRecipe::features)
        .non_empty()
        .min_items(1)
        .absent()
        .doc("names or patterns of the model's tables stored in this one; its own name if absent");
    s.key("dim", &TableRecipe::dim)
        .min(1)
        .max(65536)
        .absent()
        .doc("elements of a row; must equal the model's");
    s.choice(
         "dtype",
         &TableRecipe::dtype,
         {{"fp32", TableDtype::kFp32}, {"bf16", TableDtype::kBf16}, {"fp16", TableDtype::kFp16}})
        .absent()
        .doc("dtype of the rows; fp32 if absent. Optimizer state is always fp32");
    s.key("optimizer", &TableRecipe::optimizer)
        .component("sparse_optimizer")
        .absent()
        .doc("optimizer of the rows that a step uses")
        .resume_below("/options", resume::kUpdates);
    s.key("init", &TableRecipe::init)
        .absent()
        .doc("initialization of new rows; the model's if absent")
        .resume(ChangeClass::kWarns, "later rows are initialized differently");
    s.key("admit", &TableRecipe::admit)
        .absent()
        .doc("ids that get a row; all other ids read as missing")
        .resume(resume::kRows);
    s.key("evict", &TableRecipe::evict)
        .min_keys(1)
        .absent()
        .doc("rows to remove")
        .resume(resume::kRows);
    s.size("bytes", &TableRecipe::bytes)
        .absent()
        .doc(
            "memory limit of the table on one rank, in bytes or as in \"8GiB\"; beyond it the run "
            "fails")
        .resume(resume::kFree);
    s.key("missing", &TableRecipe::missing)
        .absent()
        .doc("value of each element for an id without a row; 0 if absent")
        .resume(resume::kRows);
    s.key("padding_id", &TableRecipe::padding_id)
        .absent()
        .doc("id that pads lists: it never gets a row, reads as `missing` and is not trained")
        .resume(resume::kRows);
    s.key("clip_row_norm", &TableRecipe::clip_row_norm)
        .above(0)
        .absent()
        .doc("largest norm of a row's gradient")
        .resume(resume::kUpdates);
    s.key("lr_factor", &TableRecipe::lr_factor)
        .min(0)
        .absent()
        .doc("factor on the optimizer's learning rate")
        .resume(resume::kUpdates);
  }
};

}  // namespace tenon
