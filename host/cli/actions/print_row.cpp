// SPDX-License-Identifier: Apache-2.0
//
// --table: prints one row of a table, from exported files or as the recipe initializes it.
#include "host/cli/all_actions.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/used_recipe.hpp"
#include "host/terminal/print_output.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/tools/inspect/show_row.hpp"
#include "host/train/run/table_files.hpp"

#include <array>
#include <cstdint>
#include <limits>

namespace tenon {
namespace {

constexpr std::array kPrintRowOptions = {kRecipeOption,
                                         kPluginDirOption,
                                         kSetOption,
                                         kDeviceOption,
                                         kLogLevelOption,
                                         kNoVetCacheOption,
                                         kTrustOption,
                                         kAllowWritableOption,
                                         Option{"id", "N", "id of the row; required"},
                                         Option{"from", "DIR", "folder that --export-tables wrote"},
                                         Option{"json", "", "print JSON"}};

void read_print_row(const GivenOptions& given, CommandLine& line) {
  line.table = given.value_of("table");
  if (!given.has("id")) {
    fail_usage("--table needs the id of a row: --id N");
  }
  line.row_id = read_whole("id",
                           given.value_of("id"),
                           std::numeric_limits<std::int64_t>::min(),
                           std::numeric_limits<std::int64_t>::max(),
                           "a whole number of 64 bits");
  line.rows_from = given.value_of("from");
  if (line.rows_from.empty()) {
    read_recipe_options(given, line);
    return;
  }
  if (given.has("recipe")) {
    fail_usage(
        "--from and --recipe contradict each other: one prints an exported row, the other its "
        "initial values; give one of them");
  }
  read_plugin_options(given, line);
}

ExitCode run_print_row(const CommandLine& line, const Invocation& invocation) {
  const RowTextForm form = line.is_json ? RowTextForm::kJson : RowTextForm::kLines;
  if (!line.rows_from.empty()) {
    print_output(exported_row_text(line.rows_from, line.table, line.row_id, form));
    return ExitCode::kDone;
  }
  const UsedRecipe used = use_recipe(line, invocation);
  print_output(row_text({.table = line.table, .id = line.row_id, .source = "as it starts"},
                        first_row(used.recipe, *used.plugins, line.table, line.row_id),
                        form));
  return ExitCode::kDone;
}

}  // namespace

const Action kShowRowAction = {
    .verb = "show-row",
    .option = {"table",
               "NAME",
               "print one row of a table: from exported files with --from, its\n"
               "initial values with --recipe"},
    .options = kPrintRowOptions,
    .read = read_print_row,
    .run = run_print_row};

}  // namespace tenon
