// SPDX-License-Identifier: Apache-2.0
//
// Finds symbols that the dynamic linker would share between plugins, without mapping or running the
// file.
//
// Libraries are loaded with RTLD_LOCAL, which hides their symbols from each other. Unique symbols
// (STB_GNU_UNIQUE) are the exception: the process has one object of each name. g++ gives this
// binding to the static data of inline functions, templates and inline variables that a library
// exports. If two plugins define such a symbol, the second uses the object of the first.
// Invariant: for any content, reading terminates in bounded memory.

#pragma once

#include <optional>
#include <string>

namespace tenon {

// Returns the name of the first unique symbol that `file` defines and exports, as the linker has it
// ("_ZN5Count5valueE"). Long names are cut, and control characters replaced. Returns null if there
// is none, or if the symbols cannot be read: loading such a file fails, and has the reason.
//
// Threads  [any]
std::optional<std::string> find_unique_symbol(const std::string& file);

}  // namespace tenon
