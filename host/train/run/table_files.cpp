// SPDX-License-Identifier: Apache-2.0

#include "host/train/run/table_files.hpp"

#include "host/distributed/ranks/mesh.hpp"
#include "host/embedding/row_folder.hpp"
#include "host/embedding/row_values.hpp"
#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/log/log.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/plugin/sparse_optimizer_proxy.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/components/recipe_model.hpp"
#include "host/train/components/recipe_tables.hpp"

#include <cstring>
#include <filesystem>

namespace tenon {
namespace {

std::string name_list(const std::vector<std::string>& names) {
  return names.empty() ? "none" : joined(names);
}

}  // namespace

void import_tables(TableSet& tables,
                   const std::string& folder,
                   const std::function<bool(int64_t)>& is_own) {
  bool has_any = false;
  for (size_t i = 0; i < tables.size(); ++i) {
    Table& table = tables.table(i);
    const std::string& name = table.spec().name;
    std::vector<std::filesystem::path> files;
    if (has_row_files(folder, name)) {
      files = row_files(folder, name);
      has_any = true;
    } else {
      log_info("table " + name + " starts empty: " + folder + " has no rows of it");
    }
    int64_t rows = 0;
    for (const std::filesystem::path& file : files) {
      rows += read_rows(table, file, is_own);
    }
    if (!files.empty()) {
      log_info(formatted("table {} starts with {} rows of {}", name, rows, folder));
    }
  }
  if (!has_any) {
    throw Error("table.bad_file",
                folder +
                    " has rows of none of the run's tables; give the folder that "
                    "--export-tables wrote, whose files are called TABLE.parquet");
  }
}

void export_tables(const TableSet& tables,
                   const std::string& folder,
                   RowParts parts,
                   int64_t rank,
                   int64_t num_ranks) {
  try {
    make_folders(folder);
  } catch (const DiskError& error) {
    throw Error("table.bad_file",
                "the folder " + folder + " cannot be made: " + std::strerror(error.number()) +
                    "; give one that may be written to");
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    const Table& table = tables.table(i);
    const std::filesystem::path file = row_file(folder, table.spec().name, rank, num_ranks);
    write_rows(table, parts, file);
    log_info(formatted(
        "{} rows of table {} are in {}", table.num_rows(), table.spec().name, file.string()));
  }
}

std::vector<RowColumn> first_row(const Recipe& recipe,
                                 PluginRegistry& registry,
                                 const std::string& table,
                                 int64_t id) {
  const Mesh mesh;
  const tenon_mesh mesh_view = mesh.view();
  ComponentFactory factory(registry, recipe, mesh_view);
  ModelProxy model(factory.create(recipe.model.use, "model"));
  const TablePlan plan = plan_tables(recipe, recipe_model(model, recipe.model));
  std::vector<std::string> names;
  for (const PlannedTable& planned : plan.tables) {
    if (planned.spec.name != table) {
      names.push_back(planned.spec.name);
      continue;
    }
    std::vector<float> values(planned.spec.dim);
    fill_row_values(planned.spec.init, planned.spec.seed, id, values);
    const SparseOptimizerProxy optimizer(factory.create(planned.optimizer, "tables/" + table));
    std::vector<RowColumn> row = {{"vector", {values.begin(), values.end()}, true}};
    for (const RowSlotSpec& slot : optimizer.info().slots) {
      const bool is_scalar = slot.shape == TENON_ROW_SLOT_SCALAR;
      row.push_back({"slot." + slot.name,
                     std::vector<double>(is_scalar ? 1 : planned.spec.dim, slot.init),
                     !is_scalar});
    }
    return row;
  }
  throw Error("table.unknown",
              "the model has no table '" + table + "'; its tables: " + name_list(names));
}

}  // namespace tenon
