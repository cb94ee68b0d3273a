// SPDX-License-Identifier: Apache-2.0
//
// Counts the bytes that a rank sends.
#pragma once

#include <cstdint>

namespace tenon {

// Bytes that this rank has sent to other ranks, by kind of collective. Payload only, without the
// overhead of engines and networks.
struct Traffic {
  int64_t all_reduce = 0;
  int64_t all_gather = 0;
  int64_t reduce_scatter = 0;
  int64_t broadcast = 0;
  int64_t all_to_all = 0;
  int64_t send = 0;     // to one rank
  int64_t control = 0;  // of the small collectives
  int64_t total() const {
    return all_reduce + all_gather + reduce_scatter + broadcast + all_to_all + send + control;
  }
};

}  // namespace tenon
