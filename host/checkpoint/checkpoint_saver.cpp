// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/checkpoint_saver.hpp"

#include "host/log/log.hpp"
#include "host/tensor/staging_memory.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Polling interval of waits.
constexpr std::chrono::milliseconds kLook{2};

Error as_error(const std::exception& error) {
  if (const auto* const known = dynamic_cast<const Error*>(&error)) {
    return *known;
  }
  return Error("checkpoint.failed", error.what());
}

// Formats the error of a rank as "-ID" and the message. A successful rank sends "+" and its share.
std::string failure_text(const Error& error) {
  return "-" + error.id() + "\n" + error.message();
}

Error failure_of(const std::string& text, size_t rank, size_t num_ranks) {
  const size_t line = text.find('\n');
  return Error(text.substr(1, line - 1),
               (num_ranks > 1 ? formatted("rank {}: ", rank) : "") + text.substr(line + 1));
}

}  // namespace

std::string open_free_name(CheckpointStore& storage, const std::string& name) {
  constexpr int kMostRefusals = 8;
  const std::vector<std::string> there = storage.list();
  std::string result = name;
  int num_refused = 0;
  for (int number = 2;; ++number) {
    if (std::ranges::find(there, result) == there.end()) {
      try {
        storage.open(result, /*is_first=*/true);
        return result;
      } catch (const Error& error) {
        if (error.id() != "storage.exists" || ++num_refused > kMostRefusals) {
          throw;
        }
        log_warning(error.message() + "; using another name");
      }
    }
    result = formatted("{}_{}", name, number);
  }
}

struct CheckpointSaver::Save {
  std::string checkpoint;
  StateTree tree;
  CheckpointMetadata metadata;
  std::string recipe;
  std::string share;  // failure_text or "+..."; written by the writing thread
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
};

CheckpointSaver::CheckpointSaver(std::shared_ptr<CheckpointStore> storage,
                                 RankGroups& ranks,
                                 Options options)
    : storage_(std::move(storage)), ranks_(ranks), options_(std::move(options)) {}

CheckpointSaver::~CheckpointSaver() {
  give_up_ = true;
}

template <class Do>
void CheckpointSaver::with_retries(Do attempt) const {
  auto pause = options_.pause;
  for (int left = options_.retries;; --left) {
    try {
      attempt();
      return;
    } catch (const Error& error) {
      if (left <= 0 || give_up_ || error.id() != "storage.io") {
        throw;
      }
      log_warning(error.message() + "; retrying");
    }
    const auto until = std::chrono::steady_clock::now() + pause;
    while (!give_up_ && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(kLook);
    }
    pause *= 2;
  }
}

void CheckpointSaver::prepare(const StateTree& tree) {
  std::vector<std::pair<size_t, bool>> copies;
  for (const auto& [name, entry] : tree.entries()) {
    if (const auto* const tensor = std::get_if<at::Tensor>(&entry.value)) {
      copies.emplace_back(tensor->nbytes(), !tensor->is_cpu());
    }
  }
  thread_.push([this, copies = std::move(copies)] {
    try {
      for (size_t i = 0; i < copies.size() && !give_up_; ++i) {
        prepare_staging(copies[i].first, copies[i].second);
      }
    } catch (const std::bad_alloc&) {  // the first save allocates again, and reports the error
    }
  });
}

void CheckpointSaver::begin(const std::string& name,
                            StateTree tree,
                            CheckpointMetadata metadata,
                            const std::string& frozen_recipe) {
  finish();
  auto save = std::make_shared<Save>();
  save->tree = std::move(tree);
  save->metadata = std::move(metadata);
  save->recipe = frozen_recipe;
  // Rank 0 opens the checkpoint before the other ranks, and broadcasts its name.
  std::string opened;
  if (is_first()) {
    try {
      with_retries([&] { opened = open_free_name(*storage_, name); });
      opened = "+" + opened;
    } catch (const std::exception& error) {
      opened = failure_text(as_error(error));
    }
  }
  opened = ranks_.all().broadcast_text(opened, 0, "name of a checkpoint");
  save->checkpoint = opened.starts_with('+') ? opened.substr(1) : name;
  save->metadata.checkpoint = save->checkpoint;
  if (!opened.starts_with('+')) {
    fail(*save, failure_of(opened, 0, ranks_.role().num_ranks()));
    return;
  }
  save_ = save;
  is_open_ = true;
  is_writing_ = true;
  thread_.push([this, save] { write(*save); });
}

void CheckpointSaver::write(Save& save) {
  try {
    with_retries([&] {
      if (!is_first()) {
        storage_->open(save.checkpoint, /*is_first=*/false);
      }
      save.share = "+" + share_text(write_share(
                             save.tree, ranks_.role(), *storage_, save.checkpoint, give_up_));
    });
  } catch (const std::exception& error) {
    save.share = failure_text(as_error(error));
  }
  save.tree = StateTree();
  is_writing_ = false;
}

void CheckpointSaver::conclude() {
  if (!is_open_) {
    return;
  }
  is_open_ = false;
  const std::shared_ptr<Save> save = save_;
  std::vector<std::string> shares =
      ranks_.all().gather_texts(save->share, "shares of a checkpoint");
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    if (shares[rank].starts_with('-')) {
      const Error error = failure_of(shares[rank], rank, shares.size());
      fail(*save, error);
      if (is_first()) {
        thread_.push([this, save] { abandon(*save); });
      }
      return;
    }
  }
  if (is_first()) {
    thread_.push(
        [this, save, shares = std::move(shares)]() mutable { commit(*save, std::move(shares)); });
  }
}

// Runs on the writing thread.
void CheckpointSaver::commit(Save& save, std::vector<std::string> shares) {
  try {
    std::vector<RankShare> parts;
    parts.reserve(shares.size());
    for (const std::string& share : shares) {
      parts.push_back(share_of(share.substr(1)));
    }
    const CheckpointIndex index = merged(save.metadata, std::move(parts));
    for (const auto& [name, content] : index_files(index, save.recipe)) {
      with_retries([&] { write_file(name, content, *storage_, save.checkpoint); });
    }
    with_retries([&] { storage_->commit(save.checkpoint); });
    std::string address = storage_->address(save.checkpoint);
    if (options_.make != nullptr) {
      with_retries([&] { address = options_.make(save.checkpoint, give_up_); });
      abandon(save);
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - save.begun;
    const std::lock_guard lock(mutex_);
    results_.push_back({save.checkpoint,
                        std::move(address),
                        std::nullopt,
                        index.tensor_bytes(),
                        taken.count(),
                        save.metadata.step});
  } catch (const std::exception& error) {
    fail(save, as_error(error));
    abandon(save);
    return;
  }
  if (options_.on_commit != nullptr) {
    try {
      options_.on_commit(save.checkpoint);
    } catch (const std::exception& error) {
      log_warning(error.what());
    }
  }
}

// Runs on the writing thread. Removes what a failed save wrote, or a checkpoint that was only the
// input of Options::make.
void CheckpointSaver::abandon(const Save& save) const {
  try {
    if (options_.make != nullptr) {
      storage_->remove(save.checkpoint);
    } else {
      storage_->abort(save.checkpoint);
    }
  } catch (const std::exception& error) {
    log_warning(error.what());
  }
}

void CheckpointSaver::fail(const Save& save, const Error& error) {
  const std::lock_guard lock(mutex_);
  failure_ = error;
  if (is_first()) {
    results_.push_back({.checkpoint = save.checkpoint, .error = error, .step = save.metadata.step});
  }
}

// Returns false if the thread is still busy at `until`.
bool CheckpointSaver::wait_idle(std::optional<std::chrono::steady_clock::time_point> until) {
  while (!thread_.is_idle()) {
    if (until.has_value() && !give_up_ && std::chrono::steady_clock::now() > *until) {
      return false;
    }
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

std::optional<Error> CheckpointSaver::finish(std::optional<std::chrono::duration<double>> limit) {
  std::optional<std::chrono::steady_clock::time_point> until;
  if (limit.has_value()) {
    until = std::chrono::steady_clock::now() +
            std::chrono::duration_cast<std::chrono::steady_clock::duration>(*limit);
  }
  for (int round = 0; round < 2; ++round) {  // the shares, then the commit
    if (!wait_idle(until)) {
      give_up_ = true;
      wait_idle({});
    }
    if (round == 0) {
      conclude();
    }
  }
  give_up_ = false;
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = failure_.has_value() ? failure_text(*failure_) : "";
    failure_.reset();
  }
  text = ranks_.all().broadcast_text(text, 0, "end of a checkpoint");
  return text.empty() ? std::nullopt : std::optional(failure_of(text, 0, 1));
}

std::vector<SaveResult> CheckpointSaver::take_results() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

}  // namespace tenon
