// SPDX-License-Identifier: Apache-2.0
//
// Texts that the model in training writes, for hooks. <tenon/draft/text_generation.h> defines the
// contract.
#ifndef TENON_CPP_TEXT_GENERATION_HPP
#define TENON_CPP_TEXT_GENERATION_HPP

#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/services.hpp>
#include <tenon/draft/text_generation.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

TENON_NAMESPACE_BEGIN

/* A text to continue; see tenon_text_request. */
struct TextRequest {
  std::string prompt;
  std::optional<std::string> system; /* with is_chat */
  bool is_chat = false;
  int64_t max_tokens = 0;
  double temperature = 0;
  int64_t top_k = 0;
  double top_p = 1;
  uint64_t seed = 1;
};

/* A text that the model wrote; see tenon_text_result. */
struct WrittenText {
  std::string text;
  size_t num_prompt_tokens = 0;
  size_t num_tokens = 0;
  uint32_t finish = TENON_TEXT_END_TOKEN; /* TENON_TEXT_* */
};

/* Returns why a text ended as a word: "end_token", "max_tokens", "max_positions", "stopped" or
 * "non_finite". */
inline const char* finish_name(uint32_t finish) {
  switch (finish) {
    case TENON_TEXT_END_TOKEN:
      return "end_token";
    case TENON_TEXT_MAX_TOKENS:
      return "max_tokens";
    case TENON_TEXT_MAX_POSITIONS:
      return "max_positions";
    case TENON_TEXT_NON_FINITE:
      return "non_finite";
    default:
      return "stopped";
  }
}

/* The service. The hook sets `uses_collectives`, and all ranks make the same calls.
 *
 * Threads  those of the event, and only during it */
class TextGeneration {
 public:
  /* Errors   TENON_UNSUPPORTED if the host lacks the service */
  explicit TextGeneration(const Host& host)
      : host_(host), api_(&host.require<tenon_text_generation_api>(TENON_TEXT_GENERATION_ID)) {}

  /* Checks that `generate` could continue the text, without running the model.
   *
   * Errors   those of the service */
  void check(const Event& event, const TextRequest& request) const {
    const tenon_text_request abi = abi_of(request);
    host_.check(api_->check(event.get()->run, &abi));
  }

  /* Continues the text: at after_load, after_step, after_evaluate, after_window, after_epoch, and
   * at `end` unless the run failed.
   *
   * Errors   those of the service */
  WrittenText generate(const Event& event, const TextRequest& request) const {
    const tenon_text_request abi = abi_of(request);
    tenon_text_result result{};
    result.struct_size = sizeof(result);
    host_.check(api_->generate(event.get()->run, &abi, &result));
    return {std::string(result.text_ref, result.num_text_bytes),
            result.num_prompt_tokens,
            result.num_tokens,
            result.finish};
  }

 private:
  static tenon_text_request abi_of(const TextRequest& request) {
    tenon_text_request abi{};
    abi.struct_size = sizeof(abi);
    abi.prompt = request.prompt.c_str();
    abi.system = request.system ? request.system->c_str() : nullptr;
    abi.is_chat = request.is_chat ? 1 : 0;
    abi.max_tokens = request.max_tokens;
    abi.temperature = request.temperature;
    abi.top_k = request.top_k;
    abi.top_p = request.top_p;
    abi.seed = request.seed;
    return abi;
  }

  Host host_;
  const tenon_text_generation_api* api_;
};

TENON_NAMESPACE_END

#endif
