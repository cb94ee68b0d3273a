/* SPDX-License-Identifier: Apache-2.0
 *
 * The first argument after `self` of every call that computes: where, when and for what the call
 * runs. All it points to is valid until the call returns. Results need be ready in stream order
 * only. */
#ifndef TENON_EXEC_H
#define TENON_EXEC_H

#include "op.h"

TENON_C_BEGIN

/* Dimensions of the mesh of ranks. Data-parallel = replicate x shard. */
enum {
  TENON_MESH_REPLICATE = 0,
  TENON_MESH_SHARD = 1,
  TENON_MESH_TENSOR = 2,
  TENON_MESH_CONTEXT = 3,
  TENON_MESH_PIPELINE = 4,
  TENON_MESH_EXPERT = 5,
  TENON_MESH_DIMS = 8 /* room for two more */
};

typedef struct tenon_mesh {
  size_t struct_size;
  uint32_t rank;
  uint32_t world_size;
  uint32_t coordinate[TENON_MESH_DIMS];
  uint32_t size[TENON_MESH_DIMS]; /* 1 where a dimension is not used */
} tenon_mesh;
TENON_SEAL(tenon_mesh, size);

typedef struct tenon_exec tenon_exec;

struct tenon_exec {
  size_t struct_size;
  const tenon_host* host;
  tenon_device device;
  void* stream; /* cudaStream_t; null on a CPU. The default stream is never used */
  uint64_t
      seed; /* of this call: run, step, microbatch, block and data rank; equal in a recompute */
  uint64_t step;          /* from 1; 0 before the first */
  uint32_t microbatch;    /* from 0 */
  uint32_t is_train;      /* 0 in evaluation */
  uint32_t is_recompute;  /* forward is run again for backward: no side effects */
  uint32_t compute_dtype; /* of floating-point activations */
  const tenon_mesh* mesh;
  const tenon_tensor_api* tensors;
  const tenon_op_api* ops;

  /* Waits for the device. The run report counts it by plugin: use it only where data must be read.
   * Threads as the call that got this exec */
  tenon_status* (*sync)(const tenon_exec* exec);
};
TENON_SEAL(tenon_exec, sync);

TENON_C_END
#endif
