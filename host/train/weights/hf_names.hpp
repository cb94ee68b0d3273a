// SPDX-License-Identifier: Apache-2.0
//
// Names of tensors in Hugging Face folders that differ from those of the layout "hf": buffers that
// older releases saved, and prefixes that folders of a base model or of a larger model have.
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tenon {

// True for a tensor that transformers computes and ignores in files: `rotary_emb.inv_freq`, the
// causal masks of GPT-2.
bool is_computed_in_hf(const std::string& name, const std::vector<int64_t>& shape);

// Returns the text of a config.json that describes a decoder: of a model with images, its
// `text_config`. Requires a JSON object.
std::string text_config(const std::string& config);

// Returns the quantization that a config.json describes: "gptq"; nothing if there is none. Requires
// a JSON object.
std::optional<std::string> quantization_of(const std::string& config);

// Replaces a prefix of names in a folder, so that they are names of the layout.
class HfPrefix {
 public:
  // Finds the prefix by which most names of the folder, `there`, are names of the layout, `here`.
  // Changes nothing if most names are equal already.
  HfPrefix(const std::set<std::string>& there, const std::set<std::string>& here);

  // Returns the name in the layout of a name in the folder.
  std::string here(const std::string& there) const;
  // True for a tensor of another part of the folder's model, such as its vision tower.
  bool is_other_part(const std::string& there) const;

 private:
  std::string from_;
  std::string to_;
  bool is_part_ = false;  // the layout's model is a part of the folder's
};

}  // namespace tenon
