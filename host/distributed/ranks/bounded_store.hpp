// SPDX-License-Identifier: Apache-2.0
//
// A store of c10d whose calls cannot wait forever.
#pragma once

#include "host/distributed/ranks/store.hpp"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <memory>

namespace tenon {

// Wraps `store` for one thread. A call that gets no answer is canceled after `limit`, which is
// queried for each call; c10d would wait forever. The loss of the store's holder is reported at
// once.
std::unique_ptr<Store> make_bounded_store(c10::intrusive_ptr<c10d::Store> store,
                                          std::function<std::chrono::milliseconds()> limit);

}  // namespace tenon
