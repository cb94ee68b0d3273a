// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/resume_candidates.hpp"

#include "host/log/log.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/train/components/run_failure.hpp"
#include "host/train/resume/excluded.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

// Returns the owner of an entry for messages: "components/hooks/0" for "components/hooks/0/best".
// "" for entries whose loss needs no warning.
std::string owner_of(const std::string& entry) {
  if (entry.starts_with("figures/") || entry.starts_with("metrics/")) {
    return "metrics since the last record, and those of the whole run (NAME/run)";
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

std::optional<Error> checkpoint_failure(const std::exception& exception, CheckpointPart part) {
  if (const auto* const error = dynamic_cast<const Error*>(&exception)) {
    constexpr std::string_view kOfCheckpoint[] = {"state.bad_value",
                                                  "state.missing_entry",
                                                  "state.wrong_shape",
                                                  "state.wrong_type",
                                                  "table.bad_state"};
    const bool is_own = is_damage(*error) ||
                        std::ranges::find(kOfCheckpoint, error->id()) != std::end(kOfCheckpoint);
    return is_own ? std::optional(*error) : std::nullopt;
  }
  const Error error = run_failure(exception);
  if (error.id() == "run.out_of_resources" ||
      (error.id() == "run.out_of_memory" && part == CheckpointPart::kState)) {
    return std::nullopt;
  }
  return error;
}

Error with_address(const Error& error, const std::string& address) {
  return error.message().find(address) != std::string::npos
             ? error
             : error.with_context(address + " cannot be loaded");
}

ResumeCandidates::ResumeCandidates(std::shared_ptr<CheckpointStore> storage,
                                   Group& ranks,
                                   std::vector<std::string> checkpoints,
                                   std::function<void(const CheckpointReader&)> accept)
    : storage_(std::move(storage)),
      ranks_(ranks),
      checkpoints_(std::move(checkpoints)),
      num_left_(checkpoints_.size()),
      accept_(std::move(accept)) {
  auto count = static_cast<int64_t>(num_left_);
  ranks_.all_reduce(std::span(&count, 1), Reduce::kMax, "number of checkpoints");
  num_left_ = static_cast<size_t>(count);
  checkpoints_.resize(num_left_);
}

void ResumeCandidates::warn(const std::string& why) const {
  if (ranks_.rank() == 0) {
    log_warning(why + (num_left_ > 0 ? "; trying the checkpoint before it" : ""));
  }
}

const StateTree& ResumeCandidates::next() {
  while (num_left_ > 0) {
    const std::string checkpoint =
        ranks_.broadcast_text(checkpoints_.at(num_tried_), 0, "name of a checkpoint");
    ++num_tried_;
    --num_left_;
    std::optional<Error> error;
    std::vector<std::string> dropped;
    try {
      reader_.emplace(storage_, checkpoint);
      state_ = reader_->state(ranks_.rank(), ranks_.size(), &dropped);
      state_.leave_out(entries_of(reader_->index().metadata.excluded));
    } catch (const std::exception& failure) {
      error = checkpoint_failure(failure, CheckpointPart::kIndex);
      if (!error.has_value()) {
        throw;
      }
      error = with_address(*error, storage_->address(checkpoint));
    }
    int64_t is_damaged = error.has_value() ? 1 : 0;
    ranks_.all_reduce(std::span(&is_damaged, 1), Reduce::kMax, "soundness of a checkpoint");
    if (is_damaged != 0) {
      reject(error);
      continue;
    }
    if (accept_ != nullptr) {
      accept_(*reader_);
    }
    if (const Excluded& excluded = reader_->index().metadata.excluded;
        !excluded.is_empty() && ranks_.rank() == 0) {
      log_warning(reader_->address() + " is without " + excluded_text(excluded) +
                  ": they keep their initial values");
    }
    if (!dropped.empty() && ranks_.rank() == 0) {
      std::set<std::string> owners;
      for (const std::string& entry : dropped) {
        if (const std::string owner = owner_of(entry); !owner.empty()) {
          owners.insert(owner);
        }
      }
      if (!owners.empty()) {
        log_warning(
            formatted("the run had {} ranks and has {} now: state of single ranks starts over ({})",
                      reader_->index().num_ranks(),
                      ranks_.size(),
                      joined({owners.begin(), owners.end()})));
      }
    }
    return state_;
  }
  if (first_failure_.has_value() && !is_damage(*first_failure_)) {  // as likely an error of the run
    throw Error(*first_failure_);
  }
  throw Error("checkpoint.none_sound",
              "no valid checkpoint to resume from" +
                  (first_failure_.has_value() ? ": " + first_failure_->message() : "") +
                  "; name another with --resume PATH, or start over with --resume none");
}

void ResumeCandidates::reject(const std::optional<Error>& error) {
  const std::vector<std::string> all = ranks_.gather_texts(
      error.has_value() ? error->id() + "\n" + error->message() : "", "damage of a checkpoint");
  const auto told =
      std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  Error why("checkpoint.damaged", "it cannot be read");
  if (told != all.end()) {
    const size_t line = told->find('\n');
    why = Error(told->substr(0, line), told->substr(line + 1));
  }
  if (!first_failure_.has_value()) {
    first_failure_ = why;
  }
  warn(why.message());
}

}  // namespace tenon
