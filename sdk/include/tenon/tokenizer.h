/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a tokenizer, which converts text to token ids and back. The host creates one for each
 * component whose options name it. */
#ifndef TENON_TOKENIZER_H
#define TENON_TOKENIZER_H

#include "component.h"

TENON_C_BEGIN

#define TENON_TOKENIZER_ID "tenon.tokenizer/1"

/* Result of `describe`. */
typedef struct tenon_tokenizer_info {
  size_t struct_size; /* set by the host, which also zeroes the other fields */
  int64_t vocab_size; /* ids are in [0, vocab_size) */
  int64_t bos;        /* ids of the special tokens; -1 if the vocabulary lacks one */
  int64_t eos;
  int64_t pad;
  /* K > 0: every k bytes are one token, so reading can start anywhere; 0: variable. */
  uint32_t bytes_per_token;
  uint32_t reserved;
} tenon_tokenizer_info;
TENON_SEAL(tenon_tokenizer_info, reserved);

/* Receives ids or bytes, in one or several calls. An error stops the caller and is passed on. The
 * data is borrowed until the sink returns. */
typedef tenon_status* (*tenon_ids_sink)(void* context, const int32_t* ids, size_t n);
typedef tenon_status* (*tenon_bytes_sink)(void* context, const char* bytes, size_t n);

/* Arguments of `encode`. All pointers are borrowed until return. */
typedef struct tenon_encode_args {
  size_t struct_size;
  const char* bytes; /* [num_bytes] the text; need not end with a NUL */
  size_t num_bytes;
  tenon_ids_sink sink; /* receives the ids, in order */
  void* context;       /* first argument of `sink` */
} tenon_encode_args;
TENON_SEAL(tenon_encode_args, context);

/* Arguments of `decode`. All pointers are borrowed until return. */
typedef struct tenon_decode_args {
  size_t struct_size;
  const int32_t* ids; /* [num_ids] */
  size_t num_ids;
  tenon_bytes_sink sink; /* receives the bytes, in order */
  void* context;         /* first argument of `sink` */
} tenon_decode_args;
TENON_SEAL(tenon_decode_args, context);

/* Interface TENON_TOKENIZER_ID. Its callers are other components, so it takes no exec. */
typedef struct tenon_tokenizer {
  size_t struct_size;
  /* Describes the vocabulary. The result does not change during the instance's life.
   *
   * Threads  [any]
   * Since    0.1 */
  tenon_status* (*describe)(void* self, tenon_tokenizer_info* out);
  /* Encodes text and passes the ids to the sink.
   *
   * Errors   TENON_INVALID for text it cannot encode, with the byte offset; errors of the sink
   * Threads  [any], also concurrently
   * Owner    `args` is borrowed until return
   * Since    0.1 */
  tenon_status* (*encode)(void* self, const tenon_encode_args* args);
  /* Decodes ids and passes the bytes to the sink.
   *
   * Errors   TENON_INVALID for an id outside of the vocabulary; errors of the sink
   * Threads  [any], also concurrently
   * Owner    `args` is borrowed until return
   * Since    0.1 */
  tenon_status* (*decode)(void* self, const tenon_decode_args* args);
} tenon_tokenizer;
TENON_SEAL(tenon_tokenizer, decode);
TENON_SLOT(tenon_tokenizer, describe, 0);
TENON_SLOT(tenon_tokenizer, encode, 1);
TENON_SLOT(tenon_tokenizer, decode, 2);

TENON_C_END
#endif
