/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model's parameters are called in the files of another program: an optional ability of a
 * model, by which the host exports weights and imports them. The host knows how such a layout keeps
 * tensors ("hf": a folder of safetensors files beside a config.json); the model knows their names,
 * and what the description beside them says.
 *
 * A tensor of a file is a parameter, the transpose of one, or several parameters one after the
 * other along its first axis. Nothing here touches a tensor. */
#ifndef TENON_DRAFT_WEIGHTS_LAYOUT_H
#define TENON_DRAFT_WEIGHTS_LAYOUT_H

#include "../model.h"
#include "../options.h"

TENON_C_BEGIN

#define TENON_WEIGHTS_LAYOUT_ID "tenon.weights_layout/1"

enum {
  /* The file has the parameter with its two axes exchanged. */
  TENON_LAYOUT_TRANSPOSED = 1u << 0,
  /* Another name of a parameter that a tensor before this one is: it is not written, and may be
   * missing where files are read; where it is there, it must have the same values. */
  TENON_LAYOUT_ALIAS = 1u << 1
};

/* A parameter's place in the files. */
typedef struct tenon_layout_tensor {
  size_t struct_size;
  const char* name; /* of the file's tensor */
  const char*
      parameter;  /* as `describe` of the model named it; or a buffer of TENON_BUFFER_STATE */
  uint32_t flags; /* TENON_LAYOUT_* */
  uint32_t reserved;
  int64_t first; /* the row of the file's tensor that the parameter begins at; 0 where it is all of
                    it. Parameters in one tensor leave no gaps */
} tenon_layout_tensor;
TENON_SEAL(tenon_layout_tensor, first);

/* Where a layout is described to. All is copied.
 * Errors  TENON_INVALID: a parameter that is not there, a place or a file named twice */
typedef struct tenon_layout_builder tenon_layout_builder;
struct tenon_layout_builder {
  size_t struct_size;
  void* impl;
  tenon_status* (*add_tensor)(tenon_layout_builder* builder, const tenon_layout_tensor* tensor);
  /* A text file that stands beside the tensors, "config.json". Only what is true of the model. */
  tenon_status* (*add_file)(tenon_layout_builder* builder, const char* name, const char* text);
};
TENON_SEAL(tenon_layout_builder, add_file);

/* Where differences are told to, each in the words that a user has: an option of the model, what it
 * is here, and what the files say. */
typedef struct tenon_layout_differences tenon_layout_differences;
struct tenon_layout_differences {
  size_t struct_size;
  void* impl;
  tenon_status* (*add)(tenon_layout_differences* differences,
                       const char* option,
                       const char* here,
                       const char* there);
};
TENON_SEAL(tenon_layout_differences, add);

typedef struct tenon_weights_layout {
  size_t struct_size;

  /* The places of all parameters in the layout of that name, and the files beside them. `dtype` is
   * that of most of the tensors as they are written.
   * Errors   TENON_UNSUPPORTED for a layout that the model does not have, or cannot be written in
   *          with its options, with the reason
   * Threads  [main], after `describe` of the model
   * Since    0.1 */
  tenon_status* (*describe)(void* self,
                            const char* layout,
                            uint32_t dtype,
                            tenon_layout_builder* builder);

  /* Tells what the description beside other tensors ("hf": config.json) says of the function that
   * they are of, where that is not what this model computes. Keys that change nothing are passed
   * over. `config` is read by pointer ("/hidden_size", options.h).
   * Errors   TENON_UNSUPPORTED as above
   * Threads  [main]
   * Owner    borrowed
   * Since    0.1 */
  tenon_status* (*compare)(void* self,
                           const char* layout,
                           const tenon_options* config,
                           tenon_layout_differences* differences);
} tenon_weights_layout;

TENON_SEAL(tenon_weights_layout, compare);
TENON_SLOT(tenon_weights_layout, describe, 0);
TENON_SLOT(tenon_weights_layout, compare, 1);

TENON_C_END
#endif
