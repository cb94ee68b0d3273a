/* SPDX-License-Identifier: Apache-2.0
 *
 * Renders chats with the Jinja template of a model. The result is text in pieces. Each piece
 * comes from the template or from a message, so that a special token in a user's message stays
 * plain text (tokenizer.h). The answers to train on are marked.
 *
 * Answers. A template with {% generation %} tags encloses them. Otherwise, an answer is what the
 * rendering gains by a message of the assistant, after the generation prompt. Messages with
 * "train": false have none, and may change. A variable "strftime_now" is the date of the function
 * of this name, such as "2026-01-31"; null: calls are errors.
 * All JSON is UTF-8. A template that changes its input (`append`, `pop`) is an error, as in Hugging
 * Face's sandbox. */
#ifndef TENON_DRAFT_CHAT_TEMPLATE_H
#define TENON_DRAFT_CHAT_TEMPLATE_H

#include "../host.h"
#include "../tokenizer.h"

TENON_C_BEGIN

#define TENON_CHAT_TEMPLATE_ID "tenon.chat_template/1"

/* A compiled template. Opaque. */
typedef struct tenon_chat_template tenon_chat_template;

/* A piece of a rendered chat. */
typedef struct tenon_chat_piece {
  size_t struct_size;
  const char* bytes; /* [num_bytes] */
  size_t num_bytes;
  uint32_t kind; /* TENON_PIECE_TEXT: from a message; TENON_PIECE_TEMPLATE: from the template */
  uint32_t reserved;
  int64_t answer; /* index of the assistant's message whose answer this is part of; -1: none */
} tenon_chat_piece;
TENON_SEAL(tenon_chat_piece, answer);

/* Receives the pieces in order, in one or several calls. An error stops the caller and is passed
 * on. The data is borrowed until the sink returns. */
typedef tenon_status* (*tenon_chat_sink)(void* context, const tenon_chat_piece* pieces, size_t n);

/* Arguments of `render`. All pointers are borrowed until return. */
typedef struct tenon_render_args {
  size_t struct_size;
  const char* messages;  /* JSON array of objects with "role" and "content", as templates expect */
  const char* tools;     /* JSON array of tool descriptions; null: none */
  const char* variables; /* JSON object of further variables, such as "bos_token"; null: none */
  uint32_t add_generation_prompt; /* 1: end with what precedes an answer of the assistant */
  uint32_t find_answers;          /* 1: set `answer`; 2: for texts with "train": false instead */
  tenon_chat_sink sink;           /* receives the pieces */
  void* context;                  /* first argument of `sink` */
} tenon_render_args;
TENON_SEAL(tenon_render_args, context);

/* Service TENON_CHAT_TEMPLATE_ID. */
typedef struct tenon_chat_template_api {
  size_t struct_size;
  /* Compiles a template.
   *
   * Errors   TENON_INVALID for a syntax error, with its line
   * Threads  [any]
   * Owner    the caller releases *out_own; `text` is copied
   * Since    0.5 */
  tenon_status* (*compile)(const tenon_host* host, const char* text, tenon_chat_template** out_own);
  /* Renders a chat and passes the pieces to the sink.
   *
   * Errors   TENON_INVALID for malformed JSON, an error that the template raises (with its line),
   *          a chat that changes earlier text when a message is added, or a rendering that is
   *          too long; errors of the sink
   * Threads  [any], also concurrently on one template
   * Owner    arguments are borrowed until return
   * Since    0.5 */
  tenon_status* (*render)(const tenon_host* host,
                          const tenon_chat_template* chat_template,
                          const tenon_render_args* args);
  /* Releases a template; null is ignored.
   *
   * Threads  [any], never while it is rendered
   * Since    0.5 */
  void (*release)(const tenon_host* host, tenon_chat_template* chat_template);
} tenon_chat_template_api;

TENON_SEAL(tenon_chat_template_api, release);
TENON_SLOT(tenon_chat_template_api, compile, 0);
TENON_SLOT(tenon_chat_template_api, render, 1);
TENON_SLOT(tenon_chat_template_api, release, 2);

TENON_C_END
#endif
