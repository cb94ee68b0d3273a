// SPDX-License-Identifier: Apache-2.0
//
// Finds the source of a load: the first source in its list that exists and can be opened. In a run
// folder, the newest checkpoint comes first. Whether the content fits the run is decided in
// load_plan.hpp.
// Invariant: all ranks find the same source.
// Threads: the train thread.
#pragma once

#include "host/checkpoint/checkpoint_store.hpp"
#include "host/distributed/collectives/group.hpp"
#include "host/error/error.hpp"
#include "host/recipe/recipe.hpp"
#include "host/tensor/state/state_tree.hpp"
#include "host/train/components/component_factory.hpp"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// An open source. Its tensors are read on demand.
struct LoadedSource {
  std::string address;
  std::string note = {};  // about the step of the parameters; "" if it is that of the checkpoint
  // Parameters and saved buffers, by their names in the source.
  std::map<std::string, std::shared_ptr<const TensorSource>> tensors;
  std::optional<StateTree> state;     // of a checkpoint, for this rank
  bool has_all_rows = false;          // each rank has all table rows: the number of ranks differs
  std::optional<std::string> config;  // config.json beside safetensors
  // Of a PEFT folder: adapter_config.json, and the hash of the base if Tenon wrote it.
  std::optional<std::string> adapter;
  std::optional<std::string> base_hash;
};

// Connected storages by load, source and root, kept from one search to the next.
using LoadStorages = std::map<std::string, std::shared_ptr<CheckpointStore>>;

class LoadSearch {
 public:
  // Owner  the arguments are borrowed
  LoadSearch(const LoadRecipe& load,
             ComponentFactory& factory,
             Group& ranks,
             LoadStorages& storages);

  // Opens the next source that can be opened. A collective call, as is_rejected().
  // Errors  load.no_source if none is left, with the sources that were tried and their errors
  LoadedSource next();

  // Returns true if any rank passes an error; the last source must then not be used. Keeps the
  // error for the message of load.no_source.
  bool is_rejected(const std::optional<Error>& mine);

 private:
  // A folder or a checkpoint that may be read.
  struct Candidate {
    size_t source = 0;
    std::string path;        // of safetensors, or the root folder of checkpoints
    std::string checkpoint;  // "" for safetensors
  };
  std::vector<Candidate> look(size_t source);
  std::vector<Candidate> candidates_in_storage(size_t source);
  LoadedSource open(const Candidate& candidate);
  std::shared_ptr<CheckpointStore> storage_at(const Candidate& candidate);
  std::string name_of(const Candidate& candidate) const;

  const LoadRecipe& load_;
  ComponentFactory& factory_;
  Group& ranks_;
  LoadStorages& storages_;
  size_t num_looked_ = 0;             // number of sources searched
  std::deque<Candidate> candidates_;  // of the current source, still to be tried
  std::string last_;                  // the address of the last source
  std::vector<std::string> tried_;
};

// True for errors that mean that a source is missing, corrupt or of an unsupported version, while
// another source may be valid.
bool is_lost_source(const Error& error);

}  // namespace tenon
