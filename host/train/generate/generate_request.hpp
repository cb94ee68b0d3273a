// SPDX-License-Identifier: Apache-2.0
//
// Command line options of --generate.
#pragma once

#include "host/train/generate/sampling.hpp"
#include "host/train/weights/weights_request.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

// --generate: a text to continue.
struct GenerateRequest {
  std::string run_dir = {};                          // the weights of its newest checkpoint,
  std::string from = {};                             // unless this names a checkpoint,
  WeightsImportRequest weights = {};                 // or the files of another program
  std::optional<std::string> prompt = std::nullopt;  // nothing: standard input
  bool is_chat = false;                              // the prompts are messages of a chat,
  std::optional<std::string> system = std::nullopt;  // whose first message this is,
  std::string chat_template = {};                    // in the template of this file; "": its own
  std::string template_variables = {};               // more variables of the template, as JSON
  Sampling sampling = {};
  int64_t max_tokens = 256;

  bool operator==(const GenerateRequest&) const = default;
};

}  // namespace tenon
