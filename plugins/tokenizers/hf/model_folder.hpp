// SPDX-License-Identifier: Apache-2.0
//
// The files of a tokenizer in a Hugging Face folder: tokenizer.json and what lies next to it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tenon {

struct NamedToken {
  std::string name;   // bos_token
  std::string text;   // <s>
  std::string place;  // in its file, for messages
};

struct ModelFolder {
  std::string file;           // path of tokenizer.json
  std::string json;           // its text
  std::string chat_template;  // empty: none
  std::vector<NamedToken> special_tokens;
  std::vector<std::pair<std::string, std::string>> files;  // names and contents, for exports
};

/* Reads a tokenizer.json, or the folder that contains it.
 *
 * Errors   hf.open, hf.read: TENON_NOT_FOUND or TENON_IO; hf.file: TENON_INVALID */
ModelFolder read_model_folder(const std::string& path);

}  // namespace tenon
