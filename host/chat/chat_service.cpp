// SPDX-License-Identifier: Apache-2.0

#include "host/chat/chat_service.hpp"

#include "host/chat/chat_template.hpp"
#include "host/error/status.hpp"

#include <string>
#include <vector>

struct tenon_chat_template {
  tenon::ChatTemplate compiled;
};

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

void check_argument(bool is_given, const char* what) {
  if (!is_given) {
    throw StatusError(
        TENON_INVALID, "template.null_argument", std::string(what) + " of a chat template is null");
  }
}

// JSON of an argument; null if it is not given.
Json parsed(const char* text, const char* what) {
  if (text == nullptr) {
    return nullptr;
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw StatusError(TENON_INVALID,
                      "template.failed",
                      std::string("the ") + what + " are not valid JSON: " + error.what());
  }
}

tenon_status* compile(const tenon_host* host, const char* text, tenon_chat_template** out_own) {
  return guard(host, [&] {
    check_argument(text != nullptr, "the text");
    check_argument(out_own != nullptr, "the result");
    *out_own = new tenon_chat_template{ChatTemplate(text)};
  });
}

tenon_status* render(const tenon_host* host,
                     const tenon_chat_template* chat_template,
                     const tenon_render_args* args) {
  return guard(host, [&]() -> tenon_status* {
    check_argument(chat_template != nullptr, "the template");
    check_argument(args != nullptr && args->messages != nullptr && args->sink != nullptr,
                   "an argument of render");
    ChatRequest request;
    request.messages = parsed(args->messages, "messages");
    request.tools = parsed(args->tools, "tools");
    if (args->variables != nullptr) {
      request.variables = parsed(args->variables, "variables");
    }
    request.add_generation_prompt = args->add_generation_prompt != 0;
    request.find = args->find_answers == 0   ? FindText::kNothing
                   : args->find_answers == 2 ? FindText::kUntrained
                                             : FindText::kAnswers;
    const std::vector<ChatPiece> pieces = chat_template->compiled.render(request);
    std::vector<tenon_chat_piece> given;
    given.reserve(pieces.size());
    for (const ChatPiece& piece : pieces) {
      given.push_back({.struct_size = sizeof(tenon_chat_piece),
                       .bytes = piece.text.data(),
                       .num_bytes = piece.text.size(),
                       .kind = piece.is_template ? TENON_PIECE_TEMPLATE : TENON_PIECE_TEXT,
                       .reserved = 0,
                       .answer = piece.answer});
    }
    return args->sink(args->context, given.data(), given.size());
  });
}

void release_template(const tenon_host* /*host*/, tenon_chat_template* chat_template) {
  delete chat_template;
}

}  // namespace

const tenon_chat_template_api* chat_template_service() noexcept {
  static constexpr tenon_chat_template_api kApi = {.struct_size = sizeof(tenon_chat_template_api),
                                                   .compile = compile,
                                                   .render = render,
                                                   .release = release_template};
  return &kApi;
}

}  // namespace tenon
