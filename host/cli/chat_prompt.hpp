// SPDX-License-Identifier: Apache-2.0
//
// The prompt of --generate --chat: a message of a user, rendered by a chat template.
// Threads: any.
#pragma once

#include "host/plugin/tokenizer_proxy.hpp"
#include "host/train/generate/generate_request.hpp"

#include <string>
#include <vector>

namespace tenon {

// Renders the message, up to where the answer begins.
//
// Errors   generate.not_possible without a template, and for a template that fails; usage.* for a
//          file that cannot be read
std::vector<TextPiece> chat_prompt(const TokenizerInfo& tokenizer,
                                   const GenerateRequest& request,
                                   const std::string& message);

}  // namespace tenon
