// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/recipe_tables.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/model/positions_axis.hpp"
#include "host/tensor/philox.hpp"
#include "host/text/formatted.hpp"
#include "host/text/name_pattern.hpp"
#include "host/train/components/optimizer_groups.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace tenon {
namespace {

bool is_pattern(const std::string& name) {
  return name.find_first_of("*?") != std::string::npos;
}

std::string pointer_of(const TableRecipe& table) {
  return "/tables/" + table.name;
}

std::string name_list_of(const ModelGraph& graph) {
  std::vector<std::string> names;
  for (const ModelValue& value : graph.values) {
    if (value.lookup.has_value() && std::ranges::find(names, value.lookup->table) == names.end()) {
      names.push_back(value.lookup->table);
    }
  }
  std::string text;
  for (size_t i = 0; i < names.size() && i < 8; ++i) {
    text += (i > 0 ? ", '" : "'") + names[i] + "'";
  }
  return names.empty() ? "none" : text + (names.size() > 8 ? ", ..." : "");
}

// Returns the name of the table that stores a table of the model: the recipe's table whose
// "features" list or match it, otherwise its own name.
std::string table_for(const Recipe& recipe, const std::string& model_table) {
  for (const TableRecipe& table : recipe.tables) {
    if (std::ranges::find(table.features, model_table) != table.features.end()) {
      return table.name;
    }
  }
  for (const TableRecipe& table : recipe.tables) {
    for (const std::string& feature : table.features) {
      if (is_pattern(feature) && matches_pattern(feature, model_table)) {
        return table.name;
      }
    }
  }
  return model_table;
}

// The recipe's entries for a table: its own entry first, then matching patterns, longest first.
class Said {
 public:
  Said(const Recipe& recipe, const std::string& name) {
    for (const TableRecipe& table : recipe.tables) {
      if (table.name == name || (is_pattern(table.name) && matches_pattern(table.name, name))) {
        entries_.push_back(&table);
      }
    }
    std::ranges::stable_sort(entries_, [&](const TableRecipe* a, const TableRecipe* b) {
      return std::pair(a->name == name, a->name.size()) >
             std::pair(b->name == name, b->name.size());
    });
  }

  // Returns the first entry that sets `member`, or null.
  template <class T>
  const TableRecipe* who(std::optional<T> TableRecipe::*member) const {
    for (const TableRecipe* entry : entries_) {
      if ((entry->*member).has_value()) {
        return entry;
      }
    }
    return nullptr;
  }
  template <class T>
  std::optional<T> value(std::optional<T> TableRecipe::*member) const {
    const TableRecipe* const entry = who(member);
    return entry != nullptr ? entry->*member : std::nullopt;
  }

 private:
  std::vector<const TableRecipe*> entries_;
};

RowInit init_of(const RowInitRecipe& recipe) {
  switch (recipe.kind) {
    case RowInitKind::kZeros:
      return {TENON_INIT_ZEROS, 0, 0};
    case RowInitKind::kOnes:
      return {TENON_INIT_ONES, 0, 0};
    case RowInitKind::kConstant:
      return {TENON_INIT_CONSTANT, recipe.value, 0};
    case RowInitKind::kNormal:
      return {TENON_INIT_NORMAL, recipe.mean, recipe.deviation};
    case RowInitKind::kTruncNormal:
      return {TENON_INIT_TRUNC_NORMAL, recipe.mean, recipe.deviation};
    case RowInitKind::kUniform:
      break;
  }
  return {TENON_INIT_UNIFORM, recipe.low, recipe.high};
}

uint32_t dtype_of(TableDtype dtype) {
  return dtype == TableDtype::kFp32   ? TENON_F32
         : dtype == TableDtype::kBf16 ? TENON_BF16
                                      : TENON_F16;
}

PlannedTable plan_table(const Recipe& recipe, const std::string& name, const ModelLookup& lookup) {
  const Said said(recipe, name);
  PlannedTable table;
  TableSpec& spec = table.spec;
  spec.name = name;
  spec.dim = static_cast<uint32_t>(lookup.dim);
  spec.seed = mix_seeds(recipe.seed, stream_of("table " + name));
  spec.init = {lookup.init, lookup.init_a, lookup.init_b};
  if (const auto init = said.value(&TableRecipe::init)) {
    spec.init = init_of(*init);
  }
  spec.value_dtype = dtype_of(said.value(&TableRecipe::dtype).value_or(TableDtype::kFp32));
  spec.max_bytes = said.value(&TableRecipe::bytes);
  spec.missing = said.value(&TableRecipe::missing).value_or(0.0);
  spec.padding_id = said.value(&TableRecipe::padding_id);
  if (const auto admit = said.value(&TableRecipe::admit)) {
    spec.admit = {.count = admit->count, .probability = admit->probability};
  }
  if (const auto evict = said.value(&TableRecipe::evict)) {
    spec.evict = {.unseen_steps = evict->unseen_steps,
                  .min_count = evict->min_count,
                  .max_rows = evict->max_rows,
                  .policy = evict->policy == RowsToEvict::kLeastRecent
                                ? EvictPolicy::kLeastRecent
                                : EvictPolicy::kLeastFrequent};
  }
  table.clip_row_norm = said.value(&TableRecipe::clip_row_norm);
  const TableRecipe* const entry = said.who(&TableRecipe::optimizer);
  if (entry == nullptr) {
    throw Error("table.no_optimizer",
                "the model looks up rows in table '" + name +
                    "', but the recipe has no optimizer for them; set /tables/" + name +
                    "/optimizer, or one for all tables with \"tables\": {\"*\": {\"optimizer\": "
                    "{\"type\": \"adagrad\"}}}");
  }
  table.optimizer = *entry->optimizer;
  const auto lr = number_option(table.optimizer.options, "/lr");
  if (!lr.has_value()) {
    throw Error("optim.no_lr",
                table.optimizer.place + ": " + table.optimizer.pointer + ": optimizer '" +
                    table.optimizer.type +
                    "' has no numeric option \"lr\", so it cannot be scheduled");
  }
  table.lr = *lr * said.value(&TableRecipe::lr_factor).value_or(1.0);
  return table;
}

void check_dim(const Recipe& recipe, const PlannedTable& table, const ModelValue& value) {
  const Said said(recipe, table.spec.name);
  if (value.lookup->dim != table.spec.dim) {
    throw Error(
        "table.mismatch",
        formatted("table '{}' would have rows of {} and, for the value '{}' of the model, of {} "
                  "elements; lookups of one table need one size",
                  table.spec.name,
                  table.spec.dim,
                  value.name,
                  value.lookup->dim));
  }
  const TableRecipe* const entry = said.who(&TableRecipe::dim);
  if (entry != nullptr && *entry->dim != value.lookup->dim) {
    throw Error(
        "table.mismatch",
        formatted("{}: {}/dim is {}, but the model's value '{}' is made of rows of {} elements "
                  "of table '{}'; change one of them",
                  recipe.file,
                  pointer_of(*entry),
                  *entry->dim,
                  value.name,
                  value.lookup->dim,
                  table.spec.name));
  }
}

void check_init(const Recipe& recipe, const PlannedTable& table, const ModelValue& value) {
  const ModelLookup& lookup = *value.lookup;
  const bool is_said = Said(recipe, table.spec.name).who(&TableRecipe::init) != nullptr;
  if (!is_said && table.spec.init != RowInit{lookup.init, lookup.init_a, lookup.init_b}) {
    throw Error("table.mismatch",
                "the model gives different initial values for new rows of table '" +
                    table.spec.name + "', for example in the value '" + value.name +
                    "'; set /tables/" + table.spec.name + "/init");
  }
}

void check_all_used(const Recipe& recipe,
                    const ModelGraph& graph,
                    const std::vector<PlannedTable>& tables) {
  for (const TableRecipe& entry : recipe.tables) {
    const bool is_used = std::ranges::any_of(tables, [&](const PlannedTable& table) {
      return is_pattern(entry.name) ? matches_pattern(entry.name, table.spec.name)
                                    : entry.name == table.spec.name;
    });
    if (!is_used) {
      throw Error("table.unknown",
                  recipe.file + ": " + pointer_of(entry) +
                      (is_pattern(entry.name) ? " matches no table" : " is not a table") +
                      " of this model; it looks up " + name_list_of(graph));
    }
    for (const std::string& feature : entry.features) {
      const bool is_known = std::ranges::any_of(graph.values, [&](const ModelValue& value) {
        return value.lookup.has_value() && matches_pattern(feature, value.lookup->table);
      });
      if (!is_known) {
        throw Error("table.unknown",
                    recipe.file + ": " + pointer_of(entry) + "/features: '" + feature +
                        "' is not a table of the model; it looks up " + name_list_of(graph));
      }
    }
  }
}

}  // namespace

TablePlan plan_tables(const Recipe& recipe, const ModelGraph& graph) {
  TablePlan plan;
  std::map<std::string, size_t> known;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const ModelValue& value = graph.values[v];
    if (!value.lookup.has_value() || value.users.empty()) {
      continue;
    }
    const ModelLookup& lookup = *value.lookup;
    const std::string name = table_for(recipe, lookup.table);
    const auto [found, is_new] = known.try_emplace(name, plan.tables.size());
    if (is_new) {
      plan.tables.push_back(plan_table(recipe, name, lookup));
    }
    const PlannedTable& table = plan.tables[found->second];
    check_dim(recipe, table, value);
    check_init(recipe, table, value);
    plan.lookups.push_back(
        {.value = value.name,
         .column = lookup.column,
         .table = found->second,
         .pooling = {.kind = lookup.pooling, .length = lookup.length, .dim = lookup.dim},
         .is_over_positions = axis_of_positions(value).has_value()});
    plan.values.push_back(v);
  }
  check_all_used(recipe, graph, plan.tables);
  return plan;
}

}  // namespace tenon
