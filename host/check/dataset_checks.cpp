// SPDX-License-Identifier: Apache-2.0
#include "host/check/dataset_checks.hpp"

#include "host/check/sample_inputs.hpp"
#include "host/check/subject.hpp"
#include "host/data/batch_builder.hpp"
#include "host/data/dataset_proxy.hpp"
#include "host/plugin/vet_components.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr int64_t kBatch = 8;
constexpr int kNumBatches = 6;        // to read of a map, or of each shard of a stream
constexpr uint32_t kMaxShards = 4;    // of a stream, to read
constexpr int kMaxWindowsAsked = 20;  // until one has samples

bool is_same_batch(const Batch& a, const Batch& b) {
  if (a.samples != b.samples || a.tokens != b.tokens || a.fields.size() != b.fields.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.fields.size(); ++i) {
    if (!is_same_to_the_bit(a.fields[i], b.fields[i])) {
      return false;
    }
  }
  return true;
}

// What one read returned.
struct ReadBatch {
  Batch batch;
  std::optional<std::string> position = {};  // after it, of a stream
  bool is_end = false;
};

// A dataset at the start of its first epoch, in its first window with samples.
class DatasetTrial {
 public:
  DatasetTrial(Subject& subject, const std::string& name, ComponentInstance instance)
      : subject_(subject), name_(name), source_(std::move(instance), &lone_mesh()) {
    subject.note("reset of " + name);
    source_.reset(0);
    for (int i = 0; source_.info().has_windows && i < kMaxWindowsAsked; ++i) {
      subject.note("next_window of " + name);
      window_ = source_.next_window();
      if (window_ && !window_->is_pending() && !window_->is_skipped()) {
        break;
      }
    }
  }

  bool is_map() const { return source_.info().style == DatasetStyle::kMap; }
  // False if the dataset has windows, and none of them has samples yet.
  bool can_read() const { return !source_.info().has_windows || window_.has_value(); }
  uint32_t num_shards() const { return std::min(source_.info().num_shards, kMaxShards); }

  int64_t size() {
    subject_.note("size of " + name_);
    return source_.size(window());
  }

  ReadBatch read(const std::vector<int64_t>& indices) {
    subject_.note("read of " + name_);
    BatchBuilder builder(source_, static_cast<int64_t>(indices.size()));
    source_.read(window(), indices, builder.writer());
    return {.batch = builder.finish()};
  }

  ReadBatch next(uint32_t shard) {
    subject_.note("next of " + name_);
    BatchBuilder builder(source_, kBatch);
    const bool is_end = source_.next(window(), shard, kBatch, builder.writer());
    return {.batch = builder.finish(), .position = builder.position(), .is_end = is_end};
  }

  void seek(uint32_t shard, const std::optional<std::string>& position) {
    subject_.note("seek of " + name_);
    source_.seek(window(), shard, position);
  }

  // Reads the first batches: of a map in order of index, of a stream shard by shard.
  std::vector<ReadBatch> read_all() {
    std::vector<ReadBatch> batches;
    if (is_map()) {
      const int64_t samples = size();
      for (int64_t at = 0; at < samples && std::ssize(batches) < kNumBatches; at += kBatch) {
        std::vector<int64_t> indices(static_cast<std::size_t>(std::min(kBatch, samples - at)));
        std::iota(indices.begin(), indices.end(), at);
        batches.push_back(read(indices));
      }
      if (samples > 0) {
        batches.push_back(read({samples - 1, 0}));
      }
      return batches;
    }
    for (uint32_t shard = 0; shard < num_shards(); ++shard) {
      seek(shard, std::nullopt);
      for (int i = 0; i < kNumBatches; ++i) {
        batches.push_back(next(shard));
        if (batches.back().is_end) {
          break;
        }
      }
    }
    return batches;
  }

 private:
  const Window* window() const { return window_ ? &*window_ : nullptr; }

  Subject& subject_;
  std::string name_;
  DatasetProxy source_;
  std::optional<Window> window_;
};

// Returns the first batch that differs, or the smaller number of batches; null if all are equal.
std::optional<std::size_t> first_difference(const std::vector<ReadBatch>& a,
                                            const std::vector<ReadBatch>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!is_same_batch(a[i].batch, b[i].batch) || a[i].is_end != b[i].is_end) {
      return i;
    }
  }
  return a.size() != b.size() ? std::optional(std::min(a.size(), b.size())) : std::nullopt;
}

using DatasetBody =
    std::function<void(DatasetTrial& trial, const CheckedComponent& checked, Findings& findings)>;

CheckResult for_each_dataset(Subject& subject, const DatasetBody& body) {
  return subject.for_each_instance(
      "dataset",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        DatasetTrial trial(subject, checked.name(), std::move(instance));
        if (!trial.can_read()) {
          findings.add_skipped(checked.name() + " has no window with samples yet");
          return;
        }
        findings.add_examined();
        body(trial, checked, findings);
      });
}

}  // namespace

CheckResult check_dataset_reads(Subject& subject) {
  return for_each_dataset(
      subject, [](DatasetTrial& trial, const CheckedComponent& checked, Findings& findings) {
        int64_t samples = 0;
        for (const ReadBatch& read : trial.read_all()) {
          samples += read.batch.samples;
        }
        if (samples == 0) {
          findings.add_problem(checked.name() + " gave no samples");
        }
      });
}

CheckResult check_dataset_order(Subject& subject) {
  return for_each_dataset(
      subject, [&](DatasetTrial& trial, const CheckedComponent& checked, Findings& findings) {
        const std::vector<ReadBatch> first = trial.read_all();
        if (const auto at = first_difference(first, trial.read_all())) {
          findings.add_problem(
              formatted("batch {} of {} differs if it is read again", *at, checked.name()));
        }
        DatasetTrial other(subject, checked.name(), subject.create(checked));
        if (const auto at = first_difference(first, other.read_all())) {
          findings.add_problem(
              formatted("batch {} of {} differs in another instance", *at, checked.name()));
        }
      });
}

CheckResult check_dataset_resume(Subject& subject) {
  return for_each_dataset(
      subject, [&](DatasetTrial& trial, const CheckedComponent& checked, Findings& findings) {
        if (trial.is_map()) {
          findings.add_remark(checked.name() + " is map-style: the host keeps its position");
          return;
        }
        for (uint32_t shard = 0; shard < trial.num_shards(); ++shard) {
          std::vector<ReadBatch> reads;
          trial.seek(shard, std::nullopt);
          while (std::ssize(reads) < kNumBatches && (reads.empty() || !reads.back().is_end)) {
            reads.push_back(trial.next(shard));
            if (!reads.back().is_end && !reads.back().position) {
              findings.add_problem("next of " + checked.name() + " set no position");
              return;
            }
          }
          if (reads.size() < 2) {
            continue;
          }
          const std::size_t cut = (reads.size() - 1) / 2;
          const ReadBatch& after = reads[cut + 1];
          DatasetTrial resumed(subject, checked.name(), subject.create(checked));
          resumed.seek(shard, reads[cut].position);
          const ReadBatch again = resumed.next(shard);
          if (!is_same_batch(after.batch, again.batch) || after.is_end != again.is_end) {
            findings.add_problem(formatted(
                "shard {} of {} continues with another batch after seek to its own position",
                shard,
                checked.name()));
          }
        }
      });
}

}  // namespace tenon
