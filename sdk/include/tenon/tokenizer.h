/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a tokenizer, which converts text to token ids and back. The host creates one for each
 * component whose options name it. */
#ifndef TENON_TOKENIZER_H
#define TENON_TOKENIZER_H

#include "component.h"

TENON_C_BEGIN

#define TENON_TOKENIZER_ID "tenon.tokenizer/1"

/* A special token that templates refer to by name. */
typedef struct tenon_special_token {
  size_t struct_size;
  const char* name; /* "bos_token", "eos_token", "pad_token", "unk_token", ... */
  const char* text; /* "<s>" */
  int64_t id;       /* in [0, vocab_size) */
} tenon_special_token;
TENON_SEAL(tenon_special_token, id);

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
  /* Jinja template that renders a chat as text; null: none. Lives as long as the instance, as does
   * the array below. Since 0.5 */
  const char* chat_template_ref;
  const tenon_special_token* specials_ref; /* [num_specials] with unique names. Since 0.5 */
  size_t num_specials;
} tenon_tokenizer_info;
TENON_SEAL(tenon_tokenizer_info, num_specials);

/* Receives ids, bytes, ids with the ranges of bytes that they stand for, or a file. All but the
 * last may be called several times with consecutive parts of the result. An error stops the caller
 * and is passed on. The data is borrowed until the sink returns. */
typedef tenon_status* (*tenon_ids_sink)(void* context, const int32_t* ids, size_t n);
typedef tenon_status* (*tenon_bytes_sink)(void* context, const char* bytes, size_t n);
/* Token i stands for the bytes [begins[i], ends[i]) of the text. Begins never decrease. Several
 * tokens may stand for the same bytes (the bytes of one character). A token that was added without
 * text has an empty range. */
typedef tenon_status* (*tenon_tokens_sink)(
    void* context, const int32_t* ids, const int64_t* begins, const int64_t* ends, size_t n);
typedef tenon_status* (*tenon_file_sink)(void* context,
                                         const char* name,
                                         const char* bytes,
                                         size_t num_bytes);

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

/* Kind of a piece of text. */
enum {
  TENON_PIECE_TEXT = 0,    /* of a user or a document: special tokens in it stay plain text */
  TENON_PIECE_TEMPLATE = 1 /* of a template: special tokens in it are recognized */
};

/* A piece of a text. */
typedef struct tenon_text_piece {
  size_t struct_size;
  const char* bytes; /* [num_bytes] need not end with a NUL */
  size_t num_bytes;
  uint32_t kind; /* TENON_PIECE_* */
  uint32_t reserved;
} tenon_text_piece;
TENON_SEAL(tenon_text_piece, reserved);

/* Flags of `encode_pieces`. */
enum {
  /* Also the tokens that the vocabulary puts around a text (bos, eos, [CLS]), with empty ranges. */
  TENON_ENCODE_AROUND = 1u << 0
};

/* Arguments of `encode_pieces`. All pointers are borrowed until return. */
typedef struct tenon_encode_pieces_args {
  size_t struct_size;
  const tenon_text_piece* pieces; /* [num_pieces] in order; together they are one text */
  size_t num_pieces;
  uint32_t flags; /* TENON_ENCODE_* */
  uint32_t reserved;
  tenon_tokens_sink sink; /* receives the tokens, in order */
  void* context;          /* first argument of `sink` */
} tenon_encode_pieces_args;
TENON_SEAL(tenon_encode_pieces_args, context);

/* Arguments of `files`. All pointers are borrowed until return. */
typedef struct tenon_tokenizer_files_args {
  size_t struct_size;
  tenon_file_sink sink; /* receives each file once, whole */
  void* context;        /* first argument of `sink` */
} tenon_tokenizer_files_args;
TENON_SEAL(tenon_tokenizer_files_args, context);

/* Interface TENON_TOKENIZER_ID. Its callers are other components, so it takes no exec. */
typedef struct tenon_tokenizer {
  size_t struct_size;
  /* Describes the vocabulary. The result does not change during the instance's life.
   *
   * Threads  [any]
   * Since    0.1 */
  tenon_status* (*describe)(void* self, tenon_tokenizer_info* out);
  /* Encodes text and passes the ids to the sink. The text is one piece of kind TEXT, and no token
   * is added around it.
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
  /* Encodes one text that consists of pieces, and passes ids and byte ranges to the sink. Ranges
   * count bytes from the start of the first piece. A special token is recognized only if all of its
   * text lies in pieces of kind TEMPLATE. The borders of pieces have no other effect: a token may
   * contain bytes of two pieces. Null: no chats can be encoded.
   *
   * Errors   TENON_INVALID for text it cannot encode, with the byte offset; errors of the sink
   * Threads  [any], also concurrently
   * Owner    `args` is borrowed until return
   * Since    0.5 */
  tenon_status* (*encode_pieces)(void* self, const tenon_encode_pieces_args* args);
  /* Passes the files that describe the tokenizer to other programs ("tokenizer.json"), to be
   * written next to exported weights. Null: there are none.
   *
   * Errors   TENON_IO; errors of the sink
   * Threads  [main]
   * Owner    `args` is borrowed until return
   * Since    0.5 */
  tenon_status* (*files)(void* self, const tenon_tokenizer_files_args* args);
} tenon_tokenizer;
TENON_SEAL(tenon_tokenizer, files);
TENON_SLOT(tenon_tokenizer, describe, 0);
TENON_SLOT(tenon_tokenizer, encode, 1);
TENON_SLOT(tenon_tokenizer, decode, 2);
TENON_SLOT(tenon_tokenizer, encode_pieces, 3);
TENON_SLOT(tenon_tokenizer, files, 4);

TENON_C_END
#endif
