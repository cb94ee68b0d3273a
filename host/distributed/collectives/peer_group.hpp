// SPDX-License-Identifier: Apache-2.0
//
// Groups of ranks on the CPU: every collective as direct exchanges between ranks
// (peer_exchange.hpp) and sums in the order of ranks (rank_sum.hpp). What is begun continues beside
// the caller: the backend's thread moves the bytes, and threads of the group add up and begin what
// comes next. Invariant: a rank sends no more than theory asks of it.
// Source: Thakur, Rabenseifner,
// Gropp, "Optimization of Collective Communication Operations in MPICH" (2005), sections 4.2
// and 4.4: reduce-scatter by direct exchange, then all-gather.
#pragma once

#include "host/distributed/collectives/collective.hpp"
#include "host/distributed/collectives/collective_check.hpp"
#include "host/distributed/collectives/collective_log.hpp"
#include "host/distributed/collectives/group.hpp"
#include "host/distributed/collectives/peer_exchange.hpp"

#include <memory>
#include <string>

namespace tenon {

// `log` and the exchange's backend must outlive the group, and the group its works. Collectives are
// compared before they begin where `check` is not null.
std::unique_ptr<Group> make_peer_group(CollectiveLog& log,
                                       std::unique_ptr<PeerExchange> exchange,
                                       std::unique_ptr<CollectiveCheck> check,
                                       std::string name);

// The small collectives of all ranks.
std::unique_ptr<Collective> make_peer_collective(CollectiveLog& log,
                                                 std::unique_ptr<PeerExchange> exchange,
                                                 std::unique_ptr<CollectiveCheck> check);

}  // namespace tenon
