// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a run in another form, beside its checkpoints: each form by a schedule of its
// own, in a folder of its own ("exports/weights", "exports/hf"). All ranks write their shares while
// the run goes on, as of a checkpoint; what other programs read is then made from the shares, by
// rank 0 on its saver's thread, one tensor at a time.
// Invariant: an export is listed when it is whole, not before.
// Threads: the train thread, but for what makes files and removes old ones, which is on the
// saver's.
#pragma once

#include "host/checkpoint/checkpoint_saver.hpp"
#include "host/recipe/recipe.hpp"
#include "host/tensor/state_tree.hpp"
#include "host/train/run_state.hpp"
#include "host/train/weight_places.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tenon {

enum class RestPoint;

// "weights", "hf": the folder below "exports", and the layout's name.
const char* export_name(ExportFormat format);

// What exports take of a run's state: parameters, buffers, and rows of tables without slots. As a
// StateTree::NameTest of what they are without.
bool is_no_weight(std::string_view name);

class Export {
 public:
  // Where it goes. `shares` is where ranks write what the files of a layout are made of; null where
  // what they write is the export.
  struct Places {
    std::shared_ptr<BundleStorage> made;
    std::shared_ptr<BundleStorage> shares;
  };

  // `layout` is there where the format has one. Rank 0 clears away what an earlier run has left of
  // shares.
  Export(const ExportRecipe& recipe,
         Places places,
         Collective& collective,
         WriterPlace place,
         int retries,
         std::optional<WeightPlaces> layout);

  const ExportRecipe& recipe() const { return recipe_; }
  // It has all parameters, also those that checkpoints are without.
  bool is_whole() const { return layout_.has_value(); }
  std::string address(const std::string& name) const { return places_.made->address(name); }
  CheckpointSaver& saver() { return saver_; }

  // By its schedule; the end of the run is the caller's.
  bool is_due(RestPoint point, const RunState& state) const;
  // This run has begun to make one of that name.
  bool is_begun(const std::string& name) const { return begun_ == name; }
  // The one of that name is as good as made, and any other is yet to come.
  void take_for_begun(const std::string& name) { begun_ = name; }
  // Every rank: one of that name is there, whoever has made it.
  bool is_there(const std::string& name) const;

  // Every rank: begins to make one. `tree` has what exports take, or more.
  void begin(const std::string& name,
             const StateTree& tree,
             const StateTree::NameTest& left_out,
             CheckpointFacts facts,
             const std::string& frozen_recipe);

 private:
  std::string make_files(const std::string& bundle, const std::atomic<bool>& give_up);
  void tidy();

  const ExportRecipe& recipe_;
  Places places_;
  Collective& collective_;
  std::optional<WeightPlaces> layout_;
  std::string begun_;
  CheckpointSaver saver_;  // goes first: its thread calls the rest
};

// Entries of a tree but for those that are left out; they share their tensors.
StateTree part_of(const StateTree& tree, const StateTree::NameTest& left_out);

}  // namespace tenon
