/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets a hook continue texts with the model in training, by the tokenizer of the recipe. The
 * parameters are those that an evaluation would use, such as an average of them. The model runs as
 * in an evaluation: training does not change by a bit.
 *
 * All ranks make the same calls at the same events, and get the same text. Sharded parameters are
 * gathered block by block. A hook that uses the service declares `uses_collectives`. */
#ifndef TENON_DRAFT_TEXT_GENERATION_H
#define TENON_DRAFT_TEXT_GENERATION_H

#include "../hook.h"

TENON_C_BEGIN

#define TENON_TEXT_GENERATION_ID "tenon.text_generation/1"

/* Why a text ended. */
enum {
  TENON_TEXT_END_TOKEN = 0,     /* the model chose the tokenizer's end-of-text token */
  TENON_TEXT_MAX_TOKENS = 1,    /* max_tokens */
  TENON_TEXT_MAX_POSITIONS = 2, /* the model's longest sequence */
  TENON_TEXT_STOPPED = 3,       /* the run was asked to stop */
  TENON_TEXT_NON_FINITE = 4     /* the model's logits were NaN, or all -infinity */
};

/* A text to continue. Strings are borrowed until return. */
typedef struct tenon_text_request {
  size_t struct_size; /* set by the caller */
  /* UTF-8. The text to continue, or a message of the user. Special tokens in it stay text. */
  const char* prompt;
  const char* system; /* UTF-8. With is_chat: the system message; null: none */
  uint32_t is_chat;   /* 1: render prompt and system by the tokenizer's chat template */
  uint32_t reserved;  /* 0 */
  int64_t max_tokens; /* largest number of new tokens, at least 1 */
  double temperature; /* divides the logits, 0 or more; 0: the most likely token */
  int64_t top_k;      /* only the K most likely tokens; 0: all */
  double top_p;  /* only the most likely tokens that together have this probability, in (0, 1] */
  uint64_t seed; /* of the draws, which depend on the seed and the position only */
} tenon_text_request;
TENON_SEAL(tenon_text_request, seed);

/* A text that the model wrote. */
typedef struct tenon_text_result {
  size_t struct_size; /* set by the caller */
  /* [num_text_bytes] The new text in UTF-8, ends with a NUL. U+FFFD stands for bytes that belong to
   * no character. Lives until the next call of `generate` of this run. */
  const char* text_ref;
  size_t num_text_bytes; /* without the NUL at the end */
  size_t num_prompt_tokens;
  size_t num_tokens; /* new tokens, without the end-of-text token */
  uint32_t finish;   /* TENON_TEXT_*: why the text ended */
  uint32_t reserved;
} tenon_text_result;
TENON_SEAL(tenon_text_result, reserved);

/* Service TENON_TEXT_GENERATION_ID. `run` is that of the event. The tags below hold for both
 * functions.
 *
 * Errors   TENON_INVALID for a null argument, a value out of range, or a hook that does not declare
 *          uses_collectives; an error with the id generate.no_tokenizer, generate.no_template or
 *          generate.not_possible if the recipe has no tokenizer, the tokenizer no chat template, or
 *          the model cannot continue the text; errors of the model and the tokenizer
 * Threads  those of the event, and only during it */
typedef struct tenon_text_generation_api {
  size_t struct_size;
  /* Checks that `generate` could continue a text, without running the model. Call it at `start`, so
   * that a mistake in the recipe ends the run before its first step.
   *
   * Owner    `request` is borrowed until return
   * Since    0.5 */
  tenon_status* (*check)(tenon_run* run, const tenon_text_request* request);
  /* Continues a text: at after_load, after_step, after_evaluate, after_window and after_epoch, and
   * at `end` unless the run failed. If a rank is lost, the run ends.
   *
   * Errors   TENON_INVALID at another event
   * Owner    `request` and `out` are borrowed until return
   * Since    0.5 */
  tenon_status* (*generate)(tenon_run* run,
                            const tenon_text_request* request,
                            tenon_text_result* out);
} tenon_text_generation_api;
TENON_SEAL(tenon_text_generation_api, generate);
TENON_SLOT(tenon_text_generation_api, check, 0);
TENON_SLOT(tenon_text_generation_api, generate, 1);

TENON_C_END
#endif
