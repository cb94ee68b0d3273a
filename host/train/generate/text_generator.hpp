// SPDX-License-Identifier: Apache-2.0
//
// Continues texts with a model and its tokenizer. Knows no recipe, and not where the weights come
// from. With several ranks, all ranks generate the same text together: rank 0 chooses each token.
// Invariant: parameters, gradients and buffers of the model do not change.
// Threads: the train thread.
#pragma once

#include "host/distributed/collectives/group.hpp"
#include "host/model/sequence_runner.hpp"
#include "host/plugin/generation_proxy.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/plugin/tokenizer_proxy.hpp"
#include "host/train/generate/sampling.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// Why a text ended. kNonFinite: the logits were NaN, or all -infinity.
enum class TextEnd { kEos, kMaxTokens, kMaxPositions, kStopped, kNonFinite };

struct GeneratedText {
  size_t num_prompt_tokens = 0;
  size_t num_tokens = 0;  // without the prompt and without the end of the text
  TextEnd end = TextEnd::kMaxTokens;
  double prompt_seconds = 0;  // until the first token
  double seconds = 0;         // of the tokens after the first

  // Returns a line for people.
  std::string text() const;
};

class TextGenerator {
 public:
  // All are borrowed and outlive the generator.
  struct Parts {
    ModelProxy& model;
    ParameterStore& store;
    const ExecBase& exec;
    const TokenizerProxy& tokenizer;
    std::vector<int64_t> ends = {};  // ids that end a text
    SequenceInputs inputs = {};
    SequenceBlocks blocks = {};
    Group* ranks = nullptr;  // null: this rank generates alone
  };

  // Logs a warning if the model cannot use caches.
  // Errors  generate.not_possible if the model looks up rows of tables, and `inputs` has none
  explicit TextGenerator(const Parts& parts);

  const TokenizerProxy& tokenizer() const { return parts_.tokenizer; }
  // Adds ids that end a text.
  void end_at(const std::vector<int64_t>& ids);

  // Encodes a text to continue, with the tokens that the tokenizer puts around a text, except those
  // that end it.
  // Errors  generate.not_possible for an empty text that nothing can start; errors of the tokenizer
  std::vector<int32_t> prompt_ids(const std::string& prompt) const;

  // Checks all that `generate` needs, without running the model.
  // Errors  generate.not_possible; errors of the model's plugin
  void check(const std::vector<int32_t>& prompt) const;

  // Continues a prompt of at least one token, and passes the new text to `print`, in pieces that
  // are valid UTF-8. Returns early if the process of rank 0 was asked to stop. All ranks call it
  // with the same arguments.
  // Errors  generate.not_possible; errors of the plugins and of `print`; distributed.failed
  GeneratedText generate(const std::vector<int32_t>& prompt,
                         const Sampling& sampling,
                         int64_t max_tokens,
                         const std::function<void(const std::string& piece)>& print) const;

 private:
  // What rank 0 decided for a position: a token, or why the text ends.
  struct Choice {
    int64_t id = 0;
    std::optional<TextEnd> end;
  };

  void find_generation();
  bool is_first() const { return parts_.ranks == nullptr || parts_.ranks->rank() == 0; }
  std::unique_ptr<SequenceRunner> new_sequence(int64_t capacity) const;
  int64_t checked_longest(const SequenceRunner& sequence,
                          int64_t num_prompt,
                          int64_t capacity) const;
  int64_t from_rank_0(int64_t value) const;
  Choice choose(const std::function<std::optional<int64_t>()>& pick) const;

  Parts parts_;
  std::optional<GenerationProxy> generation_;  // nothing: without caches
};

}  // namespace tenon
