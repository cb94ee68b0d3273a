// SPDX-License-Identifier: Apache-2.0
#include "host/train/generate/text_generator.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/plugin/component_identity.hpp"
#include "host/tensor/stop_flag.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/text/seconds_text.hpp"
#include "host/train/generate/stop_strings.hpp"
#include "host/train/generate/text_stream.hpp"
#include "host/train/generate/token_sampler.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <limits>
#include <set>
#include <utility>

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

// In place of a token that rank 0 chose.
constexpr int64_t kStop = -1;
constexpr int64_t kNoToken = -2;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

const char* text_of(TextEnd end) {
  switch (end) {
    case TextEnd::kEos:
      return "the text ended";
    case TextEnd::kMaxTokens:
      return "--max-tokens reached";
    case TextEnd::kMaxPositions:
      return "the model's longest sequence reached";
    case TextEnd::kNonFinite:
      return "the logits are non-finite";
    case TextEnd::kStopped:
      break;
  }
  return "stopped";
}

// Makes the logits of some ids smaller.
//
// Source  Keskar et al., CTRL (2019), section 4.1; negative logits as in transformers
at::Tensor with_penalty(const at::Tensor& logits, const std::set<int64_t>& ids, double penalty) {
  if (penalty == 1) {
    return logits;
  }
  at::Tensor changed = logits.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  double* const data = changed.mutable_data_ptr<double>();
  for (const int64_t id : ids) {
    if (id < changed.numel()) {
      data[id] = data[id] < 0 ? data[id] * penalty : data[id] / penalty;
    }
  }
  return changed;
}

}  // namespace

std::string GeneratedText::text() const {
  std::string rate;
  if (num_tokens > 1 && seconds > 0) {
    char number[32];
    std::snprintf(number, sizeof(number), "%.1f", static_cast<double>(num_tokens - 1) / seconds);
    rate = formatted(", {} tokens/s", number);
  }
  return formatted("prompt of {} in {}; {}{}; {}",
                   counted(num_prompt_tokens, "token"),
                   seconds_text(prompt_seconds),
                   counted(num_tokens, "token"),
                   rate,
                   text_of(end));
}

TextGenerator::TextGenerator(const Parts& parts) : parts_(parts) {
  const ModelGraph& graph =
      parts.blocks.graph != nullptr ? *parts.blocks.graph : parts.store.graph();
  const auto has_lookup = [](const ModelValue& value) { return value.lookup.has_value(); };
  if (parts.inputs.rows == nullptr && std::ranges::any_of(graph.values, has_lookup)) {
    throw Error("generate.not_possible",
                parts.model.instance().identity().describe() +
                    " looks up rows of tables, which a run does not read for texts; use --generate "
                    "on its checkpoint");
  }
  find_generation();
}

void TextGenerator::end_at(const std::vector<int64_t>& ids) {
  parts_.ends.insert(parts_.ends.end(), ids.begin(), ids.end());
}

void TextGenerator::find_generation() {
  std::string why = "its plugin does not implement tenon.generation/1";
  generation_ = GenerationProxy::of(parts_.model.instance());
  if (generation_.has_value()) {
    try {
      generation_->describe();
    } catch (const PluginError& error) {
      if (error.code() != TENON_UNSUPPORTED) {
        throw;
      }
      why = error.message();
      generation_.reset();
    }
  }
  if (!generation_.has_value() && is_first()) {
    log_warning(parts_.model.instance().identity().describe() +
                " has no caches for generation: each token runs the whole text again (" + why +
                ")");
  }
}

std::vector<int32_t> TextGenerator::prompt_ids(const std::string& prompt) const {
  const TokenizerProxy& tokenizer = parts_.tokenizer;
  const TokenizerInfo& info = tokenizer.info();
  std::vector<int32_t> ids =
      tokenizer.has_pieces()
          ? tokenizer.encode({{.text = prompt, .is_template = false}}, /*adds_around=*/true)
          : tokenizer.encode(prompt);
  if (!prompt.empty() && !ids.empty() && ids.back() == info.eos) {
    ids.pop_back();
  }
  if (ids.empty()) {
    const int64_t start = info.bos >= 0 ? info.bos : info.eos;
    if (start < 0) {
      throw Error("generate.not_possible",
                  "the prompt is empty, and the tokenizer has no token that starts a text; give a "
                  "prompt of at least one character");
    }
    ids.push_back(static_cast<int32_t>(start));
  }
  return ids;
}

std::unique_ptr<SequenceRunner> TextGenerator::new_sequence(int64_t capacity) const {
  return generation_.has_value()
             ? cached_sequence(parts_.model,
                               parts_.store,
                               parts_.exec,
                               *generation_,
                               capacity,
                               parts_.inputs,
                               parts_.blocks)
             : whole_sequence(
                   parts_.model, parts_.store, parts_.exec, parts_.inputs, parts_.blocks);
}

int64_t TextGenerator::checked_longest(const SequenceRunner& sequence,
                                       int64_t num_prompt,
                                       int64_t capacity) const {
  const int64_t longest = sequence.max_positions().value_or(capacity);
  if (num_prompt >= longest) {
    throw Error("generate.not_possible",
                formatted("the prompt has {} tokens, and the model's sequences have at most {}; "
                          "shorten the prompt",
                          num_prompt,
                          longest));
  }
  return longest;
}

void TextGenerator::check(const std::vector<int32_t>& prompt) const {
  const auto num_prompt = static_cast<int64_t>(prompt.size());
  const std::unique_ptr<SequenceRunner> sequence = new_sequence(num_prompt + 1);
  checked_longest(*sequence, num_prompt, num_prompt + 1);
}

// All ranks get the number of rank 0, even if they would have computed another one.
int64_t TextGenerator::from_rank_0(int64_t value) const {
  if (parts_.ranks == nullptr || parts_.ranks->size() == 1) {
    return value;
  }
  std::array<int64_t, 1> values = {is_first() ? value : std::numeric_limits<int64_t>::min()};
  parts_.ranks->all_reduce(values, Reduce::kMax, "token of a text");
  return values.front();
}

TextGenerator::Choice TextGenerator::choose(
    const std::function<std::optional<int64_t>()>& pick) const {
  int64_t chosen = 0;
  if (is_first()) {
    chosen = is_stop_requested() ? kStop : pick().value_or(kNoToken);
  }
  chosen = from_rank_0(chosen);
  if (chosen == kStop || chosen == kNoToken) {
    return {.id = 0, .end = chosen == kStop ? TextEnd::kStopped : TextEnd::kNonFinite};
  }
  const bool is_end = std::ranges::find(parts_.ends, chosen) != parts_.ends.end();
  return {.id = chosen, .end = is_end ? std::optional(TextEnd::kEos) : std::nullopt};
}

GeneratedText TextGenerator::generate(
    const std::vector<int32_t>& ids,
    const Sampling& sampling,
    int64_t max_tokens,
    const std::function<void(const std::string& piece)>& print) const {
  const auto num_prompt = static_cast<int64_t>(ids.size());
  const int64_t capacity = num_prompt + max_tokens;
  const std::unique_ptr<SequenceRunner> sequence = new_sequence(capacity);
  const int64_t longest = checked_longest(*sequence, num_prompt, capacity);
  const TokenSampler sampler(sampling, parts_.tokenizer.info().vocab_size);
  TextStream stream(
      [this](const std::vector<int32_t>& all) { return parts_.tokenizer.decode(all); },
      sampling.is_answer ? std::vector<int32_t>() : ids);
  StopStrings stops(sampling.stop);
  const auto print_part = [&print](const std::string& part) {
    if (!part.empty()) {
      print(part);
    }
  };
  std::set<int64_t> seen(ids.begin(), ids.end());
  GeneratedText result{.num_prompt_tokens = ids.size()};
  std::vector<int64_t> next(ids.begin(), ids.end());
  Clock::time_point begin = Clock::now();
  for (int64_t position = num_prompt;; ++position) {
    const auto count = static_cast<int64_t>(result.num_tokens);
    if (count == max_tokens || position >= longest) {
      result.end = count == max_tokens ? TextEnd::kMaxTokens : TextEnd::kMaxPositions;
      break;
    }
    const at::Tensor logits = sequence->append(next);
    const Choice choice = choose([&] {
      return sampler.pick(with_penalty(logits, seen, sampling.repetition_penalty),
                          static_cast<uint64_t>(position));
    });
    if (result.num_tokens == 0) {
      result.prompt_seconds = seconds_since(begin);
      begin = Clock::now();
    }
    if (choice.end.has_value()) {
      result.end = *choice.end;
      break;
    }
    ++result.num_tokens;
    next = {choice.id};
    seen.insert(choice.id);
    print_part(stops.push(stream.push(static_cast<int32_t>(choice.id))));
    if (stops.is_found()) {
      result.end = TextEnd::kEos;
      break;
    }
  }
  result.seconds = seconds_since(begin);
  print_part(stops.push(stream.finish()));
  print_part(stops.finish());
  return result;
}

}  // namespace tenon
