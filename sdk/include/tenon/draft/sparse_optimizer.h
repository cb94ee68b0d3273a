/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a sparse optimizer, which updates the rows of an embedding table that a step used. The
 * host owns the table (ids, rows, growth, eviction, sharding, saving). The optimizer declares the
 * state of a row and applies one formula to n rows.
 *
 * Row r is at `blocks[r >> shift] + (r & ((1 << shift) - 1)) * stride`, and its fields are at fixed
 * offsets from there, in CPU and device memory alike. tenon_row_field() implements this formula.
 *
 * The options must include a number "lr". The host multiplies it by schedule and factor, and passes
 * the product to `update`; the instance itself ignores "lr". The host creates one instance per
 * table. */
#ifndef TENON_DRAFT_SPARSE_OPTIMIZER_H
#define TENON_DRAFT_SPARSE_OPTIMIZER_H

#include "../component.h"
#include "../ports.h"

TENON_C_BEGIN

#define TENON_SPARSE_OPTIMIZER_ID "tenon.sparse_optimizer/1"

/* Shape of a row's state (slot). */
enum {
  TENON_ROW_SLOT_LIKE_VALUE = 0, /* `dim` values per row */
  TENON_ROW_SLOT_SCALAR = 1      /* one value per row */
};

/* Support for values narrower than fp32. */
enum {
  TENON_NARROW_REFUSED = 0,    /* not supported: the host rejects a recipe with narrow values */
  TENON_NARROW_STOCHASTIC = 1, /* the optimizer rounds stochastically (see `update`) */
  /* The host adds a field of fp32 masters; the optimizer updates the master and rounds it to
   * nearest. */
  TENON_NARROW_MASTER = 2
};

/* Declares one slot of optimizer state per row. */
typedef struct tenon_row_slot_spec {
  size_t struct_size;
  const char* name; /* unique in the optimizer, for example "exp_avg" */
  uint32_t shape;   /* TENON_ROW_SLOT_* */
  uint32_t dtype;   /* a dtype, not a class */
  double init;      /* initial value in a new row, also if the id returns after an eviction */
} tenon_row_slot_spec;
TENON_SEAL(tenon_row_slot_spec, init);

/* Result of `describe`. */
typedef struct tenon_sparse_optimizer_info {
  size_t struct_size; /* set by the host, which also zeroes the other fields */
  uint32_t narrow;    /* TENON_NARROW_* */
  uint32_t devices;   /* where `update` runs: 1u << TENON_CPU, 1u << TENON_CUDA, or both */
  const tenon_row_slot_spec* slots_ref; /* [num_slots] lives as long as the instance */
  size_t num_slots;
} tenon_sparse_optimizer_info;
TENON_SEAL(tenon_sparse_optimizer_info, num_slots);

/* Locates the fields of a row. Offsets and stride are in bytes, a multiple of the field's size, and
 * at most 2^31 - 1. */
typedef struct tenon_row_layout {
  size_t struct_size;
  /* Array and blocks are on exec's device. Entries that no row of this call needs may be null. */
  void* const* blocks;
  uint32_t shift;        /* log2 of the number of rows per block */
  uint32_t dim;          /* number of values per row */
  size_t stride;         /* distance of two rows in a block */
  uint32_t value_dtype;  /* TENON_F32, TENON_BF16 or TENON_F16 */
  int32_t value_offset;  /* offset of the value */
  int32_t master_offset; /* offset of the fp32 master; -1: none */
  uint32_t num_slots;
  /* [num_slots] Offsets of the slots, in declaration order. The array is in CPU memory; pass its
   * elements to kernels by value. */
  const int32_t* slot_offsets;
} tenon_row_layout;
TENON_SEAL(tenon_row_layout, slot_offsets);

/* Returns the address of a field of row `row`, for blocks in CPU memory. Kernels on a device use
 * the same formula. */
static inline void* tenon_row_field(const tenon_row_layout* layout, int64_t row, int32_t offset) {
  const uint64_t r = (uint64_t)row;
  const uint64_t in_block = r & ((UINT64_C(1) << layout->shift) - 1u);
  return (char*)layout->blocks[r >> layout->shift] + in_block * layout->stride + offset;
}

/* Arguments of `update`: one update of n rows. All pointers except `layout` are to memory on exec's
 * device. */
typedef struct tenon_sparse_update_args {
  size_t struct_size;
  const tenon_row_layout* layout; /* never null; in CPU memory */
  size_t n;
  const int64_t* rows; /* [n] distinct row numbers, in unspecified order */
  /* [n] Id of each row. Unlike `rows`, ids do not depend on the number of ranks. */
  const int64_t* ids;
  /* [n, dim] Sum over the id's occurrences in batch order, normalized and clipped. */
  const float* grads;
  const int64_t* counts; /* [n] occurrences of the id in the step, over all ranks; at least 1 */
  const int64_t* step;   /* scalar: number of updates of the table, including this one, from 1 */
  const double* lr;      /* scalar: the scheduled learning rate */
  /* Scalar, or null. If it is 1, change nothing; `step` has not advanced. */
  const float* found_inf;
  uint64_t seed; /* seed of the table, for stochastic rounding */
} tenon_sparse_update_args;
TENON_SEAL(tenon_sparse_update_args, seed);

/* Rounds an fp32 value, given as its bit pattern `word`, to bf16 bits. It adds 16 random bits below
 * the last bf16 bit and truncates, so that the mean over all roundings equals the value. Values
 * that bf16 represents stay unchanged; a NaN stays a NaN. */
static inline uint16_t tenon_cut_bf16(uint32_t word, uint32_t random_bits) {
  if ((word & 0x7FFFFFFFu) > 0x7F800000u) {
    return (uint16_t)((word >> 16) | 0x40u);
  }
  return (uint16_t)((word + (random_bits & 0xFFFFu)) >> 16);
}

/* Rounds to fp16 in the same way; fp16 has 13 bits fewer than fp32. Below 2^-14, where fp16 has
 * only multiples of 2^-24, it works in units of 2^-56 and truncates 32 random bits. From 2^16 on,
 * the result is infinity. */
static inline uint16_t tenon_cut_f16(uint32_t word, uint32_t random_bits) {
  const uint32_t sign = word >> 31 << 15;
  uint32_t magnitude = word & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return (uint16_t)(sign | 0x7E00u);
  }
  if (magnitude < 0x38800000u) { /* 2^-14 */
    const uint32_t exponent = magnitude >> 23;
    const uint64_t digits = (magnitude & 0x7FFFFFu) | 0x800000u;
    const uint64_t units = exponent >= 94u   ? digits << (exponent - 94u)
                           : exponent >= 70u ? digits >> (94u - exponent)
                                             : 0u;
    return (uint16_t)(sign | (uint32_t)((units + random_bits) >> 32));
  }
  magnitude += random_bits & 0x1FFFu;
  if (magnitude >= 0x47800000u) { /* 2^16 */
    return (uint16_t)(sign | 0x7C00u);
  }
  return (uint16_t)(sign | (magnitude - 0x38000000u) >> 13);
}

/* Interface TENON_SPARSE_OPTIMIZER_ID. */
typedef struct tenon_sparse_optimizer {
  size_t struct_size;

  /* Describes row state, narrow dtypes and devices.
   *
   * Errors   any error ends the run before the first step
   * Threads  [main], once, before any other call
   * Owner    `out` is borrowed; its array belongs to the instance
   * Since    0.1 */
  tenon_status* (*describe)(void* self, tenon_sparse_optimizer_info* out);

  /* Updates value and slots of the given rows in place, and no other row. The result for a row
   * depends only on that row, not on n or on the other rows. A non-finite gradient affects at most
   * its own row.
   *
   * With TENON_NARROW_STOCHASTIC, element j of a row is rounded by tenon_cut_bf16 or tenon_cut_f16.
   * The random bits are the lowest 32 bits of number step * dim + j of stream `id` (random.h), with
   * seed `seed`.
   *
   * Errors   TENON_UNSUPPORTED for a value dtype that it did not declare
   * Threads  [worker]: several calls concurrently, on disjoint rows
   * Owner    all arguments are borrowed until return; on a device, until the work queued on exec's
   *          stream is done
   * Since    0.1 */
  tenon_status* (*update)(void* self, const tenon_exec* exec, const tenon_sparse_update_args* args);
} tenon_sparse_optimizer;

TENON_SEAL(tenon_sparse_optimizer, update);
TENON_SLOT(tenon_sparse_optimizer, describe, 0);
TENON_SLOT(tenon_sparse_optimizer, update, 1);

TENON_C_END
#endif
