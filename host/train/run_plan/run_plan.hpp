// SPDX-License-Identifier: Apache-2.0
//
// The plan of a run: the components that its recipe names, matched with each other (fields with
// inputs, patterns with parameters, tables with lookups), and all that follows from them before
// anything is allocated. Checks of a recipe, plans and runs read the same plan.
// Invariant: a plan does not change after plan_run() has returned it, except for the state of its
// components.
// Threads: [main].
#pragma once

#include "host/data/loader.hpp"
#include "host/plugin/hook_proxy.hpp"
#include "host/plugin/lr_scheduler_proxy.hpp"
#include "host/plugin/metric_sink_proxy.hpp"
#include "host/train/components/reported_component.hpp"
#include "host/train/components/run_dataset.hpp"
#include "host/train/resume/excluded.hpp"
#include "host/train/run_plan/loop_plan.hpp"
#include "host/train/run_plan/model_plan.hpp"
#include "host/train/run_plan/plan_context.hpp"
#include "host/train/run_plan/run_request.hpp"
#include "host/train/weights/layout_map.hpp"
#include "host/train/weights/weights_import.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace tenon {

struct DataPlan {
  std::unique_ptr<RunDataset> train;
  std::vector<std::unique_ptr<RunDataset>> eval;  // in the order of the recipe
  std::vector<std::unique_ptr<RunDataset>> test;
  LoaderOptions loader;  // of training data

  // All datasets: those of training, evaluation and tests.
  std::vector<RunDataset*> all() const;
  std::vector<DataSource*> sources() const;
};

// Components that watch a run, and its schedule.
struct ObserverPlan {
  std::vector<HookProxy> hooks;
  std::vector<MetricSinkProxy> sinks;
  std::optional<LrSchedulerProxy> scheduler;

  // Null if the recipe has no scheduler: the factor of the schedule is 1.
  const LrSchedulerProxy* schedule() const { return scheduler.has_value() ? &*scheduler : nullptr; }
};

// What is read before training and written during it, beside datasets.
struct FilesPlan {
  std::optional<WeightsImport> import;  // none unless the run starts from imported weights
  Excluded excluded;                    // from checkpoints
  std::optional<LayoutMap> export_map;  // none unless the recipe exports the format "hf"
};

struct RunPlan {
  const PlanContext& context;
  const RunRequest& request;
  ModelPlan model = {};
  DataPlan data = {};
  ObserverPlan observers = {};
  FilesPlan files = {};
  LoopPlan loop = {};
  std::vector<ReportedComponent> objective = {};  // lines of losses and metrics

  const Recipe& recipe() const { return context.recipe; }

  // True if the run saves imported weights instead of training.
  bool imports_only() const { return !request.weights.format.empty(); }
  // Returns the components for the header and the summary, in order.
  std::vector<ReportedComponent> reported() const;
};

}  // namespace tenon
