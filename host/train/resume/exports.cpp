// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/exports.hpp"

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/train/run_state/run_state_names.hpp"
#include "host/train/run_state/state_names.hpp"
#include "host/train/weights/layout_files.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Maximum bytes of one file of a layout, the size at which other programs split files.
constexpr uint64_t kFileBytes = 5'000'000'000;

}  // namespace

const char* export_name(ExportFormat format) {
  return format == ExportFormat::kHf ? "hf" : "weights";
}

bool is_no_weight(std::string_view name) {
  if (name.empty() || is_name_in(name, run_state::kParameters)) {
    return false;
  }
  if (!is_name_in(name, run_state::kTables)) {
    return true;
  }
  // tables/TABLE/FIELD; a prefix of it is not excluded, because it contains fields.
  const size_t table = name.find('/');
  const size_t field = table == std::string_view::npos ? table : name.find('/', table + 1);
  if (field == std::string_view::npos) {
    return false;
  }
  const std::string_view rest = name.substr(field + 1);
  return rest != "ids" && rest != "counts" && rest != "last_steps" && rest != "values" &&
         rest != "master";
}

StateTree part_of(const StateTree& tree, const StateTree::NameTest& excluded) {
  StateTree part(tree.copies());
  part.leave_out(excluded);
  for (const auto& [name, entry] : tree.entries()) {
    part.put_entry(name, entry);
  }
  for (const auto& [name, version] : tree.versions()) {
    if (!part.is_excluded(name)) {
      part.set_version(name, version);
    }
  }
  part.leave_out({});  // the tree may outlive objects that the test refers to
  return part;
}

Export::Export(const ExportRecipe& recipe,
               Storages storages,
               RankGroups& ranks,
               int retries,
               std::optional<LayoutMap> layout)
    : recipe_(recipe),
      storages_(std::move(storages)),
      ranks_(ranks),
      layout_(std::move(layout)),
      saver_(storages_.shares != nullptr ? storages_.shares : storages_.made,
             ranks,
             {.retries = retries,
              .on_commit = [this](const std::string&) { tidy(); },
              .make = layout_.has_value() ? std::function([this](const std::string& checkpoint,
                                                                 const std::atomic<bool>& give_up) {
                return make_files(checkpoint, give_up);
              })
                                          : nullptr}) {
  if (storages_.shares == nullptr || !ranks.role().is_first()) {
    return;
  }
  try {
    for (const std::string& checkpoint : storages_.shares->list()) {
      storages_.shares->remove(checkpoint);
    }
  } catch (const Error& error) {  // an export blocked by these shares fails later
    log_warning(error.what());
  }
}

bool Export::is_due(RunBoundary boundary, const RunState& state) const {
  switch (boundary) {
    case RunBoundary::kStart:
      return false;
    case RunBoundary::kStep:
      return recipe_.every.is_due(ScheduleUnit::kStep, state.step);
    case RunBoundary::kWindow:
      return recipe_.every.is_due(ScheduleUnit::kWindow, state.windows);
    case RunBoundary::kEpoch:
      return recipe_.every.is_due(ScheduleUnit::kEpoch, state.epochs);
  }
  return false;
}

bool Export::is_there(const std::string& name) const {
  std::string answer;
  if (ranks_.role().is_first()) {
    try {
      const std::vector<std::string> made = storages_.made->list();
      answer = std::ranges::find(made, name) != made.end() ? "yes" : "no";
    } catch (const Error& error) {  // making the export reports the error
      log_warning(error.what());
    }
  }
  return ranks_.all().broadcast_text(answer, 0, "exports that are there") == "yes";
}

void Export::begin(const std::string& name,
                   const StateTree& tree,
                   const StateTree::NameTest& excluded,
                   CheckpointMetadata metadata,
                   const std::string& frozen_recipe) {
  begun_ = name;
  metadata.kind = kWeightsCheckpoint;
  if (is_whole()) {
    metadata.excluded = {};
  }
  const auto leaves_out = [&](std::string_view entry) {
    return is_no_weight(entry) || (!is_whole() && excluded && excluded(entry));
  };
  saver_.begin(name, part_of(tree, leaves_out), std::move(metadata), frozen_recipe);
}

// Makes the files of the layout from the shares, on the writing thread.
std::string Export::make_files(const std::string& checkpoint, const std::atomic<bool>& give_up) {
  CheckpointStore& made = *storages_.made;
  const CheckpointReader reader(storages_.shares, checkpoint);
  const SavedWeights saved(
      reader.state(0, 1, nullptr), reader.address(), layout_->weights, std::nullopt);
  const LayoutFiles files(*layout_, saved);
  const std::string name = open_free_name(made, checkpoint);
  try {
    write_weights_files([&](const std::string& file) { return made.create_file(name, file); },
                        files.tensors(),
                        [&](size_t i) {
                          if (give_up) {
                            throw Error("checkpoint.given_up",
                                        "the writing of an export was given up");
                          }
                          return files.read(i);
                        },
                        files.texts(),
                        kFileBytes);
    made.commit(name);
  } catch (...) {
    made.abort(name);
    throw;
  }
  return made.address(name);
}

// Returns none for an export that the run has not made under this name. The files of a layout do
// not name the run: an export of that form is the run's own if its name is.
std::optional<KeptCheckpoint> Export::read(const std::string& name) const {
  CheckpointStore& made = *storages_.made;
  const auto record = made.commit_record(name);
  KeptCheckpoint result{.name = name,
                        .is_order_known = !record.has_value() || record->has_checksum()};
  bool is_own = !record.has_value() || !record->has_checksum() || record->name == name;
  if (layout_.has_value()) {
    const auto step = step_in_name(name);
    is_own = is_own && step.has_value();
    result.step = static_cast<int64_t>(step.value_or(0));
  } else {
    const CheckpointMetadata metadata = CheckpointReader(storages_.made, name).index().metadata;
    is_own = is_own && is_own_checkpoint(metadata, name, is_run_);
    result.step = static_cast<int64_t>(metadata.step);
    result.time = metadata.time;
  }
  if (!is_own) {
    return std::nullopt;
  }
  return result;
}

// Removes exports beyond `keep_last`, oldest first, on the writing thread.
void Export::tidy() {
  if (recipe_.keep_last == 0) {
    return;
  }
  const std::vector<KeptCheckpoint> kept = known_.list(*storages_.made);
  known_.remove(*storages_.made, checkpoints_to_remove(kept, {.keep_last = recipe_.keep_last}));
}

}  // namespace tenon
