// SPDX-License-Identifier: Apache-2.0
//
// The entries of a journal: what happens in a run. Each is a struct with a name for messages and
// files. Texts and records are borrowed from the caller of Journal::add until it returns; a reader
// that needs them longer copies them.
//
// Two groups: the train thread alone adds the entries of the loop, and any thread adds notices. To
// add a type of entry, define its struct here and append it to its group at the end of the file.
#pragma once

#include "host/journal/metric_record.hpp"
#include "host/journal/run_state.hpp"
#include "host/journal/stamp.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon {

// ---- entries of the loop ----

// The first entry of an attempt: the run folder exists.
struct RunStarted {
  static constexpr std::string_view kName = "start";
  std::string_view folder;
  std::string_view header;  // recipe and components, for people; may have several lines
};

struct StepBegan {
  static constexpr std::string_view kName = "step";
  const RunState& state;  // with this step
};

// After the events of the step, before its evaluation and its checkpoint.
struct StepEnded {
  static constexpr std::string_view kName = "step_end";
  const RunState& state;
};

// The speed of training since the last record, for people. The record has the same values merged
// over the ranks.
struct RunPace {
  std::optional<uint64_t> total_steps = {};
  double samples_per_second = 0;
  double tokens_per_second = 0;    // 0 if the data has no tokens
  std::optional<double> mfu = {};  // share of the device's peak; absent if unknown
  double seconds = 0;              // since the start of training
  uint64_t non_finite_steps = 0;   // of the run
};

// A record of training. The same on all ranks.
struct MetricsRecorded {
  static constexpr std::string_view kName = "record";
  const MetricRecord& record;
  RunPace pace = {};
  bool has_loss = true;  // false: no loss was computed since the last record
};

// A record of an evaluation. The same on all ranks.
struct EvaluationRecorded {
  static constexpr std::string_view kName = "evaluation";
  const MetricRecord& record;
  std::string_view family;  // prefix of its metrics: "eval/", "test/", "next/"
  std::string_view line;    // for people: "step 5  eval/loss 0.6931"
};

struct WindowBegan {
  static constexpr std::string_view kName = "window";
  std::string_view label;
  uint64_t window = 0;  // counted from 0 in its epoch
};

struct WindowEnded {
  static constexpr std::string_view kName = "window_end";
  std::string_view label;
  uint64_t window = 0;
  bool is_complete = true;  // false: a stopping condition has cut it short
};

// The state of the run was copied. The checkpoint stores the number of this entry: once the
// checkpoint is committed, the journal is durable up to that number.
struct CheckpointTaken {
  static constexpr std::string_view kName = "checkpoint_taken";
  std::string_view at;  // the boundary: "start", "step", "window", "epoch"
};

// A checkpoint or an export was committed, or could not be saved.
struct SaveEnded {
  static constexpr std::string_view kName = "checkpoint";
  enum class Form { kCheckpoint, kExport };
  Form form = Form::kCheckpoint;
  std::string_view address;
  uint64_t step = 0;  // of the saved state
  uint64_t bytes = 0;
  double seconds = 0;
  std::string_view error = {};  // "" if it was committed
  // The number of its CheckpointTaken; none for exports.
  std::optional<JournalNumber> taken = {};
};

// The run continues from another state: what came after `taken` in the journal is abandoned.
struct StateRestored {
  static constexpr std::string_view kName = "restored";
  enum class How {
    kResumed,     // from a checkpoint, at the start
    kRolledBack,  // to an earlier checkpoint, during the run
    kModelOnly,   // parameters alone, to evaluate them
    kPosition,    // the position in the data of another run
  };
  How how = How::kResumed;
  const RunState& state;
  std::string_view address = {};  // of the checkpoint
  std::string_view why = {};      // of a rollback
  // The number that the checkpoint stores; none in checkpoints of earlier releases and other runs.
  std::optional<JournalNumber> taken = {};
};

// The loop ends with an error. Each rank adds one, with its own error or that of the first rank
// that failed.
struct RunFailed {
  static constexpr std::string_view kName = "failure";
  const RunState& state;
  std::string_view id;
  std::string_view text;
};

// The loop is over; outcome and summary follow.
struct LoopEnded {
  static constexpr std::string_view kName = "loop_end";
  const RunState& state;
};

// The last entry of an attempt that ends in order.
struct RunEnded {
  static constexpr std::string_view kName = "end";
  std::string_view outcome;  // "done", "stopped early", "failed"
  std::string_view reason;
  std::string_view error_id = {};  // "" if there was no error
  int exit_code = 0;
  std::string_view line = {};      // for people
  std::string_view commands = {};  // what to run next; "" if nothing
};

// A line for people that no other entry has: "loaded encoder from ...".
struct Remark {
  static constexpr std::string_view kName = "remark";
  std::string_view text;
};

// ---- notices ----

struct WarningLogged {
  static constexpr std::string_view kName = "warning";
  std::string_view text;
};

struct ErrorLogged {
  static constexpr std::string_view kName = "error";
  std::string_view text;  // "[id] message", or without an id
};

// What this rank knows of another rank, or of itself.
struct RankReported {
  static constexpr std::string_view kName = "rank";
  uint32_t rank = 0;
  bool has_failed = false;
  std::string_view text;  // "in step 3, at after_backward", or why it failed
};

// A request from outside of the loop: a signal, or a hook.
struct CommandReceived {
  static constexpr std::string_view kName = "command";
  std::string_view command;  // "checkpoint", "evaluate", "stop"
  std::string_view origin;   // "SIGUSR1", or the hook
};

// ---- the groups ----

template <class... Entries>
struct EntryGroup {};

using LoopEntries = EntryGroup<RunStarted,
                               StepBegan,
                               StepEnded,
                               MetricsRecorded,
                               EvaluationRecorded,
                               WindowBegan,
                               WindowEnded,
                               CheckpointTaken,
                               SaveEnded,
                               StateRestored,
                               RunFailed,
                               LoopEnded,
                               RunEnded,
                               Remark>;
using NoticeEntries = EntryGroup<WarningLogged, ErrorLogged, RankReported, CommandReceived>;

// ---- events of the loop ----

// The loop reaches an event at which it calls hooks, and has called them. A step has about 20
// events, so they are no entries: they have no stamp and no number.
struct EventBegan {
  uint32_t event = 0;  // TENON_EVENT_*
  uint64_t step = 0;
};
struct EventEnded {
  uint32_t event = 0;
  uint64_t step = 0;
};

using EventEdges = EntryGroup<EventBegan, EventEnded>;

}  // namespace tenon
