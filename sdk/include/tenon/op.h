/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls any operator of libtorch's dispatcher by name, without libtorch's headers: `aten::matmul`,
 * `aten::add.Tensor`, or an operator that another library registered. Autograd records a call if it
 * records in the caller's context (a block's forward, a loss's compute).
 *
 * A lookup costs a hash; keep the `tenon_op` of an operator that you call in each step. */
#ifndef TENON_OP_H
#define TENON_OP_H

#include "tensor.h"

TENON_C_BEGIN

/* An operator. Opaque; it lives as long as the process. */
typedef struct tenon_op tenon_op;

/* Tags of tenon_any. The type in the schema determines how a value is read. INT is valid for int,
 * float, Scalar, dtype, layout and memory format; DOUBLE for float and Scalar; NONE for every
 * optional. */
enum {
  TENON_ANY_NONE = 0,
  TENON_ANY_TENSOR = 1,
  TENON_ANY_TENSORS = 2, /* a null entry is an absent tensor (Tensor?[]) */
  TENON_ANY_INT = 3,
  TENON_ANY_INTS = 4,
  TENON_ANY_DOUBLE = 5,
  TENON_ANY_DOUBLES = 6,
  TENON_ANY_BOOL = 7,
  TENON_ANY_BOOLS = 8,
  TENON_ANY_STRING = 9,
  TENON_ANY_DTYPE = 10, /* in `i`, TENON_F32 etc. */
  TENON_ANY_DEVICE = 11,
  TENON_ANY_DEFAULT = 12 /* the default of the schema */
};

/* One argument or result. Arguments are borrowed until the call returns. */
typedef struct tenon_any {
  uint32_t tag;      /* TENON_ANY_*; selects the member of `v` */
  uint32_t reserved; /* 0 */
  size_t count;      /* number of elements for the list tags; otherwise 0 */
  union {
    int64_t i;
    double d;
    uint32_t b;
    const char* s;
    tenon_device device;
    tenon_tensor* tensor;
    tenon_tensor* const* tensors;
    const int64_t* ints;
    const double* doubles;
    const uint32_t* bools;
  } v;
} tenon_any;
TENON_STATIC_ASSERT(sizeof(tenon_any) == 24, "tenon_any is a value of three words");

#define TENON_OP_ID "tenon.op/1"

/* Service TENON_OP_ID. */
typedef struct tenon_op_api {
  size_t struct_size;

  /* Finds an operator. `name` has its overload after a dot, as in "aten::add.Tensor". A name
   * without a dot means the default overload.
   *
   * Errors   TENON_NOT_FOUND, with the most similar names
   * Threads  [any]
   * Owner    *out_ref lives as long as the process
   * Since    0.1 */
  tenon_status* (*find)(const tenon_host* host, const char* name, const tenon_op** out_ref);

  /* Calls an operator with positional arguments. Trailing arguments that are not given take the
   * defaults of the schema.
   *
   * Shapes   *io_num_results holds the capacity of `results` and receives the number of results; a
   *          result that is a list of tensors takes one entry per tensor
   * Errors   TENON_INVALID for too many arguments, a value of the wrong type (the message has the
   *          schema), an error of the operator itself, or a capacity that is too small: for a
   *          list of unknown length this is known only after the operator ran
   * Threads  [step], [worker]
   * Owner    arguments are borrowed; tensor results are new handles, which the caller releases
   * Since    0.1 */
  tenon_status* (*call)(const tenon_host* host,
                        const tenon_op* op,
                        const tenon_any* args,
                        size_t num_args,
                        tenon_any* results,
                        size_t* io_num_results);

  /* Returns the schema, for example "aten::add.Tensor(Tensor self, ...) -> Tensor".
   *
   * Threads  [any]
   * Owner    the string lives as long as the process
   * Since    0.1 */
  const char* (*schema)(const tenon_op* op);
} tenon_op_api;

TENON_SEAL(tenon_op_api, schema);
TENON_SLOT(tenon_op_api, find, 0);
TENON_SLOT(tenon_op_api, schema, 2);

TENON_C_END
#endif
