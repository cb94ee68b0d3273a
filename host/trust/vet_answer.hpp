// SPDX-License-Identifier: Apache-2.0
//
// The answer that a vetting child sends for one plugin, as JSON text: {"id": ...,
// "message": ..., "hash": ...}.
// The plugin runs in that child and may send anything in its place.
// Threads: any.
#pragma once

#include "host/trust/verdict.hpp"

#include <optional>
#include <string>

namespace tenon {

// The id, the message and the hash of a verdict. Bytes that are not valid UTF-8 are replaced.
std::string vet_answer_text(const Verdict& verdict);

// Returns none if the text is not an answer.
std::optional<Verdict> verdict_of_answer(const std::string& answer);

}  // namespace tenon
