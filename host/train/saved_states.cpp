// SPDX-License-Identifier: Apache-2.0
#include "host/train/saved_states.hpp"

#include "host/log/log.hpp"
#include "host/train/left_out.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace tenon {
namespace {

// For people: "components/hooks/0/best" belongs to "components/hooks/0"; "" for what nobody misses.
std::string owner_of(const std::string& entry) {
  if (entry.starts_with("figures/") || entry.starts_with("metrics/")) {
    return "figures since the last record";
  }
  if (!entry.starts_with("components/")) {
    return "";
  }
  size_t end = entry.find('/');
  for (int i = 0; i < 2 && end != std::string::npos; ++i) {
    end = entry.find('/', end + 1);
  }
  return entry.substr(0, end);
}

}  // namespace

bool is_damage(const Error& error) {
  return error.id() == "checkpoint.damaged" || error.id() == "checkpoint.foreign" ||
         error.id() == "storage.io" || error.id() == "storage.not_found";
}

SavedStates::SavedStates(std::shared_ptr<BundleStorage> storage,
                         Collective& collective,
                         std::vector<std::string> bundles,
                         std::function<void(const CheckpointReader&)> accept)
    : storage_(std::move(storage)),
      collective_(collective),
      bundles_(std::move(bundles)),
      num_left_(bundles_.size()),
      accept_(std::move(accept)) {
  auto count = static_cast<int64_t>(num_left_);
  collective_.all_reduce(std::span(&count, 1), Reduce::kMax, "number of checkpoints");
  num_left_ = static_cast<size_t>(count);
  bundles_.resize(num_left_);
}

void SavedStates::warn(const std::string& why) const {
  if (collective_.rank() == 0) {
    log_warning(why + (num_left_ > 0 ? "; the one before it is tried" : ""));
  }
}

const StateTree& SavedStates::next() {
  while (num_left_ > 0) {
    const std::string bundle =
        collective_.broadcast_text(bundles_.at(num_tried_), 0, "name of a checkpoint");
    ++num_tried_;
    --num_left_;
    std::optional<Error> error;
    std::vector<std::string> dropped;
    try {
      reader_.emplace(storage_, bundle);
      state_ = reader_->state(collective_.rank(), collective_.world_size(), &dropped);
      state_.leave_out(entries_of(reader_->index().facts.left_out));
    } catch (const Error& failure) {
      if (!is_damage(failure)) {
        throw;
      }
      error = failure;
    }
    int64_t is_damaged = error.has_value() ? 1 : 0;
    collective_.all_reduce(std::span(&is_damaged, 1), Reduce::kMax, "soundness of a checkpoint");
    if (is_damaged != 0) {
      reject(error);
      continue;
    }
    if (accept_ != nullptr) {
      accept_(*reader_);
    }
    if (const LeftOut& left_out = reader_->index().facts.left_out;
        !left_out.is_empty() && collective_.rank() == 0) {
      log_warning(reader_->address() + " is without " + left_out_text(left_out) +
                  ": they stay as they are at the start of a run");
    }
    if (!dropped.empty() && collective_.rank() == 0) {
      std::set<std::string> owners;
      for (const std::string& entry : dropped) {
        if (const std::string owner = owner_of(entry); !owner.empty()) {
          owners.insert(owner);
        }
      }
      std::string names;
      for (const std::string& owner : owners) {
        names += (names.empty() ? "" : ", ") + owner;
      }
      if (!names.empty()) {
        log_warning("the run had " + std::to_string(reader_->index().num_ranks()) +
                    " ranks and has " + std::to_string(collective_.world_size()) +
                    " now: what belonged to single ranks begins anew (" + names + ")");
      }
    }
    return state_;
  }
  throw Error("checkpoint.none_sound",
              "no checkpoint can be gone on from: " + first_failure_ +
                  "; choose another by --resume PATH, or begin anew with --resume none");
}

void SavedStates::reject(const std::optional<Error>& error) {
  const std::vector<std::string> all =
      collective_.gather_texts(error.has_value() ? error->message() : "", "damage of a checkpoint");
  const auto told =
      std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  const std::string why = told != all.end() ? *told : "it cannot be read";
  if (first_failure_.empty()) {
    first_failure_ = why;
  }
  warn(why);
}

}  // namespace tenon
