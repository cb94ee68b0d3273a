// SPDX-License-Identifier: Apache-2.0
//
// The services of a run, allocated from its plan: parameters, groups of ranks, tables, optimizers,
// data streams, metrics and checkpoints. RunSession makes the run folder before, and lets the loop
// run with them.
// Invariant: members are constructed in the order in which they use each other, and destroyed in
// reverse order.
// Threads: [main], which is the train thread. All ranks allocate at the same time.
#pragma once

#include "host/journal/journal.hpp"
#include "host/metrics/run_folder.hpp"
#include "host/train/rank_part_exchange.hpp"
#include "host/train/run/run_checkpoints.hpp"
#include "host/train/run/run_context.hpp"
#include "host/train/run/stored_outputs.hpp"
#include "host/train/run_services.hpp"

namespace tenon {

// What a session shares with the services of its run. Borrowed.
struct RunSurroundings {
  const RunContext& context;
  RunCheckpoints& checkpoints;
  const RunFolder& folder;
  Journal& journal;
  const SignalWatch& signals;
  RunOwner& owner;
};

class AllocatedRun {
 public:
  // `plan` is borrowed. `outputs`: of the models whose outputs are stored.
  //
  // Errors  checkpoint.*; load.*; distributed.*; table.*; plugin.failed of a sink; out of memory
  AllocatedRun(const RunSurroundings& around,
               const RunPlan& plan,
               const StoredFingerprints& outputs = {});
  AllocatedRun(const AllocatedRun&) = delete;
  AllocatedRun& operator=(const AllocatedRun&) = delete;

  RunServices& services() { return services_; }

 private:
  RankPartExchange parts_;
  DataServices data_;
  RankServices ranks_;
  ModelServices model_;
  ReportServices report_;
  RunServices services_;
  Journal::Subscription profile_reads_;  // none without a profile
  Journal::Subscription sinks_read_;
};

}  // namespace tenon
