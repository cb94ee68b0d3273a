// SPDX-License-Identifier: Apache-2.0
//
// Chat templates, rendered by the host. <tenon/draft/chat_template.h> defines the contract.
#ifndef TENON_CPP_CHAT_TEMPLATE_HPP
#define TENON_CPP_CHAT_TEMPLATE_HPP

#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/services.hpp>
#include <tenon/draft/chat_template.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

TENON_NAMESPACE_BEGIN

/* A piece of a rendered chat, see tenon_chat_piece. */
struct ChatPiece {
  std::string text;
  bool is_template = false;
  int64_t answer = -1;
};

/* Arguments of ChatTemplate::render, see tenon_render_args. Empty `tools` and `variables`: none. */
struct ChatRequest {
  std::string messages;
  std::string tools;
  std::string variables;
  bool add_generation_prompt = false;
  bool find_answers = false;
  bool find_untrained = false; /* instead of answers: the texts of messages with "train": false */
};

/* A compiled template.
 *
 * Threads  [any]; `render` also concurrently */
class ChatTemplate {
 public:
  /* Compiles a template.
   *
   * Errors   TENON_INVALID for a syntax error, with its line; TENON_UNSUPPORTED if the host lacks
   *          the service */
  ChatTemplate(const Host& host, const std::string& text)
      : host_(host), api_(&host.require<tenon_chat_template_api>(TENON_CHAT_TEMPLATE_ID)) {
    host_.check(api_->compile(host_.get(), text.c_str(), &compiled_));
  }
  ~ChatTemplate() { api_->release(host_.get(), compiled_); }
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  /* Renders a chat.
   *
   * Errors   those of the service */
  std::vector<ChatPiece> render(const ChatRequest& request) const {
    std::vector<ChatPiece> pieces;
    const auto text_or_null = [](const std::string& text) {
      return text.empty() ? nullptr : text.c_str();
    };
    const tenon_render_args args{sizeof(args),
                                 request.messages.c_str(),
                                 text_or_null(request.tools),
                                 text_or_null(request.variables),
                                 request.add_generation_prompt ? 1u : 0u,
                                 request.find_untrained ? 2u
                                 : request.find_answers ? 1u
                                                        : 0u,
                                 append,
                                 &pieces};
    host_.check(api_->render(host_.get(), compiled_, &args));
    return pieces;
  }

 private:
  static tenon_status* append(void* context, const tenon_chat_piece* pieces, size_t n) noexcept {
    return guard(nullptr, [&] {
      auto& out = *static_cast<std::vector<ChatPiece>*>(context);
      const auto* at = reinterpret_cast<const char*>(pieces);
      for (size_t i = 0; i < n; ++i) {
        const auto& piece = *reinterpret_cast<const tenon_chat_piece*>(at);
        out.push_back({std::string(piece.bytes, piece.num_bytes),
                       piece.kind == TENON_PIECE_TEMPLATE,
                       piece.answer});
        at += piece.struct_size;
      }
    });
  }

  Host host_;
  const tenon_chat_template_api* api_;
  tenon_chat_template* compiled_ = nullptr;
};

TENON_NAMESPACE_END

#endif
