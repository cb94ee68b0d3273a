// SPDX-License-Identifier: Apache-2.0
//
// What the parts of a run borrow, for tests of one part at a time: a checked recipe, plugins, one
// rank, the CPU; and what the run logs meanwhile.
#pragma once

#include "host/plugin/registry.hpp"
#include "host/process/process.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/run/run_context.hpp"
#include "host/train/run_plan/plan_run.hpp"

#include <filesystem>
#include <memory>
#include <string>

#include "tests/support/scratch_folder.hpp"

namespace tenon {

// The process of the test program, as main() of the host has it. All that exist at a time share one
// object.
std::shared_ptr<Process> test_process();

class RunRig {
 public:
  // A small classification of six steps, changed by a JSON merge patch and then by `--set` values.
  explicit RunRig(const std::string& patch = "{}",
                  RunRequest request = {},
                  const std::vector<std::string>& sets = {});
  ~RunRig();
  RunRig(const RunRig&) = delete;
  RunRig& operator=(const RunRig&) = delete;

  Process& process() { return *process_; }
  const Recipe& recipe() const { return recipe_; }
  PluginRegistry& registry() { return registry_; }
  RunRequest& request() { return request_; }  // its run folder is the one below, and it is quiet
  const RunContext& context() const { return context_; }
  // Plans a run of the recipe.
  std::unique_ptr<const RunPlan> plan() const { return plan_run(plan_context_, request_); }
  std::filesystem::path run_dir() const { return folder_.path() / "run"; }
  std::filesystem::path folder() const { return folder_.path(); }
  // What was logged since the rig was made, unless a run has attached its own file.
  std::string log() const;

 private:
  std::shared_ptr<Process> process_ = test_process();
  ScratchFolder folder_;
  PluginRegistry registry_;
  Recipe recipe_;
  RunRequest request_;
  RunPlatform platform_;
  std::unique_ptr<World> world_;
  RankGroups ranks_;
  ComponentFactory factory_;
  RunContext context_;
  PlanContext plan_context_ = context_.for_plans();
};

}  // namespace tenon
