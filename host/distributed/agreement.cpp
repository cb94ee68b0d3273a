// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/agreement.hpp"

namespace tenon {

void Agreement::start() {
  travelling_ = pending_;
  pending_ = Decision();
  collective_.all_reduce(travelling_.votes_, Reduce::kMax);
}

const Decision& Agreement::settle_now() {
  start();
  return settle();
}

}  // namespace tenon
