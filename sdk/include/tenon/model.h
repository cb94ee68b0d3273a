/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a model: a graph of blocks that exchange named values, and the parameters that the blocks
 * use.
 *
 * The host owns the parameters: it creates, initializes, shards, moves, saves and updates them. It
 * runs each block under a separate autograd graph: inputs arrive detached, and backward is one
 * reverse loop over the blocks. A block is therefore a pure function of its arguments. It may run
 * twice (recompute), on a gathered copy of its parameters, or on another rank. It modifies neither
 * inputs nor parameters, and keeps no tensor between calls.
 *
 * Names of values, parameters, buffers and blocks contain no '/', which will separate the name of a
 * model from the names in it.
 *
 * Life of an instance: `create`; `describe` once; `materialize` once for each block that requests
 * it; `fill_buffer` once for each buffer; then `forward` and `backward` until `destroy`. */
#ifndef TENON_MODEL_H
#define TENON_MODEL_H

#include "component.h"
#include "ports.h"

TENON_C_BEGIN

#define TENON_MODEL_ID "tenon.model/1"

/* ---- values: the data that flows between blocks ---- */

/* Source   of a value. */
enum {
  TENON_SOURCE_BATCH = 0, /* batch field `source` */
  TENON_SOURCE_BLOCK = 1, /* an output of the block that lists it */
  TENON_SOURCE_TABLE = 2, /* rows of a table, one per id; see "Tables" below */
  /* Refused by this host: value `source` of the previous microbatch, detached; zeros at first. */
  TENON_SOURCE_CARRY = 3
};
/* Pooling: how the rows of one sample's ids are combined. A sample without ids gives zeros. */
enum {
  TENON_POOL_NONE = 0,          /* ids [B] give [B, dim], ids [B, n] give [B, n, dim] */
  TENON_POOL_SUM = 1,           /* the sum; [B, dim], as for all below except FIRST_N */
  TENON_POOL_MEAN = 2,          /* the sum divided by the number of ids */
  TENON_POOL_WEIGHTED_SUM = 3,  /* the sum of rows times their weights */
  TENON_POOL_WEIGHTED_MEAN = 4, /* the weighted sum divided by the number of ids */
  /* The elementwise maximum; of equal elements the first receives the gradient. */
  TENON_POOL_MAX = 5,
  TENON_POOL_FIRST_N = 6 /* [B, length, dim]: the first rows in order, padded with zeros */
};
/* Flags of a value. OPTIONAL, only for TENON_SOURCE_BATCH: if the batch has no such field, blocks
 * receive null in its place. */
enum { TENON_VALUE_OPTIONAL = 1u << 0 };
/* Marks an index field that is not used. */
#define TENON_NO_INDEX UINT32_MAX

/* Declares how tensor-parallel ranks may divide a parameter or a value along one axis: which ranges
 * a rank holds, in units that are never cut. A fused matrix has one part per matrix in it, each
 * divided on its own. If there are more ranks than units in a part, several ranks hold the same
 * unit (the key and value heads of grouped attention).
 *
 *     fused query, key and value of 8, 2 and 2 heads of 64:
 *     axis 0   parts 512 128 128   units 8 2 2
 *
 * Ranks divide blocks that declare it (draft/tensor.h). All pointers are borrowed until the call
 * returns. */
typedef struct tenon_split {
  size_t struct_size;
  uint32_t axis; /* of the shape */
  uint32_t reserved;
  const int64_t* parts; /* [num_parts] sizes, which add up to the size of the axis */
  const int64_t* units; /* [num_parts] number of equal units of each part; divides its size */
  size_t num_parts;     /* at least 1 */
} tenon_split;
TENON_SEAL(tenon_split, num_parts);

/* Declares a value. All pointers are borrowed until `add_value` returns. */
typedef struct tenon_value_spec {
  size_t struct_size;
  const char* name;       /* unique in the model; losses and metrics refer to it */
  const tenon_axis* axes; /* [num_axes]; null: any shape */
  size_t num_axes;
  uint32_t dtype;       /* a dtype or a class (ports.h) */
  uint32_t source_kind; /* TENON_SOURCE_* */
  /* Batch field or column of ids; null: `name` for a batch field. Unused for a block's output. */
  const char* source;
  /* The fields below are used only for tables; see "Tables". */
  /* Index of the value that holds the ids, or TENON_NO_INDEX if they come from `source`. */
  uint32_t ids;
  uint32_t pooling;  /* TENON_POOL_* */
  const char* table; /* table name in recipes; null: the name of the id column */
  uint32_t length;   /* rows per sample for FIRST_N; otherwise 0 */
  uint32_t init;     /* initial value of new rows: TENON_INIT_* except MODULE */
  double init_a;     /* first parameter of `init` */
  double init_b;     /* second parameter of `init` */
  /* How tensor-parallel ranks divide the value; null: each has all of it. The size of the axis must
   * be known. */
  const tenon_split* split;
  uint32_t flags; /* TENON_VALUE_*. Since 0.5 */
  uint32_t reserved;
} tenon_value_spec;
TENON_SEAL(tenon_value_spec, reserved);

/* Tables. A value with TENON_SOURCE_TABLE consists of rows of a table, which the host owns. In
 * training, the table grows with the ids that are looked up, and the gradient of the value updates
 * the rows. The last axis of the value is the row size and must be known. The value has a
 * floating-point dtype.
 *
 * The ids come from one of two places. With `ids` = TENON_NO_INDEX, they come from column `source`
 * of the batch. The column is either field `source`, i64 [B] or [B, n], or ragged, as in dataset.h;
 * a ragged column requires a pooling. The weights of a weighted pooling are in field
 * `source.weights`, with the shape of the ids. Otherwise, they come from value number `ids`, an
 * integer [B] or [B, n] that an earlier block computes.
 *
 * Recipes refer to a table by `table`, and may merge several tables into one. */

/* ---- parameters and buffers, which the host owns ---- */

/* Initialization of a parameter, with parameters `a` (init_a) and `b` (init_b). */
enum {
  TENON_INIT_ZEROS = 0,
  TENON_INIT_ONES = 1,
  TENON_INIT_CONSTANT = 2, /* the value a */
  TENON_INIT_NORMAL = 3,   /* mean a, standard deviation b */
  TENON_INIT_UNIFORM = 4,  /* uniform in [a, b) */
  /* Mean a, standard deviation b, truncated at two standard deviations. */
  TENON_INIT_TRUNC_NORMAL = 5,
  TENON_INIT_MODULE = 6 /* the value that `materialize` returns */
};
/* Flags of a parameter. */
enum {
  TENON_PARAM_NO_DECAY = 1u << 0,  /* norms, biases: optimizers apply no weight decay */
  TENON_PARAM_FROZEN = 1u << 1,    /* not trained: no gradient, no update */
  TENON_PARAM_KEEP_FP32 = 1u << 2, /* stays fp32 if blocks run in lower precision */
  TENON_PARAM_EXPERT = 1u << 3, /* Refused by this host: the parameter belongs to one expert rank */
  /* Blocks use the parameter, [N, D], only as a weight of the host's operators `tenon::linear` and
   * `tenon::gated_mlp`. The host may then compute the product by other means than the whole
   * parameter (parametrization.h). Since 0.5 */
  TENON_PARAM_LINEAR = 1u << 4
};

/* Declares a parameter. All pointers are borrowed until `add_parameter` returns. */
typedef struct tenon_parameter_spec {
  size_t struct_size;
  const char* name;     /* unique; dots make a path, as in "model.layers.0.mlp.up_proj.weight" */
  const int64_t* shape; /* [ndim] */
  size_t ndim;
  uint32_t dtype; /* TENON_CLASS_PARAM, or a dtype that must be kept */
  uint32_t flags; /* TENON_PARAM_* */
  uint32_t init;  /* TENON_INIT_* */
  uint32_t reserved;
  double init_a; /* first parameter of `init` */
  double init_b; /* second parameter of `init` */
  /* Name of an earlier parameter that this one shares, or null. If set, all other fields except
   * `name` are ignored. */
  const char* tied_to;
  const tenon_split* split; /* how tensor-parallel ranks divide it; null: each has all of it */
} tenon_parameter_spec;
TENON_SEAL(tenon_parameter_spec, split);

/* Kind of a buffer. */
enum {
  TENON_BUFFER_CONSTANT = 0, /* set by `fill_buffer`, never written, not saved */
  TENON_BUFFER_STATE = 1     /* saved; a training forward may return its next value */
};

/* Declares a buffer: a tensor of the model that is not trained. All pointers are borrowed until
 * `add_buffer` returns. */
typedef struct tenon_buffer_spec {
  size_t struct_size;
  const char* name;     /* unique */
  const int64_t* shape; /* [ndim] */
  size_t ndim;
  uint32_t dtype; /* a dtype or a class */
  uint32_t kind;  /* TENON_BUFFER_* */
} tenon_buffer_spec;
TENON_SEAL(tenon_buffer_spec, kind);

/* ---- blocks: the units that the host runs ---- */

/* Flags of a block. */
enum {
  /* Tokens are independent: the host may split the inputs along T. */
  TENON_BLOCK_TOKENWISE = 1u << 0,
  /* Reserved: ignored by this host. Output sizes depend on the data. */
  TENON_BLOCK_DYNAMIC_SHAPE = 1u << 1,
  /* Refused by this host: the block communicates with other ranks. */
  TENON_BLOCK_COLLECTIVE = 1u << 2,
  /* The block has its own backward; autograd does not record its forward. */
  TENON_BLOCK_HAND_WRITTEN = 1u << 3,
  /* Its parameters are the leaves that `materialize` returns. */
  TENON_BLOCK_MATERIALIZED = 1u << 4,
  TENON_BLOCK_NO_RECOMPUTE = 1u << 5, /* never recomputed: too cheap, or not repeatable */
  /* Reserved: ignored by this host. An output may share memory with an input. */
  TENON_BLOCK_ALIASES = 1u << 6
};

/* Declares a block. All pointers are borrowed until `add_block` returns. */
typedef struct tenon_block_spec {
  size_t struct_size;
  const char* name; /* unique, for example "layers.0" */
  uint32_t flags;   /* TENON_BLOCK_* */
  uint32_t reserved;
  /* [num_inputs] Indices, here and below, that the builder returned. A block may use values and
   * parameters of any earlier block. */
  const uint32_t* inputs;
  size_t num_inputs;
  /* [num_outputs] values that this block produces; each value has one producer. */
  const uint32_t* outputs;
  size_t num_outputs;
  const uint32_t* parameters; /* [num_parameters] */
  size_t num_parameters;
  const uint32_t* buffers; /* [num_buffers] */
  size_t num_buffers;
  /* Name of the unit of the block, for example "layers.0"; null: the block's own name. The blocks
   * of a unit follow each other. Their parameters are gathered together, and a recipe chooses for
   * whole units what is recomputed. Since 0.5 */
  const char* unit;
} tenon_block_spec;
TENON_SEAL(tenon_block_spec, unit);

/* Receives the declarations of `describe`. Specs are copied. Add blocks in the order in which they
 * run, which must be a topological order. The tags below hold for every function.
 *
 * Errors   TENON_INVALID for a duplicate name, an index out of range, an output with two producers,
 *          a block that reads a value of a later block, or a flag or source that this host refuses;
 *          the message names block and value
 * Threads  those of `describe`, and only during it
 * Owner    specs are borrowed; *out_index receives the index for later specs
 * Since    0.1 */
typedef struct tenon_model_builder tenon_model_builder;
struct tenon_model_builder {
  size_t struct_size;
  void* impl;
  /* Adds a value. */
  tenon_status* (*add_value)(tenon_model_builder* builder,
                             const tenon_value_spec* spec,
                             uint32_t* out_index);
  /* Adds a parameter. */
  tenon_status* (*add_parameter)(tenon_model_builder* builder,
                                 const tenon_parameter_spec* spec,
                                 uint32_t* out_index);
  /* Adds a buffer. */
  tenon_status* (*add_buffer)(tenon_model_builder* builder,
                              const tenon_buffer_spec* spec,
                              uint32_t* out_index);
  /* Adds a block. */
  tenon_status* (*add_block)(tenon_model_builder* builder,
                             const tenon_block_spec* spec,
                             uint32_t* out_index);
};
TENON_SEAL(tenon_model_builder, add_block);

/* ---- running a block ---- */

typedef struct tenon_forward_args tenon_forward_args;
/* Arguments of `forward`. Arrays and tensors are borrowed until `forward` returns. */
struct tenon_forward_args {
  size_t struct_size;
  void* impl;
  uint32_t block; /* index of the block, as the builder returned it */
  uint32_t reserved;
  /* In the order of the block's spec; null only for an optional value that is absent. */
  const tenon_tensor* const* inputs;
  size_t num_inputs;
  /* Autograd leaves, in the order of the spec. For a materialized block, the leaves it returned. */
  const tenon_tensor* const* parameters;
  size_t num_parameters;
  const tenon_tensor* const* buffers;
  size_t num_buffers;
  /* [num_outputs] Filled by the block with new handles; all must be set. */
  tenon_tensor** outputs_own;
  size_t num_outputs;
  /* [num_buffers] Next values of TENON_BUFFER_STATE buffers, as new handles; null keeps the value.
   * Ignored in a recompute. */
  tenon_tensor** next_buffers_own;

  /* Keeps a tensor for this block's `backward`, in call order. Only for hand-written blocks.
   *
   * Errors   TENON_INVALID if an argument is null
   * Threads  those of `forward`, and only during it
   * Owner    `tensor` is borrowed; the host takes a reference
   * Since    0.1 */
  tenon_status* (*save)(tenon_forward_args* args, const tenon_tensor* tensor);
  /* Adds an auxiliary loss: weight * sum / count, where `sum` has a gradient. Call it in every
   * forward, in the same order, also in a recompute. A recompute uses only its gradient and does
   * not count it twice. Its metric is "aux/" + name. The `backward` of a hand-written block must
   * add the gradient itself.
   *
   * Shapes   sum and count: scalars; the gradient flows only through `sum`
   * Errors   TENON_INVALID if an argument is null or no scalar
   * Threads  those of `forward`, and only during it
   * Owner    tensors are borrowed; the host takes references; `name` is copied
   * Since    0.1 */
  tenon_status* (*add_loss)(tenon_forward_args* args,
                            const char* name,
                            const tenon_tensor* sum,
                            const tenon_tensor* count,
                            double weight);
};
TENON_SEAL(tenon_forward_args, add_loss);

/* Arguments of `backward`. Arrays and tensors are borrowed until `backward` returns. */
typedef struct tenon_backward_args {
  size_t struct_size;
  uint32_t block; /* index of the block */
  uint32_t reserved;
  const tenon_tensor* const* saved; /* [num_saved] tensors that forward saved, in call order */
  size_t num_saved;
  /* [num_parameters] As in forward. */
  const tenon_tensor* const* parameters;
  size_t num_parameters;
  /* [num_outputs] Gradients of the outputs. Null: no gradient flows through this output. */
  const tenon_tensor* const* grad_outputs;
  size_t num_outputs;
  const uint32_t* want_grad_inputs; /* [num_inputs] 0: leave the gradient null */
  size_t num_inputs;
  const uint32_t* want_grad_parameters; /* [num_parameters] 0: leave the gradient null */
  /* [num_inputs] and [num_parameters] Filled with new handles. Null means that there is no
   * gradient: the host treats it as zero, and it does not count as an update of the parameter. */
  tenon_tensor** grad_inputs_own;
  tenon_tensor** grad_parameters_own;
} tenon_backward_args;
TENON_SEAL(tenon_backward_args, grad_parameters_own);

/* Arguments of `materialize`. */
typedef struct tenon_materialize_args {
  size_t struct_size;
  uint32_t block; /* index of the block */
  uint32_t reserved;
  /* [num_leaves] Filled with new handles, in the order of the block's parameters, each of the
   * declared shape; all must be set. */
  tenon_tensor** leaves_own;
  size_t num_leaves;
} tenon_materialize_args;
TENON_SEAL(tenon_materialize_args, num_leaves);

/* Arguments of `fill_buffer`. */
typedef struct tenon_fill_buffer_args {
  size_t struct_size;
  uint32_t buffer; /* index of the buffer */
  uint32_t reserved;
  /* The declared shape and dtype, contiguous, on the CPU, filled with zeros. Borrowed. */
  tenon_tensor* tensor;
} tenon_fill_buffer_args;
TENON_SEAL(tenon_fill_buffer_args, tensor);

/* Arguments of `infer`: shapes and cost of a block, without running it. */
typedef struct tenon_infer_args {
  size_t struct_size;
  uint32_t block; /* index of the block */
  uint32_t reserved;
  /* [num_inputs] Sizes and numbers of axes of the inputs. An optional value that is absent has a
   * null shape. */
  const int64_t* const* input_shapes;
  const size_t* input_ndims;
  size_t num_inputs;
  int64_t (*out_shapes)[8]; /* [num_outputs], at most 8 axes each */
  size_t* out_ndims;        /* [num_outputs] */
  size_t num_outputs;
  double out_flops; /* floating-point operations of one forward */
  /* Bytes kept for backward without recompute, not counting the block's inputs, outputs, parameters
   * and buffers. */
  double out_saved_bytes;
  /* Peak bytes that backward allocates on top of the memory in use when it starts, including the
   * gradients it returns. */
  double out_working_bytes;
  /* [num_segments] Lengths of the sequences that the samples consist of; a block without attention
   * may ignore them. Null: each sample is one sequence. Since 0.5 */
  const int64_t* segment_lengths;
  size_t num_segments;
} tenon_infer_args;
TENON_SEAL(tenon_infer_args, num_segments);

/* Interface TENON_MODEL_ID. */
typedef struct tenon_model {
  size_t struct_size;

  /* Declares values, parameters, buffers and blocks.
   *
   * Errors   those of the builder, passed on
   * Threads  [main], once, before any other call
   * Owner    `builder` is borrowed until return
   * Since    0.1 */
  tenon_status* (*describe)(void* self, tenon_model_builder* builder);

  /* Runs one block. Autograd records the call in training, unless the block is hand-written; it
   * records nothing in an evaluation.
   *
   * Shapes   as declared; a block must accept every size of the axes left open
   * Errors   TENON_INVALID for shapes it cannot process
   * Threads  [step]
   * Owner    inputs are borrowed; the host releases the handles in outputs_own and next_buffers_own
   * Since    0.1 */
  tenon_status* (*forward)(void* self, const tenon_exec* exec, tenon_forward_args* args);

  /* Computes the gradients of a hand-written block. Null if there is none.
   *
   * Shapes   each gradient has the shape of its input or parameter
   * Errors   TENON_INVALID for shapes it cannot process
   * Threads  [step]
   * Owner    arguments are borrowed; the host releases the gradients
   * Since    0.1 */
  tenon_status* (*backward)(void* self, const tenon_exec* exec, const tenon_backward_args* args);

  /* Creates the leaves of a TENON_BLOCK_MATERIALIZED block with their initial values, in the order
   * of its parameters. Draw random numbers from torch's default generator, which the host has
   * seeded from the run's seed and the block's name. The host copies the values and redirects the
   * leaves (`set_data`) to its own memory. Null if no block requests it.
   *
   * Errors   any error ends the run
   * Threads  [main], once per block
   * Owner    the host releases the handles; the instance keeps the tensors
   * Since    0.1 */
  tenon_status* (*materialize)(void* self,
                               const tenon_exec* exec,
                               const tenon_materialize_args* args);

  /* Writes the initial value of a buffer into the tensor of `args`. Null if there are no buffers.
   *
   * Errors   any error ends the run
   * Threads  [main], once per buffer of either kind
   * Owner    `args` is borrowed until return
   * Since    0.1 */
  tenon_status* (*fill_buffer)(void* self,
                               const tenon_exec* exec,
                               const tenon_fill_buffer_args* args);

  /* Infers shapes and cost of a block. Optional: if null, the host runs the block on meta tensors.
   * Required for blocks that access data pointers. `exec` describes the planned run: device,
   * compute dtype and mesh. It has no stream and cannot compute. Autocast is set as in the run.
   *
   * Errors   TENON_INVALID for shapes it cannot process
   * Threads  [any]
   * Owner    `args` is borrowed until return
   * Since    0.1 */
  tenon_status* (*infer)(void* self, const tenon_exec* exec, tenon_infer_args* args);
} tenon_model;

TENON_SEAL(tenon_model, infer);
TENON_SLOT(tenon_model, describe, 0);
TENON_SLOT(tenon_model, forward, 1);
TENON_SLOT(tenon_model, backward, 2);
TENON_SLOT(tenon_model, materialize, 3);
TENON_SLOT(tenon_model, fill_buffer, 4);
TENON_SLOT(tenon_model, infer, 5);

TENON_C_END
#endif
