// SPDX-License-Identifier: Apache-2.0
//
// Gloo, c10d's engine on the CPU. Only gloo_backend.cpp includes Gloo's headers. The system's
// headers are years older than the library inside libtorch, so that file calls no inline function
// from them and reads no field.
// Threads: [main] creates and destroys backends. Any thread may call `abort` of a backend, which
// fails its unfinished operations at once, here and on the other ranks.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace tenon {

// The socket loop shared by the backends of a process. Opaque: a Gloo device.
class GlooDevice;

// Opens a device on a network interface, "eth0", or, if `interface` is empty, on the interface that
// has `address`.
// Throws any exception of libtorch.
std::shared_ptr<GlooDevice> open_gloo_device(const std::string& interface,
                                             const std::string& address);

// Connects `size` ranks through `store`, which only this group may use. Waits for all ranks.
// Throws any exception of libtorch.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const std::shared_ptr<GlooDevice>& device,
                                                    const c10::intrusive_ptr<c10d::Store>& store,
                                                    uint32_t rank,
                                                    uint32_t size,
                                                    std::chrono::milliseconds timeout);

}  // namespace tenon
