// SPDX-License-Identifier: Apache-2.0
//
// The reads of a window with numbered samples, in sequence along the global order.
// Threads: as in ReadPlan.

#pragma once

#include "host/data/data_source.hpp"
#include "host/data/order.hpp"
#include "host/data/rank_sampler.hpp"
#include "host/data/read_plan.hpp"

#include <cstdint>
#include <optional>

namespace tenon {

class MapPlan final : public ReadPlan {
 public:
  // Starts at `cursor`; at most `max_batches` reads if given. Source and window are borrowed.
  MapPlan(DataSource& source,
          const Window* window,
          const SampleOrder& order,
          const RankSampler& sampler,
          int64_t cursor,
          std::optional<int64_t> max_batches);

  std::optional<ReadRequest> next() override;
  void end_lane(uint32_t lane) override;
  ReadResult read(const ReadRequest& request) override;

 private:
  DataSource& source_;
  const Window* window_;
  SampleOrder order_;
  RankSampler sampler_;
  int64_t cursor_;
  std::optional<int64_t> left_;
};

}  // namespace tenon
