// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/recipe_tables.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

struct Wanted {
  std::string value;
  std::string table;
  int64_t dim = 4;
  RowInit init = {TENON_INIT_NORMAL, 0, 0.01};
};

ModelGraph lookup_graph(const std::vector<Wanted>& lookups) {
  ModelGraph graph;
  for (const Wanted& wanted : lookups) {
    ModelValue value;
    value.name = wanted.value;
    value.source_kind = TENON_SOURCE_TABLE;
    value.users = {0};
    value.lookup = ModelLookup{.table = wanted.table,
                               .column = wanted.value,
                               .ids = kNoIndex,
                               .pooling = TENON_POOL_SUM,
                               .length = 0,
                               .dim = wanted.dim,
                               .init = wanted.init.kind,
                               .init_a = wanted.init.a,
                               .init_b = wanted.init.b};
    graph.values.push_back(value);
  }
  return graph;
}

TableRecipe named(const std::string& name) {
  TableRecipe table;
  table.name = name;
  return table;
}

ComponentUse optimizer_of(const std::string& options) {
  ComponentUse use;
  use.kind = "sparse_optimizer";
  use.type = "adagrad";
  use.options = options;
  return use;
}

// With an optimizer for all.
Recipe tables_recipe(std::vector<TableRecipe> tables) {
  Recipe recipe;
  recipe.file = "recipe.json";
  TableRecipe all = named("*");
  all.optimizer = optimizer_of(R"({"lr": 0.5})");
  recipe.tables = std::move(tables);
  recipe.tables.push_back(all);
  return recipe;
}

std::string refusal(const Recipe& recipe, const ModelGraph& graph) {
  try {
    plan_tables(recipe, graph);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("each table of the model is one of the run, unless another takes it in", "[train]") {
  TableRecipe item = named("item");
  item.features = {"item_id", "hist*"};
  const TablePlan plan =
      plan_tables(tables_recipe({item}),
                  lookup_graph({{"user", "user"}, {"item_id", "item_id"}, {"history", "history"}}));
  REQUIRE(plan.tables.size() == 2);
  CHECK(plan.tables[0].spec.name == "user");
  CHECK(plan.tables[1].spec.name == "item");
  REQUIRE(plan.lookups.size() == 3);
  CHECK(plan.lookups[1].table == 1);
  CHECK(plan.lookups[2].table == 1);
  CHECK(plan.lookups[2].column == "history");
  CHECK(plan.values == std::vector<uint32_t>{0, 1, 2});
  CHECK(plan.tables[0].lr == 0.5);
  CHECK(plan.tables[0].spec.seed != plan.tables[1].spec.seed);
  CHECK(plan.tables[0].spec.init == RowInit{TENON_INIT_NORMAL, 0, 0.01});
}

TEST_CASE("an entry of the recipe wins over a pattern, and a longer pattern over a shorter one",
          "[train]") {
  TableRecipe all = named("*");
  all.missing = 1;
  all.clip_row_norm = 1;
  all.lr_factor = 2;
  all.optimizer = optimizer_of(R"({"lr": 0.5})");
  TableRecipe users = named("user*");
  users.missing = 2;
  users.clip_row_norm = 2;
  TableRecipe user = named("user_id");
  user.missing = 3;
  user.dtype = TableDtype::kBf16;
  user.bytes = 1000;
  user.admit = AdmitRecipe{.count = 3, .probability = 0.5};
  user.evict = EvictRecipe{.unseen_steps = 7,
                           .min_count = std::nullopt,
                           .max_rows = 9,
                           .policy = RowsToEvict::kLeastFrequent};
  user.init = RowInitRecipe{.kind = RowInitKind::kUniform, .low = -2, .high = 3};
  Recipe recipe;
  recipe.tables = {all, users, user};
  const TablePlan plan =
      plan_tables(recipe, lookup_graph({{"a", "user_id"}, {"b", "user_age"}, {"c", "item"}}));
  REQUIRE(plan.tables.size() == 3);
  CHECK(plan.tables[0].spec.missing == 3);
  CHECK(plan.tables[1].spec.missing == 2);
  CHECK(plan.tables[2].spec.missing == 1);
  CHECK(plan.tables[0].clip_row_norm == 2);
  CHECK(plan.tables[2].clip_row_norm == 1);
  CHECK(plan.tables[0].lr == 1);
  const TableSpec& spec = plan.tables[0].spec;
  CHECK(spec.value_dtype == TENON_BF16);
  CHECK(spec.max_bytes == 1000);
  CHECK(spec.admit.count == 3);
  CHECK(spec.admit.probability == 0.5);
  CHECK(spec.evict.unseen_steps == 7);
  CHECK(spec.evict.max_rows == 9);
  CHECK(spec.evict.policy == EvictPolicy::kLeastFrequent);
  CHECK(spec.init == RowInit{TENON_INIT_UNIFORM, -2, 3});
  CHECK(plan.tables[1].spec.value_dtype == TENON_F32);
}

TEST_CASE("a table that the model does not look up is an error that names those it does",
          "[train]") {
  const ModelGraph graph = lookup_graph({{"u", "user"}, {"i", "item"}});
  CHECK_THAT(refusal(tables_recipe({named("usr")}), graph),
             Catch::Contains("[table.unknown]") && Catch::Contains("/tables/usr") &&
                 Catch::Contains("'user', 'item'"));
  CHECK_THAT(refusal(tables_recipe({named("x*")}), graph), Catch::Contains("matches no table"));
  TableRecipe item = named("item");
  item.features = {"item", "histry"};
  CHECK_THAT(refusal(tables_recipe({item}), graph),
             Catch::Contains("[table.unknown]") && Catch::Contains("'histry'"));
  CHECK_THAT(refusal(tables_recipe({}), lookup_graph({})), Catch::Contains("it looks up none"));
}

TEST_CASE("two sides that say different things of a table are named", "[train]") {
  TableRecipe user = named("user");
  user.dim = 8;
  CHECK_THAT(refusal(tables_recipe({user}), lookup_graph({{"u", "user"}})),
             Catch::Contains("[table.mismatch]") && Catch::Contains("/tables/user/dim is 8") &&
                 Catch::Contains("4 elements"));
  TableRecipe shared = named("shared");
  shared.features = {"a", "b"};
  CHECK_THAT(refusal(tables_recipe({shared}), lookup_graph({{"x", "a", 4}, {"y", "b", 6}})),
             Catch::Contains("[table.mismatch]") && Catch::Contains("'y' of the model, of 6"));
  const ModelGraph unlike =
      lookup_graph({{"x", "a"}, {"y", "b", 4, RowInit{TENON_INIT_ZEROS, 0, 0}}});
  CHECK_THAT(refusal(tables_recipe({shared}), unlike),
             Catch::Contains("[table.mismatch]") && Catch::Contains("/tables/shared/init"));
  shared.init = RowInitRecipe{};
  CHECK(refusal(tables_recipe({shared}), unlike).empty());
}

TEST_CASE("a table without an optimizer, or one without a rate, is refused", "[train]") {
  Recipe recipe;
  const ModelGraph graph = lookup_graph({{"u", "user"}});
  CHECK_THAT(refusal(recipe, graph),
             Catch::Contains("[table.no_optimizer]") && Catch::Contains("/tables/user/optimizer"));
  recipe = tables_recipe({});
  recipe.tables.back().optimizer = optimizer_of("{}");
  CHECK_THAT(refusal(recipe, graph), Catch::Contains("[optim.no_lr]"));
}

}  // namespace
}  // namespace tenon
