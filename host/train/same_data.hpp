// SPDX-License-Identifier: Apache-2.0
//
// Checks that all ranks read the same data. A rank with a shorter file would assign samples to
// ranks differently, and wait in collectives that other ranks do not enter.
// Invariant: a difference is an error on all ranks, with the same message.
// Threads: [main]; all are collective calls.
#pragma once

#include "host/data/data_source.hpp"
#include "host/data/data_stream.hpp"
#include "host/distributed/collectives/group.hpp"

#include <functional>
#include <span>

namespace tenon {

// Compares the metadata of each source before it is read: style, number of samples or shards,
// fields, sources of a mix. Does nothing with one rank.
// Errors  data.differs; errors of `size`
void check_same_sources(std::span<DataSource* const> sources, Group& ranks);

enum class NextWindow {
  kOpen,     // on all ranks
  kEnd,      // some rank has no window left, which ends the epoch for all
  kGivenUp,  // some rank has no window yet, and some rank gave up waiting
};

// Opens the next window on all ranks. If a dataset has no window yet, all ranks wait for it, and
// each calls `gives_up` several times a second. Without `gives_up`, ranks do not wait, and the
// epoch ends.
// Errors  data.differs if the windows differ; errors of next_window()
NextWindow next_window_together(DataStream& data,
                                Group& ranks,
                                const std::function<bool()>& gives_up = {});

}  // namespace tenon
