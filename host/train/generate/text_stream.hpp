// SPDX-License-Identifier: Apache-2.0
//
// Turns token ids that arrive one by one into text that can be printed at once. A character may
// consist of several tokens, so text is held back until its characters are complete.
// Invariants: each piece is valid UTF-8; all pieces together are the decoded bytes, with U+FFFD in
// place of invalid ones.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon {

class TextStream {
 public:
  using Decode = std::function<std::string(const std::vector<int32_t>& ids)>;

  // `before` are ids before the first one, such as the last ones of a prompt: the bytes of a token
  // may depend on them.
  TextStream(Decode decode, const std::vector<int32_t>& before);

  // Returns the text that is complete with this id; often "".
  std::string push(int32_t id);
  // Returns the rest, which ends within a character.
  std::string finish();

 private:
  std::string rest_of(const std::string& text) const;
  void forget_old_ids();

  Decode decode_;
  std::vector<int32_t> ids_;  // the last ones
  std::string returned_;      // bytes of `ids_` that were returned, or come before
};

}  // namespace tenon
