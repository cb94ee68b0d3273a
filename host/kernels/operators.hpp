// SPDX-License-Identifier: Apache-2.0
//
// The host's operators in libtorch's dispatcher, namespace `tenon`. Plugins of every lane call them
// by name: `tenon::linear` by the service TENON_OP_ID, libtorch's stable ABI or its dispatcher.
// docs/reference/operators.md is their manual.
#pragma once

namespace tenon {

// Registers the operators; once per process, further calls do nothing.
//
// Threads  any
void register_operators();

}  // namespace tenon
