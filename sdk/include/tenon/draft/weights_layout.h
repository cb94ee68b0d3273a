/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps a model's parameters to the weight files of another program. It is an optional ability of a
 * model, with which the host exports and imports weights. The host knows how such a layout stores
 * tensors ("hf": a directory of safetensors files next to a config.json). The model knows the names
 * of the tensors and the contents of the description file.
 *
 * A tensor of a file is a parameter, the transpose of a parameter, several parameters concatenated
 * along the first axis, or a slice of a parameter (one of several experts). No function here
 * accesses tensor data. */
#ifndef TENON_DRAFT_WEIGHTS_LAYOUT_H
#define TENON_DRAFT_WEIGHTS_LAYOUT_H

#include "../model.h"
#include "../options.h"

TENON_C_BEGIN

#define TENON_WEIGHTS_LAYOUT_ID "tenon.weights_layout/1"

/* Flags of a layout tensor. */
enum {
  /* The file stores the parameter with its two axes exchanged. */
  TENON_LAYOUT_TRANSPOSED = 1u << 0,
  /* The tensor is another name of a parameter that an earlier tensor stores. It is not written, and
   * may be missing in files that are read. If it exists, it must have the same values. */
  TENON_LAYOUT_ALIAS = 1u << 1,
  /* The tensor is the slice `index` of the parameter along its first axis, without that axis. The
   * slices of a parameter are all in files, and have the same flags. `first` is 0. */
  TENON_LAYOUT_SLICE = 1u << 2
};

/* Maps one tensor of the files to a parameter. All pointers are borrowed until `add_tensor`
 * returns. */
typedef struct tenon_layout_tensor {
  size_t struct_size;
  const char* name; /* name of the tensor in the files */
  /* Name of the parameter in the model's `describe`, or of a TENON_BUFFER_STATE buffer. */
  const char* parameter;
  uint32_t flags; /* TENON_LAYOUT_* */
  uint32_t reserved;
  /* First row of the file's tensor that belongs to the parameter; 0 if the parameter is the whole
   * tensor. Parameters in one tensor leave no gaps. */
  int64_t first;
  int64_t index; /* number of the slice; 0 without TENON_LAYOUT_SLICE */
} tenon_layout_tensor;
TENON_SEAL(tenon_layout_tensor, index);

/* Receives the layout. The tags below hold for every function.
 *
 * Errors   TENON_INVALID for a parameter that does not exist, or a row range or file that is given
 *          twice
 * Threads  those of `describe`, and only during it
 * Owner    arguments are copied
 * Since    0.1 */
typedef struct tenon_layout_builder tenon_layout_builder;
struct tenon_layout_builder {
  size_t struct_size;
  void* impl;
  /* Maps one tensor. */
  tenon_status* (*add_tensor)(tenon_layout_builder* builder, const tenon_layout_tensor* tensor);
  /* Adds a text file next to the tensors, for example "config.json". Include only facts that hold
   * for the model. */
  tenon_status* (*add_file)(tenon_layout_builder* builder, const char* name, const char* text);
};
TENON_SEAL(tenon_layout_builder, add_file);

/* Receives differences, in terms that users know: an option of the model, its value here, and its
 * value in the files.
 *
 * Threads  those of `compare`, and only during it
 * Owner    arguments are copied
 * Since    0.1 */
typedef struct tenon_layout_differences tenon_layout_differences;
struct tenon_layout_differences {
  size_t struct_size;
  void* impl;
  /* Adds one difference. */
  tenon_status* (*add)(tenon_layout_differences* differences,
                       const char* option,
                       const char* here,
                       const char* there);
};
TENON_SEAL(tenon_layout_differences, add);

/* Extension TENON_WEIGHTS_LAYOUT_ID of a model. */
typedef struct tenon_weights_layout {
  size_t struct_size;

  /* Describes the tensors of all parameters in the named layout, and the files next to them.
   * `dtype` is the dtype of most written tensors.
   *
   * Errors   TENON_UNSUPPORTED, with the reason, for a layout that the model does not have or that
   *          cannot express the model's options
   * Threads  [main], after `describe` of the model
   * Owner    all arguments are borrowed until return
   * Since    0.1 */
  tenon_status* (*describe)(void* self,
                            const char* layout,
                            uint32_t dtype,
                            tenon_layout_builder* builder);

  /* Reports where the description next to other weights ("hf": config.json) contradicts the
   * function that this model computes. Keys without influence are skipped. `config` is read by JSON
   * pointer ("/hidden_size", options.h).
   *
   * Errors   TENON_UNSUPPORTED, as for `describe`
   * Threads  [main]
   * Owner    all arguments are borrowed until return
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
