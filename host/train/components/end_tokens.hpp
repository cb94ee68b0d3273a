// SPDX-License-Identifier: Apache-2.0
//
// Tokens that end a text, for generation and for the files of exports. They come from the
// tokenizer, the generation_config.json among its files, and its chat template.
// Threads: any.
#pragma once

#include "host/plugin/tokenizer_proxy.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

inline constexpr char kGenerationConfig[] = "generation_config.json";

// Returns the ids of the tokens that end a text: the tokenizer's own first, then those of its
// generation_config.json, then the token that ends a turn of the assistant. `chat_template` takes
// the place of the tokenizer's template, unless it is "".
//
// Errors   as end_ids_of(); PluginError
std::vector<int64_t> end_tokens(const TokenizerProxy& tokenizer,
                                const std::string& chat_template = "");
// The same, for a caller that has the tokenizer's files already.
std::vector<int64_t> end_tokens(const TokenizerProxy& tokenizer,
                                const std::string& chat_template,
                                const std::vector<std::pair<std::string, std::string>>& files);

// Returns `eos_token_id` of the text of a generation_config.json: none, one or several. `name` is
// the file, for messages.
//
// Errors   generate.not_possible if the text is not JSON, or the value is not an id or a list of ids
std::vector<int64_t> end_ids_of(const std::string& text, const std::string& name);

// Returns the first special token that a chat template writes after an answer of the assistant:
// `<|im_end|>`. Nothing if the template has none or fails, or if the tokenizer cannot distinguish
// special tokens from text.
//
// Errors   PluginError
std::optional<int64_t> turn_end(const TokenizerProxy& tokenizer, const std::string& chat_template);

}  // namespace tenon
