// SPDX-License-Identifier: Apache-2.0

#include "host/data/read_turns.hpp"

#include "host/error/assert.hpp"

#include <utility>

namespace tenon {
namespace {

// Returns the front element, and removes it.
template <class T>
T pop_front(std::deque<T>& queue) {
  T front = std::move(queue.front());
  queue.pop_front();
  return front;
}

}  // namespace

ReadTurns::ReadTurns(std::unique_ptr<ReadPlan> plan, DataRank ranks)
    : plan_(std::move(plan)), ranks_(ranks) {}

// Returns false at the end of the plan.
bool ReadTurns::plan_next() {
  const std::optional<ReadRequest> request = plan_->next();
  if (!request) {
    return false;
  }
  const int64_t rank = num_planned_ % ranks_.size;
  turns_.push_back({.number = num_planned_++, .rank = rank, .request = *request});
  if (rank == ranks_.rank) {
    own_.push_back(*request);
  }
  return true;
}

std::optional<ReadRequest> ReadTurns::next() {
  while (own_.empty()) {
    if (!plan_next()) {
      return std::nullopt;
    }
  }
  return pop_front(own_);
}

void ReadTurns::end_lane(uint32_t) {
  TENON_ASSERT(false, "ranks take no turns at lanes");
}

ReadResult ReadTurns::read(const ReadRequest& request) {
  return plan_->read(request);
}

std::optional<ReadTurns::Turn> ReadTurns::take() {
  if (turns_.empty() && !plan_next()) {
    return std::nullopt;
  }
  return pop_front(turns_);
}

}  // namespace tenon
