// SPDX-License-Identifier: Apache-2.0
//
// Gloo, c10d's engine on the CPU. Its source file is the only one that sees Gloo's headers: the
// system's are years older than the library inside libtorch, so that file calls nothing that they
// define inline and reads no field.
// Threads: [main] makes and destroys backends; `abort` of one may be called from any thread, and
// makes what is under way on it fail at once, here and on the other ranks.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace tenon {

// The socket loop that the backends of a process share. Opaque: a Gloo device.
class GlooDevice;

// On a network interface, "eth0", or with `interface` empty on the one that has `address`.
// Throws what libtorch throws.
std::shared_ptr<GlooDevice> open_gloo_device(const std::string& interface,
                                             const std::string& address);

// Connects `size` ranks through the store, which must be of this group alone. Waits for all.
// Throws what libtorch throws.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const std::shared_ptr<GlooDevice>& device,
                                                    const c10::intrusive_ptr<c10d::Store>& store,
                                                    uint32_t rank,
                                                    uint32_t size,
                                                    std::chrono::milliseconds timeout);

}  // namespace tenon
