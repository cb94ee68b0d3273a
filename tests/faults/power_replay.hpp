// SPDX-License-Identifier: Apache-2.0
//
// One run of the host whose disk is recorded, and what must hold of each state that a loss of power
// may leave of it (power_loss.hpp):
//   every checkpoint and export with a file COMMITTED is complete to the last byte;
//   one that the host printed to be saved is there, unless its removal has begun;
//   a file of rows that the host printed to be written is there; no file that is moved is lost;
//   `latest` names a committed checkpoint, and recipe.json and summary.json are JSON;
//   the same command resumes, from no older checkpoint than the newest that was printed, ends with
//   status 0, and the run then equals the one that kept its power.
// Threads: one, which has no other child process meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/faults/disk_log.hpp"
#include "tests/faults/disk_recorder.hpp"
#include "tests/faults/power_loss.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

struct PowerScenario {
  std::string name;
  std::string recipe;
  std::vector<std::string> arguments = {};
  // The run is killed after this event, and the same command follows.
  std::function<bool(const DiskEvent&)> kill_after = nullptr;
};

class PowerReplay {
 public:
  // Runs the host, to its end. The run folder is `run`, below a folder that is recorded.
  explicit PowerReplay(PowerScenario scenario);

  // Checks each state of the disk without running the host. Returns what is wrong, a text for each.
  std::vector<std::string> check_states(Syncs syncs = Syncs::kWork);
  size_t num_states() const { return num_states_; }
  size_t num_shapes() const { return states_.size(); }
  // Runs the same command on `most` of the checked states, of different shapes: other names, or
  // other files that are empty or in part.
  std::vector<std::string> resume_states(size_t most, uint32_t seed);
  size_t num_resumed() const { return num_resumed_; }

  // All that the recorded run printed.
  std::string said() const;
  const DiskLog& log() const { return recorder_.log(); }

 private:
  // What the host has promised at some moment: a checkpoint or an export.
  struct Promise {
    std::string folder;
    size_t since;  // events
    size_t until;  // its removal begins
  };
  struct Kept {
    LostPower state;
    size_t shape;
  };
  struct Resumed;

  std::vector<std::string> words() const;
  void note_promises(const LostPower& state);
  std::string wrong_with(const LostPower& state);
  std::string wrong_rows(const LostPower& state) const;
  bool is_complete(const DiskImage& image, const std::string& folder) const;
  bool is_json(size_t content);
  std::vector<const Promise*> promises_at(size_t num_events) const;
  Resumed start(const Kept& kept, size_t number) const;
  std::string end(Resumed& resumed) const;
  std::string wrong_after(const Resumed& resumed, int status) const;
  std::string wrong_files(const Resumed& resumed, const std::string& said) const;

  PowerScenario scenario_;
  ScratchFolder folder_;
  std::filesystem::path recipe_;
  DiskRecorder recorder_;
  DiskImage final_;
  std::vector<Promise> promises_;
  std::map<std::string, std::vector<DiskImage>> complete_;  // committed folders: their contents
  std::map<size_t, bool> is_json_;                          // of contents: most states share them
  std::vector<Kept> states_;
  size_t num_states_ = 0;
  size_t num_resumed_ = 0;
};

// "lost <what> after <call>", for messages.
std::string text_of(const LostPower& state, const DiskLog& log);

}  // namespace tenon
