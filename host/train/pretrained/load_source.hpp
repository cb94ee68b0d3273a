// SPDX-License-Identifier: Apache-2.0
//
// Finds what a load reads from: of its sources the first that is there and can be opened, and of a
// run folder its newest checkpoint. What of it fits the run is not known here.
// Invariant: all ranks find the same.
// Threads: the train thread.
#pragma once

#include "host/checkpoint/checkpoint_store.hpp"
#include "host/distributed/collectives/collective.hpp"
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

// A source that is open. Its tensors are read when somebody asks for them.
struct LoadedSource {
  std::string address;
  // Parameters, and buffers that are saved, by the names there.
  std::map<std::string, std::shared_ptr<const TensorSource>> tensors;
  std::optional<StateTree> state;     // of a checkpoint, as this rank needs it
  bool has_all_rows = false;          // each rank was given those of all, since ranks are others
  std::optional<std::string> config;  // config.json beside safetensors
};

// Storages that are connected, by load, source and root: kept from one search to the next.
using LoadStorages = std::map<std::string, std::shared_ptr<CheckpointStore>>;

class LoadSearch {
 public:
  // All are borrowed.
  LoadSearch(const LoadRecipe& load,
             ComponentFactory& factory,
             Collective& collective,
             LoadStorages& storages);

  // The next one that can be opened. All ranks at once, as the one below.
  // Errors  load.no_source if none is left: what was tried, and why it was not taken
  LoadedSource next();

  // The last one is not to be used if any rank has an error: then true, and the error is kept for
  // the message.
  bool is_rejected(const std::optional<Error>& mine);

 private:
  // A place to read from.
  struct Place {
    size_t source = 0;
    std::string path;        // of files, or the root of checkpoints
    std::string checkpoint;  // "" for safetensors
  };
  std::vector<Place> look(size_t source);
  std::vector<Place> places_in_storage(size_t source);
  LoadedSource open(const Place& place);
  std::shared_ptr<CheckpointStore> storage_at(const Place& place);
  std::string name_of(const Place& place) const;

  const LoadRecipe& load_;
  ComponentFactory& factory_;
  Collective& collective_;
  LoadStorages& storages_;
  size_t num_looked_ = 0;     // sources
  std::deque<Place> places_;  // of the source under way, still to be tried
  std::string last_;          // the address of the last one
  std::vector<std::string> tried_;
};

// True for errors that say that a source is missing or corrupt: another one may be.
bool is_lost_source(const Error& error);

}  // namespace tenon
