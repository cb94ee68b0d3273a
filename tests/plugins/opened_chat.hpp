// SPDX-License-Identifier: Apache-2.0
//
// The dataset `chat`, opened on files of a test.
#pragma once

#include "host/data/batch_builder.hpp"
#include "host/data/dataset_proxy.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

// Turns between special tokens of the test tokenizer, such as "<u>hi</><a>yo</>". The tokens are
// written out, because a role printed by the template is text of a message. "<t>" is no special
// token.
inline constexpr char kChatTurns[] =
    "{% set marks = {'user': '<u>', 'assistant': '<a>', 'system': '<s>', 'tool': '<t>'} %}"
    "{% for m in messages %}{{ marks[m.role] }}{{ m.content }}</>{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}";

// An open dataset with the tokenizer that it was made with, which must live longer.
struct OpenedChat {
  ComponentInstance tokenizer;
  DatasetProxy source;

  int64_t size() { return source.size(nullptr); }
  Batch read(const std::vector<int64_t>& indices) {
    BatchBuilder builder(source, static_cast<int64_t>(indices.size()));
    source.read(nullptr, indices, builder.writer());
    return builder.finish();
  }
  // The lengths of all samples, as the dataset reports them.
  std::vector<int64_t> lengths();
  // A row of a batch as text: special tokens as they are written, padding as "<eos>".
  std::string inputs(const Batch& batch, int64_t row) const;
  // The labels of a row; "." where there is none.
  std::string labels(const Batch& batch, int64_t row) const;
  // Inputs and labels of one sample, one below the other.
  std::string shown(int64_t sample);
};

// Options of the test tokenizer: bytes, and the special tokens "<u>", "<a>", "<s>", "</>", "<bos>"
// and "<eos>".
nlohmann::json chat_tokenizer(const std::string& chat_template = kChatTurns);

// `options` lack "tokenizer"; tokens stay in memory unless they have "cache".
OpenedChat open_chat(nlohmann::json options,
                     const nlohmann::json& tokenizer = chat_tokenizer(),
                     const std::string& type = "special_bytes");

// What is wrong with a dataset; the folder's name is left out.
std::string chat_error(const ScratchFolder& folder,
                       nlohmann::json options,
                       const nlohmann::json& tokenizer = chat_tokenizer());

// Writes samples as lines of a file, and returns its path.
std::string write_chats(const ScratchFolder& folder,
                        const std::string& name,
                        const std::vector<nlohmann::json>& samples);

// A sample in format "messages" of "user", "assistant", ...
nlohmann::json chat_of(const std::vector<std::string>& contents);

}  // namespace tenon
