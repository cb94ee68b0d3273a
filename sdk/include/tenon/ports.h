/* SPDX-License-Identifier: Apache-2.0
 *
 * How a component says what goes in and out of it: named, typed ports with named axes. The host
 * matches the ports of dataset, model, loss and metric before the first step, and names both sides
 * where they differ. */
#ifndef TENON_PORTS_H
#define TENON_PORTS_H

#include "tensor.h"

TENON_C_BEGIN

/* What a port holds, where the exact dtype is the host's to choose. Values below TENON_CLASS_FIRST
 * are dtypes, and then mean exactly that dtype. */
enum {
  TENON_CLASS_FIRST = 100,
  TENON_CLASS_COMPUTE = 100, /* floating point of the run's compute precision */
  TENON_CLASS_PARAM = 101,   /* floating point of the stored parameters */
  TENON_CLASS_FLOAT = 102,   /* any floating point */
  TENON_CLASS_INTEGER = 103, /* any integer */
  TENON_CLASS_ANY = 104
};

/* One axis. `name` may be null; equal names mean equal sizes within one batch. "B" counts samples,
 * "T" positions. `size` is -1 where it is known only at run time. */
typedef struct tenon_axis {
  const char* name;
  int64_t size;
} tenon_axis;

enum { TENON_PORT_OPTIONAL = 1u << 0 };

/* What a loss or metric wants. A recipe maps `name` elsewhere by "inputs". */
typedef struct tenon_port {
  size_t struct_size;
  const char* name;       /* of a model output or a batch field; outputs are looked for first */
  uint32_t dtype;         /* a dtype or a class */
  uint32_t flags;         /* TENON_PORT_* */
  const tenon_axis* axes; /* null: any shape */
  size_t num_axes;
} tenon_port;
TENON_SEAL(tenon_port, num_axes);

TENON_C_END
#endif
