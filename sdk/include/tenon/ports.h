/* SPDX-License-Identifier: Apache-2.0
 *
 * Declares the inputs and outputs of a component: named, typed ports with named axes. Before the
 * first step, the host matches the ports of dataset, model, loss and metric. If two sides disagree,
 * the error names both. */
#ifndef TENON_PORTS_H
#define TENON_PORTS_H

#include "tensor.h"

TENON_C_BEGIN

/* Dtype class of a port, used if the host chooses the exact dtype. Values below TENON_CLASS_FIRST
 * are dtypes (tensor.h) and mean exactly that dtype. */
enum {
  TENON_CLASS_FIRST = 100,   /* smallest value that is a class */
  TENON_CLASS_COMPUTE = 100, /* the floating-point dtype of the run's compute precision */
  TENON_CLASS_PARAM = 101,   /* the floating-point dtype of the stored parameters */
  TENON_CLASS_FLOAT = 102,   /* any floating-point dtype */
  TENON_CLASS_INTEGER = 103, /* any integer dtype */
  TENON_CLASS_ANY = 104      /* any dtype */
};

/* One axis of a port. */
typedef struct tenon_axis {
  /* May be null; axes with equal names have equal sizes within a batch. "B" counts samples, "T"
   * positions. */
  const char* name;
  int64_t size; /* -1: known only at run time */
} tenon_axis;

/* Flags of a port. OPTIONAL: the input is null if nothing provides it. */
enum { TENON_PORT_OPTIONAL = 1u << 0 };

/* An input of a loss or metric. The key "inputs" in a recipe maps `name` to another output or
 * field. */
typedef struct tenon_port {
  size_t struct_size;
  const char* name;       /* a model output or batch field; outputs are searched first */
  uint32_t dtype;         /* a dtype or a class */
  uint32_t flags;         /* TENON_PORT_* */
  const tenon_axis* axes; /* null: any shape */
  size_t num_axes;
} tenon_port;
TENON_SEAL(tenon_port, num_axes);

TENON_C_END
#endif
