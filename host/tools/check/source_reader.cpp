// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/source_reader.hpp"

#include "host/data/batch_builder.hpp"
#include "host/tools/check/sample_inputs.hpp"
#include "host/tools/check/subject.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tenon {
namespace {

constexpr int kMaxWindowsAsked = 20;  // until one has samples

}  // namespace

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

SourceReader::SourceReader(Subject& subject, std::string name, DataSource& source)
    : subject_(subject), name_(std::move(name)), source_(source) {
  subject.note("reset of " + name_);
  source_.reset(0);
  for (int i = 0; source_.info().has_windows && i < kMaxWindowsAsked; ++i) {
    subject.note("next_window of " + name_);
    window_ = source_.next_window();
    if (window_ && !window_->is_pending() && !window_->is_skipped()) {
      break;
    }
  }
}

uint32_t SourceReader::num_shards() const {
  return std::min(source_.info().num_shards, kMaxShards);
}

int64_t SourceReader::size() {
  subject_.note("size of " + name_);
  return source_.size(window());
}

std::vector<int32_t> SourceReader::lengths(const std::vector<int64_t>& indices) {
  subject_.note("lengths of " + name_);
  std::vector<int32_t> lengths(indices.size());
  source_.lengths(window(), indices, lengths);
  return lengths;
}

ReadBatch SourceReader::read(const std::vector<int64_t>& indices) {
  begin_calls("read");
  return read_at_once(indices);
}

ReadBatch SourceReader::next(uint32_t shard, int64_t max_samples) {
  begin_calls("next");
  return next_at_once(shard, max_samples);
}

void SourceReader::seek(uint32_t shard, const std::optional<std::string>& position) {
  begin_calls("seek");
  source_.seek(window(), shard, position);
}

void SourceReader::begin_calls(const std::string& what) {
  subject_.note(what + " of " + name_);
}

ReadBatch SourceReader::read_at_once(const std::vector<int64_t>& indices) {
  BatchBuilder builder(source_, static_cast<int64_t>(indices.size()));
  source_.read(window(), indices, builder.writer());
  return {.batch = builder.finish()};
}

ReadBatch SourceReader::next_at_once(uint32_t shard, int64_t max_samples) {
  BatchBuilder builder(source_, max_samples);
  const bool is_end = source_.next(window(), shard, max_samples, builder.writer());
  return {.batch = builder.finish(), .position = builder.position(), .is_end = is_end};
}

std::optional<Batch> SourceReader::first_batch(int64_t samples) {
  std::vector<Batch> batches = first_batches(samples, 1);
  return batches.empty() ? std::nullopt : std::optional(std::move(batches.front()));
}

std::vector<Batch> SourceReader::first_batches(int64_t samples, std::size_t most) {
  std::vector<Batch> batches;
  if (!can_read()) {
    return batches;
  }
  if (!is_map()) {
    seek(0, std::nullopt);
  }
  for (int64_t first = 0; batches.size() < most; first += samples) {
    ReadBatch next;
    if (is_map()) {
      std::vector<int64_t> indices(
          static_cast<std::size_t>(std::clamp<int64_t>(size() - first, 0, samples)));
      std::iota(indices.begin(), indices.end(), first);
      if (!indices.empty()) {
        next = read(indices);
      }
    } else {
      next = this->next(0, samples);
    }
    if (next.batch.samples == 0) {
      break;  // also of a stream that wrongly reports no end
    }
    batches.push_back(std::move(next.batch));
    if (next.is_end) {
      break;
    }
  }
  return batches;
}

}  // namespace tenon
