/* SPDX-License-Identifier: Apache-2.0
 *
 * Any operator of libtorch's dispatcher, by name, without libtorch's headers: `aten::matmul`,
 * `aten::add.Tensor`, or one that another library registered. Calls are recorded by autograd where
 * the caller's context records (a block's forward, a loss's compute).
 * A look-up costs a hash; keep the `tenon_op` of an operator that is called each step. */
#ifndef TENON_OP_H
#define TENON_OP_H

#include "tensor.h"

TENON_C_BEGIN

typedef struct tenon_op tenon_op;

/* Tags of tenon_any. A schema's type decides how a value is read: INT serves int, float, Scalar,
 * dtype, layout and memory format; DOUBLE serves float and Scalar; NONE serves every optional. */
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
  TENON_ANY_DTYPE = 10, /* in i */
  TENON_ANY_DEVICE = 11,
  TENON_ANY_DEFAULT = 12 /* whatever the schema says */
};

typedef struct tenon_any {
  uint32_t tag;
  uint32_t reserved; /* 0 */
  size_t count;      /* of the list tags */
  union {
    int64_t i;
    double d;
    bool b;
    const char* s;
    tenon_device device;
    tenon_tensor* tensor;
    tenon_tensor* const* tensors;
    const int64_t* ints;
    const double* doubles;
    const bool* bools;
  } v;
} tenon_any;
TENON_STATIC_ASSERT(sizeof(tenon_any) == 24, "tenon_any is a value of three words");

#define TENON_OP_ID "tenon.op/1"

typedef struct tenon_op_api {
  size_t struct_size;

  /* Finds an operator. `name` has its overload after a dot, as in "aten::add.Tensor"; without one
   * the default overload is meant. Errors   TENON_NOT_FOUND, naming the nearest Threads  [any]
   * Owner    *out_ref lives as long as the process
   * Since    0.1 */
  tenon_status* (*find)(const tenon_host* host, const char* name, const tenon_op** out_ref);

  /* Calls it with positional arguments; those left out at the end take the schema's defaults.
   * Errors   TENON_INVALID: too many arguments, a value that the schema does not take (the message
   * has the schema), or what the operator itself throws Threads  [step], [worker] Owner arguments
   * are borrowed. Results that are tensors are new handles, which the caller releases.
   *          *io_num_results holds the room in `results` and receives the number of results. A
   * result that is a list of tensors is spread over `results` */
  tenon_status* (*call)(const tenon_host* host,
                        const tenon_op* op,
                        const tenon_any* args,
                        size_t num_args,
                        tenon_any* results,
                        size_t* io_num_results);

  /* The schema, "aten::add.Tensor(Tensor self, ...) -> Tensor".  Threads [any]; lives with the
   * process */
  const char* (*schema)(const tenon_op* op);
} tenon_op_api;

TENON_SEAL(tenon_op_api, schema);
TENON_SLOT(tenon_op_api, find, 0);
TENON_SLOT(tenon_op_api, schema, 2);

TENON_C_END
#endif
