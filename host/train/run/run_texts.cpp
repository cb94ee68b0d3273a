// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_texts.hpp"

#include <tenon/draft/text_generation.h>

#include "host/train/components/end_tokens.hpp"
#include "host/train/components/recipe_tokenizer.hpp"
#include "host/train/generate/chat_session.hpp"
#include "host/train/run_plan/run_plan.hpp"
#include "host/train/run_services.hpp"

#include <string>

namespace tenon {
namespace {

uint32_t finish_of(TextEnd end) {
  switch (end) {
    case TextEnd::kEos:
      return TENON_TEXT_END_TOKEN;
    case TextEnd::kMaxTokens:
      return TENON_TEXT_MAX_TOKENS;
    case TextEnd::kMaxPositions:
      return TENON_TEXT_MAX_POSITIONS;
    case TextEnd::kNonFinite:
      return TENON_TEXT_NON_FINITE;
    case TextEnd::kStopped:
      break;
  }
  return TENON_TEXT_STOPPED;
}

}  // namespace

TextGenerator& RunTexts::generator() {
  if (!generator_.has_value()) {
    tokenizer_instance_.emplace(
        plan_.context.factory.create(required_tokenizer(plan_.recipe()), "texts/tokenizer"));
    tokenizer_.emplace(*tokenizer_instance_);
    chat_template_ = trained_chat_template(plan_.recipe(), *tokenizer_);
    generator_.emplace(TextGenerator::Parts{.model = plan_.model.trained(),
                                            .store = model_.parameters,
                                            .exec = plan_.context.exec,
                                            .tokenizer = *tokenizer_,
                                            .ends = end_tokens(*tokenizer_, chat_template_),
                                            .blocks = {.graph = &plan_.model.trained_graph(),
                                                       .sharded = &model_.sharded,
                                                       .tensor = model_.tensor.get(),
                                                       .exchange = model_.exchange.get()},
                                            .ranks = &ranks_});
  }
  return *generator_;
}

std::vector<int32_t> RunTexts::ids_of(const TextRequest& request) {
  TextGenerator& made = generator();
  return request.is_chat
             ? ChatSession(made.tokenizer(), request.system, chat_template_).ask(request.prompt)
             : made.prompt_ids(request.prompt);
}

void RunTexts::check(const TextRequest& request) {
  generator().check(ids_of(request));
}

WrittenText RunTexts::generate(const TextRequest& request, uint64_t step) {
  const std::vector<int32_t> prompt = ids_of(request);
  const Sampling sampling{.temperature = request.temperature,
                          .top_k = request.top_k,
                          .top_p = request.top_p,
                          .seed = request.seed,
                          .is_answer = request.is_chat};
  WrittenText written;
  model_.values.during(step, [&] {
    const GeneratedText made =
        generator().generate(prompt, sampling, request.max_tokens, [&](const std::string& piece) {
          written.text += piece;
        });
    written.num_prompt_tokens = made.num_prompt_tokens;
    written.num_tokens = made.num_tokens;
    written.finish = finish_of(made.end);
  });
  return written;
}

}  // namespace tenon
