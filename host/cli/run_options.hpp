// SPDX-License-Identifier: Apache-2.0
//
// Options of a run in a run folder, which training and --eval-only share.
// Threads: any.
#pragma once

#include "host/cli/command_line.hpp"
#include "host/terminal/given_options.hpp"
#include "host/terminal/option.hpp"

namespace tenon {

inline constexpr Option kRunDirOption{
    "run-dir",
    "DIR",
    "run folder for log, metrics, recipe and checkpoints; default\n"
    "runs/NAME-TIME. Without --resume, DIR also means --resume auto"};
inline constexpr Option kResumeOption{
    "resume",
    "auto|none|PATH",
    "auto: resume from the newest checkpoint of --run-dir, else of the\n"
    "newest run of that name. PATH: from that checkpoint or run folder.\n"
    "none: start over"};
inline constexpr Option kImportTablesOption{
    "import-tables", "DIR", "initialize the rows of each table from DIR/TABLE.parquet"};

inline constexpr Option kCheckPluginsOption{
    "check-plugins",
    "",
    "train with checked calls: around each call of a plugin, check that it\n"
    "keeps the rules of threads and handles, the settings of the process, and\n"
    "tensors that it may only read; slow. --check-plugin FILE checks more"};

// Reads --run-dir, --resume, --import-tables and --check-plugins. The default of --resume is not
// set here.
void read_run_options(const GivenOptions& given, CommandLine& line);

}  // namespace tenon
