/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes where and for what a call runs. It is the first argument after `self` of every function
 * that computes or reads data. The struct and everything it points to is valid until the call
 * returns. Pass on its address and never copy the struct: its functions find the host's data behind
 * it. Results only have to be ready in stream order. */
#ifndef TENON_EXEC_H
#define TENON_EXEC_H

#include "op.h"

TENON_C_BEGIN

/* Dimensions of the mesh of ranks. The number of data-parallel ranks is replicate x shard. */
enum {
  TENON_MESH_REPLICATE = 0,
  TENON_MESH_SHARD = 1,
  TENON_MESH_TENSOR = 2,   /* always of size 1 in this host */
  TENON_MESH_CONTEXT = 3,  /* ranks that divide the positions of the same samples */
  TENON_MESH_PIPELINE = 4, /* always of size 1 in this host */
  TENON_MESH_EXPERT = 5,   /* always of size 1 in this host */
  TENON_MESH_DIMS = 8      /* capacity, including two spare dimensions */
};

/* Position of this rank in the mesh. */
typedef struct tenon_mesh {
  size_t struct_size;
  uint32_t rank;                        /* in [0, world_size) */
  uint32_t world_size;                  /* number of ranks, at least 1 */
  uint32_t coordinate[TENON_MESH_DIMS]; /* position along each dimension, in [0, size) */
  uint32_t size[TENON_MESH_DIMS];       /* 1 for an unused dimension */
} tenon_mesh;
TENON_SEAL(tenon_mesh, size);

/* Mode: what a call is for. */
enum {
  TENON_MODE_EVALUATE = 0,
  TENON_MODE_TRAIN = 1,
  TENON_MODE_PREFILL = 2, /* generation: reads the prompt. Since 0.5 */
  TENON_MODE_DECODE = 3   /* generation: continues a sequence. Since 0.5 */
};

/* Context of a call. */
struct tenon_exec {
  size_t struct_size;
  const tenon_host* host; /* the plugin's host handle */
  tenon_device device;    /* where tensor arguments are and results must be */
  void* stream; /* cudaStream_t to queue work on; null on a CPU. It is never the default stream */
  /* Seed of this call, derived from run seed, step, microbatch, block and data-parallel rank. A
   * recompute gets the same seed. */
  uint64_t seed;
  uint64_t step;          /* training step, from 1; 0 before the first */
  uint32_t microbatch;    /* index within the step, from 0 */
  uint32_t mode;          /* TENON_MODE_* */
  uint32_t is_recompute;  /* 1: forward runs again for backward and must have no side effects */
  uint32_t compute_dtype; /* dtype of floating-point activations, TENON_F32 etc. */
  const tenon_mesh* mesh; /* position of this rank; never null; valid for the whole run */
  const tenon_tensor_api* tensors; /* tensor service */
  const tenon_op_api* ops;         /* operator service */

  /* Waits until the device has finished the work queued so far. The run report counts the waits of
   * each plugin, so call it only to read data.
   *
   * Errors   TENON_INVALID if `exec` is null; TENON_INTERNAL if the device failed
   * Threads  the thread of the call that received this exec
   * Since    0.1 */
  tenon_status* (*sync)(const tenon_exec* exec);
  /* Returns 1 if the run is about to end, because it was asked to stop. A call that waits or takes
   * long may then give up with TENON_CANCELLED, which is not an error of the component. A null
   * `exec` gives 0.
   *
   * Threads  [any], until the call that received this exec returns
   * Since    0.4 */
  uint32_t (*stop_requested)(const tenon_exec* exec);
};
TENON_SEAL(tenon_exec, stop_requested);

TENON_C_END
#endif
