// SPDX-License-Identifier: Apache-2.0
//
// The files that a component reads (contract: tenon/draft/source_files.h), or that a tokenizer
// passes to other programs.
// Threads: [main].
#pragma once

#include <tenon/dataset.h>

#include "host/plugin/instance.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct SourceFile {
  std::string name = {};     // as users know it
  std::string path = {};     // local file; "": the host cannot read it
  std::string version = {};  // differs if the content does; "": unknown
  int64_t size = -1;         // bytes; -1: unknown, or that of the local file
  bool name_counts = false;  // the name is part of the data
};

// Returns the files in the order in which the component reads them; none if it does not list them.
// A tokenizer that has no list, but files for other programs, has these, with a hash as version.
// `window` is the open window of a dataset, whose files are wanted; null: all files.
//
// Errors   plugin.missing_interface, plugin.bad_result, PluginError
std::optional<std::vector<SourceFile>> source_files_of(const ComponentInstance& instance,
                                                       const tenon_window* window = nullptr);

}  // namespace tenon
