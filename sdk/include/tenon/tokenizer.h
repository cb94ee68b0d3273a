/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer: text to ids and back. The host makes it for components whose options name one. */
#ifndef TENON_TOKENIZER_H
#define TENON_TOKENIZER_H

#include "component.h"

TENON_C_BEGIN

#define TENON_TOKENIZER_ID "tenon.tokenizer/1"

typedef struct tenon_tokenizer_info {
  size_t struct_size; /* set by the host, who also zeroes the rest */
  int64_t vocab_size; /* ids are in [0, vocab_size) */
  int64_t bos;        /* special ids, or -1 */
  int64_t eos;
  int64_t pad;
  uint32_t bytes_per_token; /* k > 0: every k bytes are one token, so that text can be read from its
                               middle; else 0 */
  uint32_t reserved;
} tenon_tokenizer_info;
TENON_SEAL(tenon_tokenizer_info, reserved);

/* Receives ids or bytes, in one call or many. */
typedef tenon_status* (*tenon_ids_sink)(void* context, const int32_t* ids, size_t n);
typedef tenon_status* (*tenon_bytes_sink)(void* context, const char* bytes, size_t n);

typedef struct tenon_tokenizer {
  size_t struct_size;
  /* Threads [any]  Since 0.1 */
  tenon_status* (*describe)(void* self, tenon_tokenizer_info* out);
  /* Errors TENON_INVALID for text it cannot encode, with the byte offset; what the sink returned
   * Threads [any], also at once  Since 0.1 */
  tenon_status* (*encode)(
      void* self, const char* bytes, size_t n, tenon_ids_sink sink, void* context);
  tenon_status* (*decode)(
      void* self, const int32_t* ids, size_t n, tenon_bytes_sink sink, void* context);
} tenon_tokenizer;
TENON_SEAL(tenon_tokenizer, decode);
TENON_SLOT(tenon_tokenizer, describe, 0);
TENON_SLOT(tenon_tokenizer, decode, 2);

TENON_C_END
#endif
