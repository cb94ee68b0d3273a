// SPDX-License-Identifier: Apache-2.0
//
// The files from which a run reads data, tokenizers and models: records for checkpoints, and their
// comparison on a resume.
// Invariant: all ranks have the same records. Rank 0 hashes the files.
// Threads: [main]; agree_on_sources() is a collective call.
#pragma once

#include "host/checkpoint/source_record.hpp"
#include "host/data/data_stream.hpp"
#include "host/distributed/collectives/group.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/run_plan/run_plan.hpp"

#include <string>
#include <vector>

namespace tenon {

// The files of a component that does not read windows, as this rank sees them.
struct ListedSource {
  SourceRecord record;                  // without hashes of local files; names are whole
  std::vector<std::string> paths = {};  // of the local files to hash; "" for other files
};

// Lists the files of all components that list theirs: datasets of training and evaluation,
// tokenizers and other components inside options, and models. Test sets are not listed, since they
// are read at the end of the run only.
//
// Errors   errors of the components
std::vector<ListedSource> list_sources(const RunPlan& plan);

// Returns the records with hashes.
//
// Errors   data.differs if ranks see other names or sizes
std::vector<SourceRecord> agree_on_sources(const std::vector<ListedSource>& listed, Group& ranks);

// A component whose files are not those of a checkpoint.
struct SourceChange {
  std::string place;
  std::string what;  // "a.csv has 90 bytes (expected 100)"
};

// Compares the records of components that both have.
std::vector<SourceChange> source_changes(const std::vector<SourceRecord>& then,
                                         const std::vector<SourceRecord>& now);

// Logs changes that `on_change` accepts, on rank 0, and refuses others. `where` names the
// checkpoint.
//
// Errors   data.changed
void judge_changes(const std::vector<SourceChange>& changes,
                   const std::string& where,
                   OnDataChange on_change,
                   bool is_first);

// Records the files of each window of a dataset, and compares those of the window in which a
// checkpoint was taken. `set` is borrowed, and has windows.
WindowRecorder window_recorder(const RunDataset& set, OnDataChange on_change, bool is_first);

}  // namespace tenon
