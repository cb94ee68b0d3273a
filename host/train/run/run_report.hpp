// SPDX-License-Identifier: Apache-2.0
//
// Reports of a run: its header at the start, its last line and summary.json at the end.
#pragma once

#include "host/distributed/ranks/rank_role.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/reported_component.hpp"
#include "host/train/run_state/outcome.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// A plugin file that the run has loaded.
struct ReportedPlugin {
  std::string id;
  std::string version;
  std::string file;
  std::string hash;  // "sha256:" and 64 digits
};

struct RunReport {
  const Recipe& recipe;
  std::string version;  // of the host
  std::string torch_version;
  std::string device;  // "2 threads, AVX512"
  std::string run_dir;
  std::string command_line;
  RankRole role = {};
  int64_t num_parameters = 0;
  std::vector<ReportedComponent> components;
  std::map<std::string, uint64_t> device_waits;  // waits for the GPU, by plugin id
  std::map<std::string, int64_t> live_handles;   // tensors that plugins hold at the end, by id
  std::vector<ReportedPlugin> plugins = {};
};

std::string header_text(const RunReport& report);
// Returns "done: reached 300 steps in 28 s; eval/loss 1.8031; runs/quickstart-20261121-101500".
std::string last_line(const RunReport& report, const Outcome& outcome);
// Returns the text of summary.json.
std::string summary_json(const RunReport& report, const Outcome& outcome);

}  // namespace tenon
