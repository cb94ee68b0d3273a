// SPDX-License-Identifier: Apache-2.0
//
// Text on the program's standard input.
// Threads: [main].
#pragma once

#include <string>

namespace tenon {

// Reads all of the standard input, without one newline at its end. If it is a terminal, logs how to
// end the input. `what` names the text, for messages.
//
// Errors   usage.bad_option for a text that is not UTF-8 or has more than 64 MB; storage.io
std::string read_standard_input(const std::string& what);

}  // namespace tenon
