// SPDX-License-Identifier: Apache-2.0
//
// Ranks hold what they read against each other: a rank whose file is shorter would deal samples out
// in another way, and wait for the others where they do not come.
// Invariant: what is found to differ is an error on all ranks, with the same words.
// Threads: [main]; all are collective calls.
#pragma once

#include "host/data/data_source.hpp"
#include "host/data/data_stream.hpp"
#include "host/distributed/collectives/collective.hpp"

#include <functional>
#include <span>

namespace tenon {

// Compares what is known of each source before it is read: style, number of samples or shards,
// fields, sources of a mix. Nothing where there is one rank.
// Errors  data.differs; what `size` returns
void check_same_sources(std::span<DataSource* const> sources, Collective& collective);

enum class NextWindow {
  kOpen,     // on all ranks
  kEnd,      // some rank has none, which ends the epoch for all
  kGivenUp,  // some rank has none yet, and some rank did not want to wait for it
};

// Opens the next window on all ranks. Where a dataset has none yet all wait for it, and while they
// do each asks `gives_up` a few times a second; without one, what is not there yet does not come.
// Errors  data.differs if the windows do; what next_window() throws
NextWindow next_window_together(DataStream& data,
                                Collective& collective,
                                const std::function<bool()>& gives_up = {});

}  // namespace tenon
