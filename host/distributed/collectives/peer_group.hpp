// SPDX-License-Identifier: Apache-2.0
//
// Groups of ranks on the CPU. Every collective consists of direct exchanges between ranks
// (peer_exchange.hpp) and sums in rank order (rank_sum.hpp). Collectives run concurrently with the
// caller: the backend's thread moves the bytes, and threads of the group add and start the next
// exchange.
// Invariant: a rank sends no more bytes than the algorithms require.
// Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
// MPICH" (2005), sections 4.2 and 4.4: reduce-scatter by direct exchange, then all-gather.
#pragma once

#include "host/distributed/collectives/collective_check.hpp"
#include "host/distributed/collectives/collective_log.hpp"
#include "host/distributed/collectives/group.hpp"
#include "host/distributed/collectives/peer_exchange.hpp"

#include <memory>
#include <string>

namespace tenon {

// `log` and the exchange's backend must outlive the group, and the group its works. If `check` is
// not null, it compares collectives before they start.
std::unique_ptr<Group> make_peer_group(CollectiveLog& log,
                                       std::unique_ptr<PeerExchange> exchange,
                                       std::unique_ptr<CollectiveCheck> check,
                                       std::string name);

}  // namespace tenon
