// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_training.hpp"

#include "host/device/machine_memory.hpp"
#include "host/distributed/collectives/together.hpp"
#include "host/distributed/failures/early_failure.hpp"
#include "host/distributed/ranks/rank_role.hpp"
#include "host/error/error.hpp"
#include "host/process/signal_watch.hpp"
#include "host/recipe/run_rules.hpp"
#include "host/train/components/run_failure.hpp"
#include "host/train/components/sharding_options.hpp"
#include "host/train/run/run_session.hpp"
#include "host/train/same_data.hpp"

#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace tenon {
namespace {

// Joins the other ranks. If this fails, reports the error to the ranks that wait for this rank.
void begin(std::optional<RunSession>& session,
           const Recipe& recipe,
           PluginRegistry& registry,
           Process& process,
           const RunRequest& request) {
  try {
    check_run_rules(recipe, {.is_eval_only = request.is_eval_only});
    check_number_of_ranks(recipe, request.ranks.world_size);
    session.emplace(recipe, registry, process, request, RunSession::Purpose::kTrain);
  } catch (const std::exception& error) {
    fail_with_others(request.ranks, run_failure(error));
    throw;
  }
}

// Lets the thread of signals see the run while this object lives.
class SeenRun {
 public:
  SeenRun(const SignalWatch& signals, RunSession& session) : signals_(signals) {
    signals_.watch(
        {.activity = [&session] { return session.activity(); },
         .end_start = [&session](const std::string& reason) { session.end_start(reason); }});
  }
  ~SeenRun() { signals_.watch({}); }
  SeenRun(const SeenRun&) = delete;
  SeenRun& operator=(const SeenRun&) = delete;

 private:
  const SignalWatch& signals_;
};

SignalWatch::Second second_signal_of(const RankEnvironment& ranks) {
  return ranks.launcher == "launch" ? SignalWatch::Second::kIgnored : SignalWatch::Second::kEnds;
}

}  // namespace

void check_training(const Recipe& recipe,
                    PluginRegistry& registry,
                    Process& process,
                    const GpuFiles& gpu,
                    const RankEnvironment& ranks) {
  RunRequest request;
  request.gpu = gpu;
  request.ranks = ranks;
  RunSession session(recipe, registry, process, request, RunSession::Purpose::kCheck);
  const MemoryLimit limit;  // for plugins that allocate a model to describe it
  session.check();
}

void check_number_of_ranks(const Recipe& recipe, uint32_t num_ranks) {
  const RankRole role(Mesh(mesh_degrees(recipe.parallel), num_ranks, 0));
  microbatches_per_step(recipe, role.samples().count);
}

Outcome run_training(const Recipe& recipe,
                     PluginRegistry& registry,
                     Process& process,
                     const RunRequest& request) {
  // A rank that waits for others to join ends at the first signal; from then on, all stop in order.
  std::unique_ptr<SignalWatch> signals;
  if (request.ranks.world_size == 1) {
    signals = process.watch_signals(second_signal_of(request.ranks));
  }
  std::optional<RunSession> session;
  begin(session, recipe, registry, process, request);
  if (signals == nullptr) {
    signals = process.watch_signals(second_signal_of(request.ranks));
    SignalWatch::keep_from_compute_threads();
  }
  const SeenRun seen(*signals, *session);
  try {
    session->check_with_all();
    return session->train(*signals);
  } catch (const SharedFailure& failure) {
    session->leave(failure);
    throw printed_by(request.ranks, failure);
  } catch (const std::exception& error) {
    const FailedEnd end = session->fail(run_failure(error));
    if (!end.is_reported) {
      throw;
    }
    throw SharedFailure(end.error, false, end.code);
  }
}

}  // namespace tenon
