// SPDX-License-Identifier: Apache-2.0
//
// The C ABI of Tenon, version 0.5, in Rust. Written by sdk/abi/rust_declarations.py from abi.json;
// do not edit it. The comments are those of the C headers, where abi.h has the rules.
//
// A layout that differs from C's is an error of the compiler.
#![allow(non_camel_case_types)]

use std::ffi::{c_void, CStr};
use std::os::raw::c_char;

/// Makes a constant string from bytes that end with NUL.
const fn text(bytes: &'static [u8]) -> &'static CStr {
    unsafe { CStr::from_bytes_with_nul_unchecked(bytes) }
}

/// Asserts the size of a struct, and the offset and size of each field. Each byte of a value holds
/// its index, so the first byte of a field is the offset of the field.
macro_rules! layout {
    ($name:ident, $size:literal: $($field:ident $offset:literal $width:literal),+) => {
        const _: () = {
            const SIZE: usize = std::mem::size_of::<$name>();
            assert!(SIZE == $size && SIZE <= 256);
            #[repr(C)]
            union View {
                bytes: [u8; SIZE],
                value: $name,
            }
            let mut bytes = [0; SIZE];
            let mut i = 0;
            while i < SIZE {
                bytes[i] = i as u8;
                i += 1;
            }
            let view = View { bytes };
            $(assert!(
                unsafe { *(std::ptr::addr_of!(view.value.$field) as *const u8) } == $offset,
                concat!(stringify!($name), ": ", stringify!($field), " has another offset in C")
            );
            assert!(
                width(|value: &$name| value.$field) == $width,
                concat!(stringify!($name), ": ", stringify!($field), " has another size in C")
            );)+
        };
    };
}

/// Returns the size of the type that a function returns.
#[allow(dead_code)]
const fn width<S, T>(_: fn(&S) -> T) -> usize {
    std::mem::size_of::<T>()
}

// ---- constants ----
pub const TENON_ABI_MAJOR: u32 = 0;
pub const TENON_ABI_MINOR: u32 = 5;

/// The version as a string, for the manifest.
pub const TENON_ABI_STRING: &str = "0.5";
/// Largest `struct_size` of a struct or table, in bytes. A larger one is refused as garbage.
pub const TENON_MAX_STRUCT_SIZE: u32 = 4096;

// Style of a dataset.
pub const TENON_DATASET_MAP: u32 = 0;
pub const TENON_DATASET_STREAM: u32 = 1;

// Flags of a field.
/// never copied to a device
pub const TENON_FIELD_HOST_ONLY: u32 = 1;
/// u8 text: the innermost offsets split it into strings
pub const TENON_FIELD_TEXT: u32 = 2;

pub const TENON_DATASET_ID: &CStr = text(b"tenon.dataset/1\0");

// Dimensions of the mesh of ranks. The number of data-parallel ranks is replicate x shard.
pub const TENON_MESH_REPLICATE: u32 = 0;
pub const TENON_MESH_SHARD: u32 = 1;
/// always of size 1 in this host
pub const TENON_MESH_TENSOR: u32 = 2;
/// ranks that divide the positions of the same samples
pub const TENON_MESH_CONTEXT: u32 = 3;
/// always of size 1 in this host
pub const TENON_MESH_PIPELINE: u32 = 4;
/// always of size 1 in this host
pub const TENON_MESH_EXPERT: u32 = 5;
/// capacity, including two spare dimensions
pub const TENON_MESH_DIMS: u32 = 8;

// Mode: what a call is for.
pub const TENON_MODE_EVALUATE: u32 = 0;
pub const TENON_MODE_TRAIN: u32 = 1;
/// generation: reads the prompt. Since 0.5
pub const TENON_MODE_PREFILL: u32 = 2;
/// generation: continues a sequence. Since 0.5
pub const TENON_MODE_DECODE: u32 = 3;

pub const TENON_FEATURE_ID: &CStr = text(b"tenon.feature/1\0");

// Events, in the order in which a run reaches them. Events of an evaluation have is_train = 0.
pub const TENON_EVENT_BEFORE_INIT: u32 = 0;
pub const TENON_EVENT_AFTER_INIT: u32 = 1;
pub const TENON_EVENT_START: u32 = 2;
/// Only if weights or a checkpoint were loaded; again after each rollback.
pub const TENON_EVENT_AFTER_LOAD: u32 = 3;
pub const TENON_EVENT_WINDOW_MODE: u32 = 4;
pub const TENON_EVENT_BEFORE_EPOCH: u32 = 5;
pub const TENON_EVENT_BEFORE_WINDOW: u32 = 6;
pub const TENON_EVENT_BEFORE_STEP: u32 = 7;
pub const TENON_EVENT_AFTER_DATA: u32 = 8;
pub const TENON_EVENT_BEFORE_FORWARD: u32 = 9;
pub const TENON_EVENT_AFTER_FORWARD: u32 = 10;
pub const TENON_EVENT_BEFORE_LOSS: u32 = 11;
pub const TENON_EVENT_AFTER_LOSS: u32 = 12;
pub const TENON_EVENT_BEFORE_BACKWARD: u32 = 13;
pub const TENON_EVENT_AFTER_BACKWARD: u32 = 14;
/// gradients are final
pub const TENON_EVENT_BEFORE_OPTIMIZER_STEP: u32 = 15;
pub const TENON_EVENT_AFTER_OPTIMIZER_STEP: u32 = 16;
pub const TENON_EVENT_AFTER_STEP: u32 = 17;
pub const TENON_EVENT_UPDATE_SKIPPED: u32 = 18;
pub const TENON_EVENT_BEFORE_EVALUATE: u32 = 19;
pub const TENON_EVENT_AFTER_EVALUATE: u32 = 20;
pub const TENON_EVENT_BEFORE_CHECKPOINT: u32 = 21;
pub const TENON_EVENT_AFTER_CHECKPOINT: u32 = 22;
pub const TENON_EVENT_OUT_OF_DATA: u32 = 23;
pub const TENON_EVENT_AFTER_WINDOW: u32 = 24;
pub const TENON_EVENT_AFTER_EPOCH: u32 = 25;
pub const TENON_EVENT_ON_ERROR: u32 = 26;
pub const TENON_EVENT_END: u32 = 27;
pub const TENON_NUM_EVENTS: u32 = 28;

// Phase of a hook; NORMAL is the default.
pub const TENON_PHASE_BEFORE: u32 = 0;
pub const TENON_PHASE_NORMAL: u32 = 1;
pub const TENON_PHASE_AFTER: u32 = 2;

// Objects that a hook reads or writes, apart from requests and metrics. A hook declares what it
// writes: an undeclared write is an error. Two hooks that write the same object at the same event
// need different phases or priorities; otherwise the host rejects the recipe.
/// fields of the batch: in place, or by set_field
pub const TENON_TOUCH_BATCH: u32 = 1;
/// values of parameters, in place
pub const TENON_TOUCH_PARAMETERS: u32 = 2;
/// gradients of parameters, in place
pub const TENON_TOUCH_GRADIENTS: u32 = 4;
/// the learning rate, by set_lr_factor
pub const TENON_TOUCH_LR: u32 = 8;
/// Write: the loss, by scale_loss. Read: the loss of each step over all ranks, by get_step_loss.
pub const TENON_TOUCH_LOSS: u32 = 16;
/// read: outputs of the model, by get_output
pub const TENON_TOUCH_OUTPUTS: u32 = 32;

// Requests. A request of any rank counts for all ranks. A request made before the first
// before_forward of a step takes effect at the end of that step. A later request takes effect at
// the end of the next step. Between steps it takes effect at once, except ROLL_BACK, which waits
// for the end of the next step.
/// does not apply the update of this step
pub const TENON_REQUEST_SKIP_UPDATE: u32 = 1;
/// runs an evaluation; refused if the recipe has no data.eval
pub const TENON_REQUEST_EVALUATE: u32 = 2;
/// saves a checkpoint; refused if the run saves none
pub const TENON_REQUEST_CHECKPOINT: u32 = 4;
/// ends the run successfully (exit code 0)
pub const TENON_REQUEST_STOP: u32 = 8;
/// Returns to the newest checkpoint taken before this step and skips the data since. The recipe
/// must allow it (checkpoint.on_spike).
pub const TENON_REQUEST_ROLL_BACK: u32 = 16;

pub const TENON_HOOK_ID: &CStr = text(b"tenon.hook/1\0");

// Severity. The host treats an unknown higher level as an error.
pub const TENON_LOG_DEBUG: u32 = 0;
pub const TENON_LOG_INFO: u32 = 1;
pub const TENON_LOG_WARN: u32 = 2;
pub const TENON_LOG_ERROR: u32 = 3;

pub const TENON_LOG_ID: &CStr = text(b"tenon.log/1\0");

// Additivity: the axis along which the sum over parts equals the sum over the whole. The host may
// then compute the loss in chunks.
pub const TENON_ADDITIVE_NONE: u32 = 0;
pub const TENON_ADDITIVE_SAMPLES: u32 = 1;
pub const TENON_ADDITIVE_TOKENS: u32 = 2;

// Flags of a loss.
/// `count` uses only batch fields, so the host may call it before the forward; model outputs are
/// then null. Required of each loss if a recipe has several.
pub const TENON_LOSS_COUNT_FROM_BATCH: u32 = 1;

pub const TENON_LOSS_ID: &CStr = text(b"tenon.loss/1\0");

pub const TENON_LR_SCHEDULER_ID: &CStr = text(b"tenon.lr_scheduler/1\0");

/// Section, owner and type of the ELF note.
pub const TENON_MANIFEST_SECTION: &str = ".note.tenon";

pub const TENON_MANIFEST_OWNER: &str = "tenon";
pub const TENON_MANIFEST_TYPE: u32 = 1;

pub const TENON_MEMORY_ID: &CStr = text(b"tenon.memory/1\0");

// Reduction: how the states of two ranks, or of two data ranges, are merged.
pub const TENON_REDUCE_SUM: u32 = 0;
pub const TENON_REDUCE_MAX: u32 = 1;
/// concatenated along the first axis, in rank order
pub const TENON_REDUCE_CONCAT: u32 = 2;
/// merged by `merge`
pub const TENON_REDUCE_OWN: u32 = 3;

// Periods over which the metric is reported in training, as flags; 0: not in training. The host
// calls `update` once per microbatch, and merges its state into one state per period. An evaluation
// always uses a separate state, from its start to its end.
/// since the last record
pub const TENON_PERIOD_STEP: u32 = 1;
/// since the window began
pub const TENON_PERIOD_WINDOW: u32 = 2;
/// since the run began
pub const TENON_PERIOD_RUN: u32 = 4;

pub const TENON_METRIC_ID: &CStr = text(b"tenon.metric/1\0");

pub const TENON_METRIC_SINK_ID: &CStr = text(b"tenon.metric_sink/1\0");

pub const TENON_METRICS_ID: &CStr = text(b"tenon.metrics/1\0");

// Source   of a value.
/// batch field `source`
pub const TENON_SOURCE_BATCH: u32 = 0;
/// an output of the block that lists it
pub const TENON_SOURCE_BLOCK: u32 = 1;
/// rows of a table, one per id; see "Tables" below
pub const TENON_SOURCE_TABLE: u32 = 2;
/// Refused by this host: value `source` of the previous microbatch, detached; zeros at first.
pub const TENON_SOURCE_CARRY: u32 = 3;

// Pooling: how the rows of one sample's ids are combined. A sample without ids gives zeros.
/// ids [B] give [B, dim], ids [B, n] give [B, n, dim]
pub const TENON_POOL_NONE: u32 = 0;
/// the sum; [B, dim], as for all below except FIRST_N
pub const TENON_POOL_SUM: u32 = 1;
/// the sum divided by the number of ids
pub const TENON_POOL_MEAN: u32 = 2;
/// the sum of rows times their weights
pub const TENON_POOL_WEIGHTED_SUM: u32 = 3;
/// the weighted sum divided by the number of ids
pub const TENON_POOL_WEIGHTED_MEAN: u32 = 4;
/// The elementwise maximum; of equal elements the first receives the gradient.
pub const TENON_POOL_MAX: u32 = 5;
/// [B, length, dim]: the first rows in order, padded with zeros
pub const TENON_POOL_FIRST_N: u32 = 6;

// Flags of a value. OPTIONAL, only for TENON_SOURCE_BATCH: if the batch has no such field, blocks
// receive null in its place.
pub const TENON_VALUE_OPTIONAL: u32 = 1;

// Initialization of a parameter, with parameters `a` (init_a) and `b` (init_b).
pub const TENON_INIT_ZEROS: u32 = 0;
pub const TENON_INIT_ONES: u32 = 1;
/// the value a
pub const TENON_INIT_CONSTANT: u32 = 2;
/// mean a, standard deviation b
pub const TENON_INIT_NORMAL: u32 = 3;
/// uniform in [a, b)
pub const TENON_INIT_UNIFORM: u32 = 4;
/// Mean a, standard deviation b, truncated at two standard deviations.
pub const TENON_INIT_TRUNC_NORMAL: u32 = 5;
/// the value that `materialize` returns
pub const TENON_INIT_MODULE: u32 = 6;

// Flags of a parameter.
/// norms, biases: optimizers apply no weight decay
pub const TENON_PARAM_NO_DECAY: u32 = 1;
/// not trained: no gradient, no update
pub const TENON_PARAM_FROZEN: u32 = 2;
/// stays fp32 if blocks run in lower precision
pub const TENON_PARAM_KEEP_FP32: u32 = 4;
/// Refused by this host: the parameter belongs to one expert rank
pub const TENON_PARAM_EXPERT: u32 = 8;
/// Blocks use the parameter, [N, D], only as a weight of the host's operators `tenon::linear` and
/// `tenon::gated_mlp`. The host may then compute the product by other means than the whole
/// parameter (parametrization.h). Since 0.5
pub const TENON_PARAM_LINEAR: u32 = 16;

// Kind of a buffer.
/// set by `fill_buffer`, never written, not saved
pub const TENON_BUFFER_CONSTANT: u32 = 0;
/// saved; a training forward may return its next value
pub const TENON_BUFFER_STATE: u32 = 1;

// Flags of a block.
/// Tokens are independent: the host may split the inputs along T.
pub const TENON_BLOCK_TOKENWISE: u32 = 1;
/// Reserved: ignored by this host. Output sizes depend on the data.
pub const TENON_BLOCK_DYNAMIC_SHAPE: u32 = 2;
/// Refused by this host: the block communicates with other ranks.
pub const TENON_BLOCK_COLLECTIVE: u32 = 4;
/// The block has its own backward; autograd does not record its forward.
pub const TENON_BLOCK_HAND_WRITTEN: u32 = 8;
/// Its parameters are the leaves that `materialize` returns.
pub const TENON_BLOCK_MATERIALIZED: u32 = 16;
/// never recomputed: too cheap, or not repeatable
pub const TENON_BLOCK_NO_RECOMPUTE: u32 = 32;
/// Reserved: ignored by this host. An output may share memory with an input.
pub const TENON_BLOCK_ALIASES: u32 = 64;

pub const TENON_MODEL_ID: &CStr = text(b"tenon.model/1\0");
/// Marks an index field that is not used.
pub const TENON_NO_INDEX: u32 = 4294967295;

// Tags of tenon_any. The type in the schema determines how a value is read. INT is valid for int,
// float, Scalar, dtype, layout and memory format; DOUBLE for float and Scalar; NONE for every
// optional.
pub const TENON_ANY_NONE: u32 = 0;
pub const TENON_ANY_TENSOR: u32 = 1;
/// a null entry is an absent tensor (Tensor?[])
pub const TENON_ANY_TENSORS: u32 = 2;
pub const TENON_ANY_INT: u32 = 3;
pub const TENON_ANY_INTS: u32 = 4;
pub const TENON_ANY_DOUBLE: u32 = 5;
pub const TENON_ANY_DOUBLES: u32 = 6;
pub const TENON_ANY_BOOL: u32 = 7;
pub const TENON_ANY_BOOLS: u32 = 8;
pub const TENON_ANY_STRING: u32 = 9;
/// in `i`, TENON_F32 etc.
pub const TENON_ANY_DTYPE: u32 = 10;
pub const TENON_ANY_DEVICE: u32 = 11;
/// the default of the schema
pub const TENON_ANY_DEFAULT: u32 = 12;

pub const TENON_OP_ID: &CStr = text(b"tenon.op/1\0");

// Granularity of an update: what one call must see.
/// Any flat range of parameters; the host merges and shards freely.
pub const TENON_OPTIMIZER_ELEMENTWISE: u32 = 0;
/// whole parameters in their shapes (Muon, Shampoo)
pub const TENON_OPTIMIZER_MATRIX: u32 = 1;
/// flat ranges, plus norms over whole parameters (LAMB)
pub const TENON_OPTIMIZER_NORM: u32 = 2;

// Shape of a state tensor (slot).
/// one value per element
pub const TENON_SLOT_LIKE_PARAMETER: u32 = 0;
/// one value per piece
pub const TENON_SLOT_SCALAR: u32 = 1;
/// One value per `block` consecutive elements of the parameter, rounded up. Not for MATRIX. Since
/// 0.5
pub const TENON_SLOT_BLOCKWISE: u32 = 2;
/// Only for MATRIX: the shape of the parameter without its last axis, or without the axis before
/// the last. A parameter with fewer than two axes has ROWS of one value, without axes, and COLUMNS
/// of its own shape. Since 0.5
pub const TENON_SLOT_ROWS: u32 = 3;
pub const TENON_SLOT_COLUMNS: u32 = 4;

// Flags of an optimizer.
/// It needs no falling learning rate: the host accepts only schedules that are constant after a
/// warmup. Since 0.5
pub const TENON_OPTIMIZER_OWN_SCHEDULE: u32 = 1;
/// Only for MATRIX: parameters have exactly two axes. The host refuses others by name, before the
/// first step. Since 0.5
pub const TENON_OPTIMIZER_MATRICES_ONLY: u32 = 2;

pub const TENON_OPTIMIZER_ID: &CStr = text(b"tenon.optimizer/1\0");

// Type of an option's value, as returned by `kind`.
/// there is no value at this pointer
pub const TENON_OPTION_ABSENT: u32 = 0;
pub const TENON_OPTION_NULL: u32 = 1;
pub const TENON_OPTION_BOOL: u32 = 2;
pub const TENON_OPTION_INT: u32 = 3;
pub const TENON_OPTION_DOUBLE: u32 = 4;
pub const TENON_OPTION_STRING: u32 = 5;
pub const TENON_OPTION_LIST: u32 = 6;
pub const TENON_OPTION_OBJECT: u32 = 7;

pub const TENON_OPTIONS_ID: &CStr = text(b"tenon.options/1\0");

pub const TENON_PARALLEL_ID: &CStr = text(b"tenon.parallel/1\0");

pub const TENON_ENTRY_SYMBOL: &str = "tenon_plugin_entry";

// Dtype class of a port, used if the host chooses the exact dtype. Values below TENON_CLASS_FIRST
// are dtypes (tensor.h) and mean exactly that dtype.
/// smallest value that is a class
pub const TENON_CLASS_FIRST: u32 = 100;
/// the floating-point dtype of the run's compute precision
pub const TENON_CLASS_COMPUTE: u32 = 100;
/// the floating-point dtype of the stored parameters
pub const TENON_CLASS_PARAM: u32 = 101;
/// any floating-point dtype
pub const TENON_CLASS_FLOAT: u32 = 102;
/// any integer dtype
pub const TENON_CLASS_INTEGER: u32 = 103;
/// any dtype
pub const TENON_CLASS_ANY: u32 = 104;

// Flags of a port. OPTIONAL: the input is null if nothing provides it.
pub const TENON_PORT_OPTIONAL: u32 = 1;

pub const TENON_RANDOM_ID: &CStr = text(b"tenon.random/1\0");

// Scope of an entry: how it is restored if the number of ranks changes.
/// equal on all ranks
pub const TENON_STATE_REPLICATED: u32 = 0;
/// belongs to a data shard (dataset.h), and moves with it
pub const TENON_STATE_PER_SHARD: u32 = 1;
/// dropped with a warning if the number of ranks changes
pub const TENON_STATE_PER_RANK: u32 = 2;

// Type of an entry.
pub const TENON_STATE_INT: u32 = 1;
pub const TENON_STATE_DOUBLE: u32 = 2;
pub const TENON_STATE_BYTES: u32 = 3;
pub const TENON_STATE_TENSOR: u32 = 4;

// Flags of put_tensor. COPY: the host copies the tensor during the call.
pub const TENON_STATE_COPY: u32 = 1;

pub const TENON_STATEFUL_ID: &CStr = text(b"tenon.stateful/1\0");

// Classifies a failure. Callers react to the code; the message is for people.
/// never stored in a status
pub const TENON_OK: u32 = 0;
/// an argument, option or shape is invalid
pub const TENON_INVALID: u32 = 1;
/// valid, but this component does not support it
pub const TENON_UNSUPPORTED: u32 = 2;
/// a required file, field or name does not exist
pub const TENON_NOT_FOUND: u32 = 3;
/// reading or writing failed
pub const TENON_IO: u32 = 4;
/// an allocation failed
pub const TENON_OUT_OF_MEMORY: u32 = 5;
/// a bug or an unexpected exception; also every unknown code
pub const TENON_INTERNAL: u32 = 6;
/// given up because the run is to stop (exec.h)
pub const TENON_CANCELLED: u32 = 7;
/// a name that must be new exists already
pub const TENON_EXISTS: u32 = 8;
/// data is incomplete or corrupt: retrying does not help
pub const TENON_DATA_LOSS: u32 = 9;
/// no answer in time: retrying may help
pub const TENON_TIMEOUT: u32 = 10;

pub const TENON_STATUS_ID: &CStr = text(b"tenon.status/1\0");

// Dtypes. The numbers are those of libtorch's ScalarType, which are stable.
pub const TENON_U8: u32 = 0;
pub const TENON_I8: u32 = 1;
pub const TENON_I16: u32 = 2;
pub const TENON_I32: u32 = 3;
pub const TENON_I64: u32 = 4;
pub const TENON_F16: u32 = 5;
pub const TENON_F32: u32 = 6;
pub const TENON_F64: u32 = 7;
pub const TENON_BOOL: u32 = 11;
pub const TENON_BF16: u32 = 15;
pub const TENON_F8_E5M2: u32 = 23;
pub const TENON_F8_E4M3: u32 = 24;

// Device types. The numbers are those of libtorch's DeviceType. Meta tensors have a shape but no
// data.
pub const TENON_CPU: u32 = 0;
pub const TENON_CUDA: u32 = 1;
pub const TENON_META: u32 = 14;

pub const TENON_TENSOR_ID: &CStr = text(b"tenon.tensor/1\0");

// Kind of a piece of text.
/// of a user or a document: special tokens in it stay plain text
pub const TENON_PIECE_TEXT: u32 = 0;
/// of a template: special tokens in it are recognized
pub const TENON_PIECE_TEMPLATE: u32 = 1;

// Flags of `encode_pieces`.
/// Also the tokens that the vocabulary puts around a text (bos, eos, [CLS]), with empty ranges.
pub const TENON_ENCODE_AROUND: u32 = 1;

pub const TENON_TOKENIZER_ID: &CStr = text(b"tenon.tokenizer/1\0");

pub const TENON_CHAT_TEMPLATE_ID: &CStr = text(b"tenon.chat_template/1\0");

// Scope of one norm and factor.
/// all gradients together, including those of tables
pub const TENON_CLIP_ALL: u32 = 0;
/// each group of the optimizer, and each table
pub const TENON_CLIP_GROUP: u32 = 1;
/// each parameter, and each table
pub const TENON_CLIP_PARAMETER: u32 = 2;

// Norm that the clipper needs.
pub const TENON_NORM_L1: u32 = 0;
pub const TENON_NORM_L2: u32 = 1;
/// largest magnitude
pub const TENON_NORM_MAX: u32 = 2;
/// none: limits only
pub const TENON_NORM_NONE: u32 = 3;

pub const TENON_CLIPPER_ID: &CStr = text(b"tenon.clipper/1\0");
/// Flag of a block, beside TENON_BLOCK_* of model.h. All inputs and outputs have an axis T. Tokens
/// are independent, except in the host's operators `tenon::attention` and `tenon::packed_attention`,
/// and in auxiliary losses that are sums over tokens. Positions come from an input such as the batch
/// field `position_ids`, and not from sizes. Queries, keys and values of a call have the block's
/// positions; attention weights are not dropped out. A part may have no positions.
pub const TENON_BLOCK_CONTEXT: u32 = 128;

pub const TENON_GENERATION_ID: &CStr = text(b"tenon.generation/1\0");

pub const TENON_PARAMETER_AVERAGE_ID: &CStr = text(b"tenon.parameter_average/1\0");

pub const TENON_PARAMETRIZATION_ID: &CStr = text(b"tenon.parametrization/1\0");

pub const TENON_PARAMETRIZATION_PARTS_ID: &CStr = text(b"tenon.parametrization_parts/1\0");

pub const TENON_SAMPLE_PLACES_ID: &CStr = text(b"tenon.sample_places/1\0");

// Flags of a source file.
/// The name is part of the data, as in "day=2026-11-20/part-0.parquet". A name that differs below
/// the common folder of all files is then a change.
pub const TENON_SOURCE_NAME_COUNTS: u32 = 1;

pub const TENON_SOURCE_FILES_ID: &CStr = text(b"tenon.source_files/1\0");

// Shape of a row's state (slot).
/// `dim` values per row
pub const TENON_ROW_SLOT_LIKE_VALUE: u32 = 0;
/// one value per row
pub const TENON_ROW_SLOT_SCALAR: u32 = 1;

// Support for values narrower than fp32.
/// not supported: the host rejects a recipe with narrow values
pub const TENON_NARROW_REFUSED: u32 = 0;
/// the optimizer rounds stochastically (see `update`)
pub const TENON_NARROW_STOCHASTIC: u32 = 1;
/// The host adds a field of fp32 masters; the optimizer updates the master and rounds it to
/// nearest.
pub const TENON_NARROW_MASTER: u32 = 2;

pub const TENON_SPARSE_OPTIMIZER_ID: &CStr = text(b"tenon.sparse_optimizer/1\0");

pub const TENON_STEP_SUMS_ID: &CStr = text(b"tenon.step_sums/1\0");

pub const TENON_STORAGE_ID: &CStr = text(b"tenon.storage/1\0");
/// Flag of a block, beside TENON_BLOCK_* of model.h. The block calls the operators above, so the
/// host may give it parts of its split parameters. Splits of other blocks are ignored: such blocks
/// run whole on each rank.
pub const TENON_BLOCK_DIVISIBLE: u32 = 256;
/// Flag of a parameter without a split, beside TENON_PARAM_* of model.h: divisible blocks use it
/// inside of the region, so that its gradient is the sum over the ranks. All blocks that use a
/// parameter use it inside, or none.
pub const TENON_PARAM_INSIDE: u32 = 32;
/// Flag of a loss, beside TENON_LOSS_* of loss.h. Inputs that a divisible block makes with a split
/// arrive as this rank's part, and the loss is computed in a region: it adds up over parts by
/// `tenon::tensor_out`, and returns the same sum on all ranks. Other losses get whole inputs.
pub const TENON_LOSS_DIVISIBLE: u32 = 2;

// Why a text ended.
/// the model chose the tokenizer's end-of-text token
pub const TENON_TEXT_END_TOKEN: u32 = 0;
/// max_tokens
pub const TENON_TEXT_MAX_TOKENS: u32 = 1;
/// the model's longest sequence
pub const TENON_TEXT_MAX_POSITIONS: u32 = 2;
/// the run was asked to stop
pub const TENON_TEXT_STOPPED: u32 = 3;
/// the model's logits were NaN, or all -infinity
pub const TENON_TEXT_NON_FINITE: u32 = 4;

pub const TENON_TEXT_GENERATION_ID: &CStr = text(b"tenon.text_generation/1\0");

// Flags of a layout tensor.
/// The file stores the parameter with its two axes exchanged.
pub const TENON_LAYOUT_TRANSPOSED: u32 = 1;
/// The tensor is another name of a parameter that an earlier tensor stores. It is not written, and
/// may be missing in files that are read. If it exists, it must have the same values.
pub const TENON_LAYOUT_ALIAS: u32 = 2;
/// The tensor is the slice `index` of the parameter along its first axis, without that axis. The
/// slices of a parameter are all in files, and have the same flags. `first` is 0.
pub const TENON_LAYOUT_SLICE: u32 = 4;

pub const TENON_WEIGHTS_LAYOUT_ID: &CStr = text(b"tenon.weights_layout/1\0");

// ---- opaque types ----

#[repr(C)]
pub struct DLManagedTensorVersioned {
    _private: [u8; 0],
}

/// A compiled template. Opaque.
#[repr(C)]
pub struct tenon_chat_template {
    _private: [u8; 0],
}

/// An operator. Opaque; it lives as long as the process.
#[repr(C)]
pub struct tenon_op {
    _private: [u8; 0],
}

#[repr(C)]
pub struct tenon_options {
    _private: [u8; 0],
}

/// The running training, valid during an event. Opaque.
#[repr(C)]
pub struct tenon_run {
    _private: [u8; 0],
}

/// A failure, owned by its holder. Opaque; the host allocates it.
#[repr(C)]
pub struct tenon_status {
    _private: [u8; 0],
}

/// A file of an open checkpoint. Opaque; defined by the plugin.
#[repr(C)]
pub struct tenon_storage_file {
    _private: [u8; 0],
}

/// A handle of a tensor. Opaque.
#[repr(C)]
pub struct tenon_tensor {
    _private: [u8; 0],
}

// ---- types of functions ----

/// Receives ids, bytes, ids with the ranges of bytes that they stand for, or a file. All but the
/// last may be called several times with consecutive parts of the result. An error stops the caller
/// and is passed on. The data is borrowed until the sink returns.
pub type tenon_ids_sink = Option<unsafe extern "C" fn(
    context: *mut c_void,
    ids: *const i32,
    n: usize,
) -> *mut tenon_status>;

pub type tenon_bytes_sink = Option<unsafe extern "C" fn(
    context: *mut c_void,
    bytes: *const c_char,
    n: usize,
) -> *mut tenon_status>;

/// Token i stands for the bytes [begins[i], ends[i]) of the text. Begins never decrease. Several
/// tokens may stand for the same bytes (the bytes of one character). A token that was added without
/// text has an empty range.
pub type tenon_tokens_sink = Option<unsafe extern "C" fn(
    context: *mut c_void,
    ids: *const i32,
    begins: *const i64,
    ends: *const i64,
    n: usize,
) -> *mut tenon_status>;

pub type tenon_file_sink = Option<unsafe extern "C" fn(
    context: *mut c_void,
    name: *const c_char,
    bytes: *const c_char,
    num_bytes: usize,
) -> *mut tenon_status>;

/// Receives the pieces in order, in one or several calls. An error stops the caller and is passed
/// on. The data is borrowed until the sink returns.
pub type tenon_chat_sink = Option<unsafe extern "C" fn(
    context: *mut c_void,
    pieces: *const tenon_chat_piece,
    n: usize,
) -> *mut tenon_status>;

/// Receives the files, one per call. An error stops the caller and is passed on.
pub type tenon_source_file_sink = Option<unsafe extern "C" fn(
    context: *mut c_void,
    file: *const tenon_source_file,
) -> *mut tenon_status>;

/// Receives names, one per call. An error stops the caller and is passed on. The name is borrowed
/// until the sink returns.
pub type tenon_names_sink = Option<unsafe extern "C" fn(
    context: *mut c_void,
    name: *const c_char,
) -> *mut tenon_status>;

// ---- structs ----

/// Arguments of `create`. All pointers are borrowed until `create` returns, unless stated otherwise.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_create_args {
    pub struct_size: usize,
    /// The validated options, with defaults filled in (options.h). Never null.
    pub options: *const tenon_options,
    /// JSON pointer in the recipe, "/hooks/0"; lives as long as the instance
    pub place: *const c_char,
    /// derived from the run's seed and `place`; equal on all ranks
    pub seed: u64,
    /// position of this rank; valid for the whole run
    pub mesh: *const tenon_mesh,
}
layout!(tenon_create_args, 40: struct_size 0 8, options 8 8, place 16 8, seed 24 8, mesh 32 8);

/// Describes a component. The descriptor, its strings and its table live as long as the process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_component {
    pub struct_size: usize,
    /// one of the kinds of this ABI, for example "loss"
    pub kind: *const c_char,
    /// name in recipes, for example "cross_entropy": [a-z0-9_]
    pub r#type: *const c_char,
    /// interface that `table` implements, for example "tenon.loss/1"
    pub interface_id: *const c_char,
    /// function table of the kind; the type follows from interface_id
    pub table: *const c_void,
    /// one line for --list-plugins
    pub summary: *const c_char,
    /// JSON Schema (draft 7) of an object. Every optional key has a default. An empty "properties"
    /// means that the component has no options.
    pub options_schema: *const c_char,
    /// Creates an instance. It has no effect outside of the process: the first time the host sees a
    /// plugin, it creates, describes and destroys an instance of each component with default options,
    /// in a child process.
    ///
    /// Errors   TENON_INVALID for options that are valid individually but not together; TENON_IO and
    ///          others as they apply. On an error, `destroy` is not called
    /// Threads  [main]
    /// Owner    the instance belongs to the plugin; the host calls `destroy` exactly once
    /// Since    0.1
    pub create: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        args: *const tenon_create_args,
        out_self: *mut *mut c_void,
    ) -> *mut tenon_status>,
    /// Destroys an instance.
    ///
    /// Threads  [main], never while another call on the instance is running
    /// Owner    takes `self`
    /// Since    0.1
    pub destroy: Option<unsafe extern "C" fn(this: *mut c_void)>,
    /// Returns the table of an optional ability ("tenon.stateful/1"), whose functions take `self`, or
    /// null if the instance lacks it. The function pointer itself may be null.
    ///
    /// Threads  [any]
    /// Owner    the table lives at least as long as the instance
    /// Since    0.1
    pub get_extension: Option<unsafe extern "C" fn(
        this: *mut c_void,
        id: *const c_char,
    ) -> *const c_void>,
    /// Returns the table of another interface of the component, or null if it has none of this id. The
    /// function pointer itself may be null. The host asks for two sorts of ids:
    ///
    /// - other versions of the kind's interface ("tenon.loss/2"), newest first, if it does not know
    ///   `interface_id`. A component that serves old and new hosts names the older one there;
    /// - abilities that concern the component before an instance exists.
    ///
    /// Threads  [any]
    /// Owner    the table lives as long as the process
    /// Since    0.4
    pub get_table: Option<unsafe extern "C" fn(id: *const c_char) -> *const c_void>,
}
layout!(tenon_component, 88:
    struct_size 0 8, kind 8 8, r#type 16 8, interface_id 24 8, table 32 8, summary 40 8,
    options_schema 48 8, create 56 8, destroy 64 8, get_extension 72 8, get_table 80 8);

/// Declares a field. A column X with the same number of entries in each sample is one field "X", [B]
/// or [B, n]. A ragged column X has any number of entries per sample, in several fields: "X.values"
/// [entries], "X.offsets" i64 [B + 1] and, if entries have weights, "X.weights" f32 [entries].
/// Offsets start at 0, never decrease, and end with the number of entries. With two levels,
/// "X.offsets" splits the pieces, and "X.offsets.1" splits the values into pieces. The axes of
/// ragged fields have no name and size -1. Ids are i64.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_field_spec {
    pub struct_size: usize,
    /// for example "input_ids"; or a part of a ragged column
    pub name: *const c_char,
    /// [num_axes] the first axis is "B" in fields with one entry per sample.
    pub axes: *const tenon_axis,
    pub num_axes: usize,
    /// a dtype, not a class
    pub dtype: u32,
    /// TENON_FIELD_*
    pub flags: u32,
    /// padding value
    pub pad: f64,
}
layout!(tenon_field_spec, 48:
    struct_size 0 8, name 8 8, axes 16 8, num_axes 24 8, dtype 32 4, flags 36 4, pad 40 8);

/// Result of `describe`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_dataset_info {
    /// set by the host, which also zeroes the other fields
    pub struct_size: usize,
    /// TENON_DATASET_*
    pub style: u32,
    /// 0: each epoch is one window
    pub has_windows: u32,
    /// Stream style: number of shards, at least 1. It depends on the options and never on the number
    /// of ranks. Map style: ignored.
    pub num_shards: u32,
    pub reserved: u32,
    /// [num_fields] lives as long as the instance
    pub fields_ref: *const tenon_field_spec,
    pub num_fields: usize,
}
layout!(tenon_dataset_info, 40:
    struct_size 0 8, style 8 4, has_windows 12 4, num_shards 16 4, reserved 20 4, fields_ref 24 8,
    num_fields 32 8);

/// Result of `next_window`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_window {
    /// set by the host, which also zeroes the other fields
    pub struct_size: usize,
    /// the same for the same window in every run
    pub id: u64,
    /// Shown to users, "2026-11-20/07"; may be null; lives until the next call of next_window.
    pub label_ref: *const c_char,
    /// number of samples; -1: unknown, for streams only
    pub size: i64,
    /// 1: counted, but not trained on
    pub skip: u32,
    /// Milliseconds, 0 for a window. Any other value: there is no window yet, the other fields are
    /// ignored, and the host asks again after this time.
    pub wait_ms: u32,
}
layout!(tenon_window, 40:
    struct_size 0 8, id 8 8, label_ref 16 8, size 24 8, skip 32 4, wait_ms 36 4);

/// Receives the batch of one read. The host owns the memory, which is pinned if there is a GPU. The
/// tags below hold for every function.
///
/// Errors   TENON_INVALID for a field or shape that contradicts the schema, a field written twice,
///          or a null argument
/// Threads  those of the read, and only during it
/// Since    0.1
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_batch_writer {
    pub struct_size: usize,
    pub r#impl: *mut c_void,
    /// Allocates field number `field` as a contiguous tensor of `shape`. Fill *out_data before the
    /// read returns. Each field is written once.
    ///
    /// Shapes   shape [ndim]
    /// Owner    the memory belongs to the host
    pub add: Option<unsafe extern "C" fn(
        writer: *mut tenon_batch_writer,
        field: u32,
        ndim: u32,
        shape: *const i64,
        out_data: *mut *mut c_void,
    ) -> *mut tenon_status>,
    /// Sets a field from a CPU tensor of the declared dtype, without a copy if it is contiguous.
    ///
    /// Owner    `tensor` is borrowed; the host takes a reference
    pub add_tensor: Option<unsafe extern "C" fn(
        writer: *mut tenon_batch_writer,
        field: u32,
        tensor: *const tenon_tensor,
    ) -> *mut tenon_status>,
    /// Sets the number of samples, and of tokens that are not padding (0 if tokens have no meaning).
    /// Required, once per batch. Map style: `samples` equals the number of indices. Stream style: at
    /// most `max_samples`.
    ///
    /// Errors   TENON_INVALID for a negative or contradictory number, or a second call
    pub set_counts: Option<unsafe extern "C" fn(
        writer: *mut tenon_batch_writer,
        samples: i64,
        tokens: i64,
    ) -> *mut tenon_status>,
    /// Sets the shard's position after this batch, from which a resumed run continues. Stream style
    /// only.
    ///
    /// Errors   TENON_INVALID for more than 1 MiB
    /// Owner    `data` is copied
    pub set_position: Option<unsafe extern "C" fn(
        writer: *mut tenon_batch_writer,
        data: *const c_void,
        size: usize,
    ) -> *mut tenon_status>,
    /// Sets the number of valid entries of each sample along the axis "T"; the rest is padding.
    /// Optional, at most once per batch. Without it, all entries are valid.
    ///
    /// Shapes   lengths [n], one per sample of the batch; each in [0, T]
    /// Errors   TENON_INVALID for another n or a length out of range, and for a second call
    /// Owner    `lengths` is copied
    /// Since    0.5
    pub set_lengths: Option<unsafe extern "C" fn(
        writer: *mut tenon_batch_writer,
        lengths: *const i64,
        n: usize,
    ) -> *mut tenon_status>,
}
layout!(tenon_batch_writer, 56:
    struct_size 0 8, r#impl 8 8, add 16 8, add_tensor 24 8, set_counts 32 8, set_position 40 8,
    set_lengths 48 8);

/// Arguments of `read`. All pointers are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_read_args {
    pub struct_size: usize,
    /// null if the dataset has no windows
    pub window: *const tenon_window,
    /// [num_indices] each in [0, size)
    pub indices: *const i64,
    pub num_indices: usize,
    /// receives the samples, in the order of `indices`, as one batch
    pub writer: *mut tenon_batch_writer,
}
layout!(tenon_read_args, 40:
    struct_size 0 8, window 8 8, indices 16 8, num_indices 24 8, writer 32 8);

/// Arguments of `lengths`. All pointers are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_lengths_args {
    pub struct_size: usize,
    /// null if the dataset has no windows
    pub window: *const tenon_window,
    /// first sample
    pub first: i64,
    pub num_samples: usize,
    /// [num_samples] result: tokens of samples first, first + 1, ...
    pub out_lengths: *mut i64,
}
layout!(tenon_lengths_args, 40:
    struct_size 0 8, window 8 8, first 16 8, num_samples 24 8, out_lengths 32 8);

/// Arguments of `next`. All pointers are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_next_args {
    pub struct_size: usize,
    /// null if the dataset has no windows
    pub window: *const tenon_window,
    /// in [0, num_shards)
    pub shard: u32,
    /// result: 1 at the end of the shard; 0 on entry
    pub out_end: u32,
    /// at least 1
    pub max_samples: i64,
    /// receives the samples
    pub writer: *mut tenon_batch_writer,
}
layout!(tenon_next_args, 40:
    struct_size 0 8, window 8 8, shard 16 4, out_end 20 4, max_samples 24 8, writer 32 8);

/// Arguments of `seek`. All pointers are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_seek_args {
    pub struct_size: usize,
    /// null if the dataset has no windows
    pub window: *const tenon_window,
    /// in [0, num_shards)
    pub shard: u32,
    pub reserved: u32,
    /// A position that `set_position` reported, [position_size] bytes; null: the start of the window
    /// or epoch.
    pub position: *const c_void,
    pub position_size: usize,
}
layout!(tenon_seek_args, 40:
    struct_size 0 8, window 8 8, shard 16 4, reserved 20 4, position 24 8, position_size 32 8);

/// Interface TENON_DATASET_ID. Map style requires `size` and `read`; stream style requires `next`,
/// `seek` and `reset`; windows require `next_window` and `reset`. All others may be null.
///
/// Of `exec`, only host, device (the CPU), mesh, services and `stop_requested` are meaningful.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_dataset {
    pub struct_size: usize,
    /// Describes style, windows, shards and fields.
    ///
    /// Errors   TENON_IO, TENON_NOT_FOUND or TENON_INVALID for data that cannot be read
    /// Threads  [main], once, before any other call
    /// Owner    `out` is borrowed; the arrays it refers to belong to the instance
    /// Since    0.1
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        out: *mut tenon_dataset_info,
    ) -> *mut tenon_status>,
    /// Map style: returns the number of samples in the window. `window` is null if the dataset has no
    /// windows.
    ///
    /// Errors   TENON_IO for data that cannot be read
    /// Threads  [main]
    /// Since    0.1
    pub size: Option<unsafe extern "C" fn(
        this: *mut c_void,
        window: *const tenon_window,
        out: *mut i64,
    ) -> *mut tenon_status>,
    /// Map style: reads samples as one batch.
    ///
    /// Errors   TENON_IO or TENON_DATA_LOSS, with file and offset; TENON_CANCELLED if
    ///          `stop_requested`
    /// Threads  [worker]: several reads run concurrently
    /// Owner    `args` is borrowed until return
    /// Since    0.1
    pub read: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_read_args,
    ) -> *mut tenon_status>,
    /// Stream style: reads up to `max_samples` samples from a shard, and sets the position after them.
    /// At the end of the shard (of the window, or of the epoch), it writes the remaining samples,
    /// possibly none, and sets `out_end`. A batch that is not the last has at least one sample.
    ///
    /// Errors   as for `read`
    /// Threads  [worker]: different shards concurrently, one shard never
    /// Owner    `args` is borrowed until return
    /// Since    0.1
    pub next: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *mut tenon_next_args,
    ) -> *mut tenon_status>,
    /// Stream style: moves a shard to a position. The host calls `reset` before the first `seek` of an
    /// epoch, and `seek` before the first `next` of a shard that does not begin at the start.
    ///
    /// Errors   TENON_INVALID for a position it cannot read, TENON_IO
    /// Threads  [main], while no read is running
    /// Owner    `args` is borrowed until return
    /// Since    0.1
    pub seek: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_seek_args,
    ) -> *mut tenon_status>,
    /// Returns the next window, or *out_has = 0 at the end of the epoch. A dataset that follows a
    /// growing source must not block until new data arrives. It returns *out_has = 1 with `wait_ms`
    /// set instead; the host keeps handling signals, and calls again.
    ///
    /// Errors   TENON_IO
    /// Threads  [main], while no read is running
    /// Owner    `label_ref` lives until the next call
    /// Since    0.1
    pub next_window: Option<unsafe extern "C" fn(
        this: *mut c_void,
        out: *mut tenon_window,
        out_has: *mut u32,
    ) -> *mut tenon_status>,
    /// Starts an epoch: windows and streams start over. `epoch` counts from 0.
    ///
    /// Errors   TENON_IO
    /// Threads  [main], while no read is running
    /// Since    0.1
    pub reset: Option<unsafe extern "C" fn(this: *mut c_void, epoch: u64) -> *mut tenon_status>,
    /// Map style, optional: returns the lengths of consecutive samples along the axis "T", which
    /// `read` then sets in `set_lengths`. With it, the host can pack several samples into one row. It
    /// must be cheap: the host calls it for all samples of an epoch.
    ///
    /// Errors   TENON_IO or TENON_DATA_LOSS, with file and offset
    /// Threads  [worker], also while reads are running
    /// Owner    `args` is borrowed until return
    /// Since    0.5
    pub lengths: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_lengths_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_dataset, 72:
    struct_size 0 8, describe 8 8, size 16 8, read 24 8, next 32 8, seek 40 8, next_window 48 8,
    reset 56 8, lengths 64 8);

/// Position of this rank in the mesh.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_mesh {
    pub struct_size: usize,
    /// in [0, world_size)
    pub rank: u32,
    /// number of ranks, at least 1
    pub world_size: u32,
    /// position along each dimension, in [0, size)
    pub coordinate: [u32; TENON_MESH_DIMS as usize],
    /// 1 for an unused dimension
    pub size: [u32; TENON_MESH_DIMS as usize],
}
layout!(tenon_mesh, 80: struct_size 0 8, rank 8 4, world_size 12 4, coordinate 16 32, size 48 32);

/// Context of a call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_exec {
    pub struct_size: usize,
    /// the plugin's host handle
    pub host: *const tenon_host,
    /// where tensor arguments are and results must be
    pub device: tenon_device,
    /// cudaStream_t to queue work on; null on a CPU. It is never the default stream
    pub stream: *mut c_void,
    /// Seed of this call, derived from run seed, step, microbatch, block and data-parallel rank. A
    /// recompute gets the same seed.
    pub seed: u64,
    /// training step, from 1; 0 before the first
    pub step: u64,
    /// index within the step, from 0
    pub microbatch: u32,
    /// TENON_MODE_*
    pub mode: u32,
    /// 1: forward runs again for backward and must have no side effects
    pub is_recompute: u32,
    /// dtype of floating-point activations, TENON_F32 etc.
    pub compute_dtype: u32,
    /// position of this rank; never null; valid for the whole run
    pub mesh: *const tenon_mesh,
    /// tensor service
    pub tensors: *const tenon_tensor_api,
    /// operator service
    pub ops: *const tenon_op_api,
    /// Waits until the device has finished the work queued so far. The run report counts the waits of
    /// each plugin, so call it only to read data.
    ///
    /// Errors   TENON_INVALID if `exec` is null; TENON_INTERNAL if the device failed
    /// Threads  the thread of the call that received this exec
    /// Since    0.1
    pub sync: Option<unsafe extern "C" fn(exec: *const tenon_exec) -> *mut tenon_status>,
    /// Returns 1 if the run is about to end, because it was asked to stop. A call that waits or takes
    /// long may then give up with TENON_CANCELLED, which is not an error of the component. A null
    /// `exec` gives 0.
    ///
    /// Threads  [any], until the call that received this exec returns
    /// Since    0.4
    pub stop_requested: Option<unsafe extern "C" fn(exec: *const tenon_exec) -> u32>,
}
layout!(tenon_exec, 104:
    struct_size 0 8, host 8 8, device 16 8, stream 24 8, seed 32 8, step 40 8, microbatch 48 4,
    mode 52 4, is_recompute 56 4, compute_dtype 60 4, mesh 64 8, tensors 72 8, ops 80 8, sync 88 8,
    stop_requested 96 8);

/// Static type of a column.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_column_type {
    /// set by the host
    pub struct_size: usize,
    /// dtype of the values; TENON_U8 if is_text is set
    pub dtype: u32,
    /// 0: the same number of entries in each sample; 1: a list of entries per sample; 2: a list of
    /// lists. Text has one more level, which splits bytes into strings.
    pub num_levels: u32,
    /// 1: values are bytes of text
    pub is_text: u32,
    /// 1: each entry has a weight; never with num_levels 0, or 1 for text
    pub has_weights: u32,
    /// With num_levels 0: 0 for values [B], n for [B, n], -1 for [B, any]; otherwise 0.
    pub width: i64,
}
layout!(tenon_column_type, 32:
    struct_size 0 8, dtype 8 4, num_levels 12 4, is_text 16 4, has_weights 20 4, width 24 8);

/// A column of B samples, on the CPU. offsets[0] has B + 1 elements and splits the level below into
/// samples; offsets[l] splits the level below into the pieces of level l - 1. Each offsets tensor
/// starts at 0, never decreases, and ends with the number of pieces or values below. The host has
/// validated all this.
///
///     samples {"ab", "c"} and {}   as lists of strings:
///     values u8 "abc"   offsets[0] = 0 2 2   offsets[1] = 0 2 3
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_column {
    pub struct_size: usize,
    /// [entries], contiguous; without levels [B] or [B, n]
    pub values: *const tenon_tensor,
    /// [num_levels] i64, contiguous
    pub offsets: *const *const tenon_tensor,
    pub num_levels: usize,
    /// [entries] f32, one per entry (for text: per string); null if all weights are 1
    pub weights: *const tenon_tensor,
}
layout!(tenon_column, 40: struct_size 0 8, values 8 8, offsets 16 8, num_levels 24 8, weights 32 8);

/// Receives one output column. All handles are null on entry; the transform stores new handles, with
/// the type that `infer` returned.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_column_out {
    pub struct_size: usize,
    /// As tenon_column::values, contiguous, on the CPU; required.
    pub values_own: *mut tenon_tensor,
    /// [num_levels] as tenon_column::offsets; all required. The host provides the array.
    pub offsets_own: *mut *mut tenon_tensor,
    pub num_levels: usize,
    /// f32 [entries], as tenon_column::weights. Required if `infer` set has_weights; otherwise leave
    /// it null.
    pub weights_own: *mut tenon_tensor,
}
layout!(tenon_column_out, 40:
    struct_size 0 8, values_own 8 8, offsets_own 16 8, num_levels 24 8, weights_own 32 8);

/// One call of one instance.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_feature_call {
    pub struct_size: usize,
    /// the instance
    pub this: *mut c_void,
    /// [num_inputs]
    pub inputs: *const tenon_column,
    pub num_inputs: usize,
    /// [num_outputs]
    pub outputs: *mut tenon_column_out,
    pub num_outputs: usize,
}
layout!(tenon_feature_call, 48:
    struct_size 0 8, this 8 8, inputs 16 8, num_inputs 24 8, outputs 32 8, num_outputs 40 8);

/// Interface TENON_FEATURE_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_feature {
    pub struct_size: usize,
    /// Infers the output types from the input types.
    ///
    /// Shapes   inputs [num_inputs]; *io_num_outputs holds the capacity of `outputs` and receives the
    ///          number of outputs, at least 1
    /// Errors   TENON_INVALID for a number or type of inputs that it does not accept, stating what it
    ///          accepts
    /// Threads  [main], once, before `run`
    /// Owner    all arguments are borrowed until return
    /// Since    0.1
    pub infer: Option<unsafe extern "C" fn(
        this: *mut c_void,
        inputs: *const tenon_column_type,
        num_inputs: usize,
        outputs: *mut tenon_column_type,
        io_num_outputs: *mut usize,
    ) -> *mut tenon_status>,
    /// Runs n calls, for n instances of this type, which do not depend on each other. An output may be
    /// an input passed on, as another handle of the same tensor (`retain`). Equal inputs must give
    /// equal outputs, whenever and however often the host calls. Of `exec`, only device (the CPU),
    /// mesh and services are meaningful.
    ///
    /// Shapes   all input and output columns of a call have the same B, which may be 0
    /// Errors   TENON_INVALID for values it cannot process, naming the first one and its sample. The
    ///          host releases the handles that are already stored, then repeats the calls one by one
    ///          to find the instance that failed
    /// Threads  [worker]: several calls concurrently, also for one instance
    /// Owner    inputs are borrowed; the host releases the outputs
    /// Since    0.1
    pub run: Option<unsafe extern "C" fn(
        exec: *const tenon_exec,
        calls: *mut tenon_feature_call,
        n: usize,
    ) -> *mut tenon_status>,
}
layout!(tenon_feature, 24: struct_size 0 8, infer 8 8, run 16 8);

/// Result of `describe`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_hook_info {
    /// Set by the host, which also zeroes the other fields, except phase = TENON_PHASE_NORMAL.
    pub struct_size: usize,
    /// TENON_EVENT_BIT of each event to be called at
    pub events: u64,
    /// TENON_PHASE_*
    pub phase: u32,
    /// higher runs first
    pub priority: i32,
    /// TENON_TOUCH_*: what the host must prepare. Only TENON_TOUCH_LOSS and TENON_TOUCH_OUTPUTS have
    /// an effect in this host. With TENON_TOUCH_OUTPUTS the host runs all blocks of the model and
    /// keeps their outputs, which costs time and memory.
    pub reads: u32,
    /// TENON_TOUCH_*, except TENON_TOUCH_OUTPUTS
    pub writes: u32,
    /// 1: called only on rank 0. With several ranks, such a hook must not write anything.
    pub rank_0_only: u32,
    /// 1: the host gathers whole parameters for it, on all ranks
    pub full_parameters: u32,
    /// 1: it calls all_reduce, or a service that all ranks call together, with the same calls on all
    /// ranks. Not with rank_0_only.
    pub uses_collectives: u32,
    pub reserved: u32,
}
layout!(tenon_hook_info, 48:
    struct_size 0 8, events 8 8, phase 16 4, priority 20 4, reads 24 4, writes 28 4,
    rank_0_only 32 4, full_parameters 36 4, uses_collectives 40 4, reserved 44 4);

/// One parameter. Tensors are borrowed until the event returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_parameter_view {
    /// set by the caller
    pub struct_size: usize,
    /// lives as long as the run
    pub name_ref: *const c_char,
    /// The local shard, or the whole parameter if full_parameters is set.
    pub value_ref: *const tenon_tensor,
    /// null if there is no gradient at this event
    pub grad_ref: *const tenon_tensor,
    /// position of the shard in what `numel` counts, in elements
    pub offset: i64,
    /// Number of elements of the whole parameter; of this rank's part of it, in row-major order, if
    /// tensor ranks divide it and full_parameters is not set.
    pub numel: i64,
}
layout!(tenon_parameter_view, 48:
    struct_size 0 8, name_ref 8 8, value_ref 16 8, grad_ref 24 8, offset 32 8, numel 40 8);

/// Parameters that share a learning rate: the recipe's optimizer or one of its groups. In each,
/// parameters without weight decay form a separate group.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_lr_group {
    /// set by the caller
    pub struct_size: usize,
    /// "default", or "group0" and so on by position in the recipe, plus ".no_decay" for parameters
    /// without weight decay. Lives as long as the run.
    pub name_ref: *const c_char,
    /// The pattern of the recipe's group; "" for parameters that no pattern matches. Lives as long as
    /// the run.
    pub match_ref: *const c_char,
    /// the option "lr"
    pub base_rate: f64,
    /// Learning rate of this step's update: base_rate times schedule and factor. Before the update,
    /// the rate it would use now; before the first step, the rate of the first step.
    pub rate: f64,
}
layout!(tenon_lr_group, 40:
    struct_size 0 8, name_ref 8 8, match_ref 16 8, base_rate 24 8, rate 32 8);

/// Gives a hook access to the run. The tags below hold for every function.
///
/// Errors   TENON_INVALID for a null argument or an index out of range
/// Threads  those of the event, and only during it
/// Since    0.1
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_run_api {
    pub struct_size: usize,
    /// Makes requests, TENON_REQUEST_*. `reason` is logged; for STOP it also appears in the last line
    /// of the run. It may be null.
    ///
    /// Errors   TENON_INVALID for an unknown request, or one that the recipe does not allow
    pub request: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        requests: u32,
        reason: *const c_char,
    ) -> *mut tenon_status>,
    /// Returns the last recorded value of a metric. Names: "loss" (of the last log line), "lr",
    /// "grad_norm", "loss_scale", "step_seconds", "samples_per_second", "tokens_per_second",
    /// "data_wait_seconds", "eval/loss", and those of the recipe's metrics and of plugins. All ranks
    /// have the same value, which is up to `log_every` steps old (get_step_loss is not).
    ///
    /// Errors   TENON_NOT_FOUND if there is no value yet
    pub get_metric: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        name: *const c_char,
        out: *mut f64,
    ) -> *mut tenon_status>,
    /// Returns a scalar of the current step that may still be on the device: "loss" (mean so far, over
    /// the samples of this rank), "grad_norm", or "applied" (1 or 0). All ranks have the same
    /// "grad_norm" and "applied".
    ///
    /// Errors   TENON_NOT_FOUND before the first loss of a step, or if this rank had no sample in it
    /// Owner    *out_ref is borrowed until the event returns
    pub get_scalar: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        name: *const c_char,
        out_ref: *mut *const tenon_tensor,
    ) -> *mut tenon_status>,
    /// Adds a metric to the next record. If several ranks add it, the lowest rank's value is recorded.
    ///
    /// Errors   TENON_INVALID for an invalid or reserved name (metrics.h)
    pub add_metric: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        name: *const c_char,
        value: f64,
    ) -> *mut tenon_status>,
    /// Returns a field of the batch, or null if there is no such field or no batch at this event. A
    /// hook that changes the field in place declares TENON_TOUCH_BATCH.
    ///
    /// Owner    *out_ref is borrowed until the event returns
    pub get_field: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        name: *const c_char,
        out_ref: *mut *mut tenon_tensor,
    ) -> *mut tenon_status>,
    /// Sets a factor on the learning rate of every group, on top of the schedule. It stays in effect
    /// until it is set again, and is saved in checkpoints. All ranks must set the same factor.
    ///
    /// Errors   TENON_INVALID for a negative or non-finite factor, or a hook that does not declare
    ///          TENON_TOUCH_LR
    pub set_lr_factor: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        factor: f64,
    ) -> *mut tenon_status>,
    /// Returns the number of parameters.
    pub get_num_parameters: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        out: *mut usize,
    ) -> *mut tenon_status>,
    /// Returns parameter i, in [0, number of parameters).
    ///
    /// Owner    `out` is filled with borrowed pointers
    pub get_parameter: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        i: usize,
        out: *mut tenon_parameter_view,
    ) -> *mut tenon_status>,
    /// Returns the run directory, which contains the run's files. Never null.
    ///
    /// Owner    lives as long as the run
    pub run_dir: Option<unsafe extern "C" fn(run: *mut tenon_run) -> *const c_char>,
    /// Returns the number of learning-rate groups.
    pub get_num_lr_groups: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        out: *mut usize,
    ) -> *mut tenon_status>,
    /// Returns learning-rate group i.
    pub get_lr_group: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        i: usize,
        out: *mut tenon_lr_group,
    ) -> *mut tenon_status>,
    /// Reads a number from the options of the group's optimizer, by JSON pointer: "/weight_decay",
    /// "/betas/0".
    ///
    /// Errors   TENON_NOT_FOUND if there is no number at the pointer
    pub get_lr_group_option: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        i: usize,
        pointer: *const c_char,
        out: *mut f64,
    ) -> *mut tenon_status>,
    /// Requests TENON_REQUEST_ROLL_BACK to a checkpoint before `first_bad_step`, a finished step at
    /// which the run turned bad.
    ///
    /// Errors   TENON_INVALID for a step that is not finished, or if the recipe does not allow it
    pub roll_back: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        first_bad_step: u64,
        reason: *const c_char,
    ) -> *mut tenon_status>,
    /// Returns an output of the model for the current microbatch, by its name in the model: at
    /// after_forward, before_loss, after_loss and before_backward, also in an evaluation.
    ///
    /// Errors   TENON_NOT_FOUND if no such value is computed at this event: with `loss_chunk`, the
    ///          outputs of the last block never exist as a whole; without TENON_TOUCH_OUTPUTS in
    ///          `reads`, only outputs that a loss or a metric reads exist
    /// Owner    *out_ref is borrowed until the event returns
    /// Since    0.4
    pub get_output: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        name: *const c_char,
        out_ref: *mut *const tenon_tensor,
    ) -> *mut tenon_status>,
    /// Replaces a field of the batch, at after_data. The new tensor has the dtype, device and number
    /// of axes of the old one, and the same size of the first axis.
    ///
    /// Errors   TENON_NOT_FOUND if there is no such field; TENON_INVALID for another tensor or event,
    ///          or a hook that does not declare TENON_TOUCH_BATCH
    /// Owner    `tensor` is borrowed; the host takes a reference
    /// Since    0.4
    pub set_field: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        name: *const c_char,
        tensor: *const tenon_tensor,
    ) -> *mut tenon_status>,
    /// Multiplies the loss of the current microbatch, auxiliary losses included, by a factor for the
    /// backward pass: at before_loss, after_loss and before_backward of the training. Recorded losses
    /// do not change.
    ///
    /// Errors   TENON_INVALID for a non-finite factor, another event, or a hook that does not declare
    ///          TENON_TOUCH_LOSS; TENON_UNSUPPORTED after before_loss if the recipe sets `loss_chunk`,
    ///          because gradients are then computed along with the loss
    /// Since    0.4
    pub scale_loss: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        factor: f64,
    ) -> *mut tenon_status>,
    /// Returns the loss of the current step over all ranks, as a record of this step alone would show
    /// it: from before_optimizer_step to after_step.
    ///
    /// Errors   TENON_NOT_FOUND before that, or if the loss of the step is non-finite; TENON_INVALID
    ///          if the hook does not declare to read TENON_TOUCH_LOSS
    /// Since    0.4
    pub get_step_loss: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        out: *mut f64,
    ) -> *mut tenon_status>,
    /// Replaces each of n numbers by its reduction over all ranks: TENON_REDUCE_SUM, in rank order, or
    /// TENON_REDUCE_MAX. All ranks call it at the same events, with the same n and reduction; not at
    /// on_error and end.
    ///
    /// Shapes   io_values [n], n at most 4096
    /// Errors   TENON_INVALID for another n or reduction, or a hook that does not declare
    ///          uses_collectives. If a rank is lost, the run ends
    /// Owner    io_values is borrowed
    /// Since    0.4
    pub all_reduce: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        io_values: *mut f64,
        n: usize,
        reduction: u32,
    ) -> *mut tenon_status>,
}
layout!(tenon_run_api, 152:
    struct_size 0 8, request 8 8, get_metric 16 8, get_scalar 24 8, add_metric 32 8, get_field 40 8,
    set_lr_factor 48 8, get_num_parameters 56 8, get_parameter 64 8, run_dir 72 8,
    get_num_lr_groups 80 8, get_lr_group 88 8, get_lr_group_option 96 8, roll_back 104 8,
    get_output 112 8, set_field 120 8, scale_loss 128 8, get_step_loss 136 8, all_reduce 144 8);

/// One event. All pointers are borrowed until `on_event` returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_event {
    pub struct_size: usize,
    /// TENON_EVENT_*
    pub id: u32,
    /// 0 during an evaluation
    pub is_train: u32,
    /// current or last finished step, from 1; 0 before the first
    pub step: u64,
    /// from 0; in an evaluation, that of the training
    pub epoch: u64,
    /// Index in the epoch, from 0, not counting skipped windows; 0 at events outside of windows.
    pub window: u64,
    /// index in the step or evaluation, from 0; 0 at other events
    pub microbatch: u64,
    /// "" if the dataset has no windows
    pub window_label: *const c_char,
    /// Depends on the event, "" at all others. on_error: the error. end: the outcome. after_load: the
    /// reason of a rollback, "" for a resume. before_evaluate and after_evaluate: the prefix of the
    /// metric names, "next/" or "test/"; "" if the evaluation uses data.eval.
    pub message: *const c_char,
    /// first argument of the functions in `api`
    pub run: *mut tenon_run,
    /// never null
    pub api: *const tenon_run_api,
    /// Device, stream and services, for work on tensors; never null. `seed` is 0.
    pub exec: *const tenon_exec,
}
layout!(tenon_event, 88:
    struct_size 0 8, id 8 4, is_train 12 4, step 16 8, epoch 24 8, window 32 8, microbatch 40 8,
    window_label 48 8, message 56 8, run 64 8, api 72 8, exec 80 8);

/// Interface TENON_HOOK_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_hook {
    pub struct_size: usize,
    /// Describes events, order and access of the hook.
    ///
    /// Errors   any error ends the run before the first step
    /// Threads  [main], once, before any other call
    /// Owner    `out` is borrowed until return
    /// Since    0.1
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        out: *mut tenon_hook_info,
    ) -> *mut tenon_status>,
    /// Handles an event that the hook subscribed to.
    ///
    /// Errors   any error ends the run, with on_error and end for all hooks
    /// Threads  [step]
    /// Owner    the event is borrowed until return
    /// Since    0.1
    pub on_event: Option<unsafe extern "C" fn(
        this: *mut c_void,
        event: *const tenon_event,
    ) -> *mut tenon_status>,
}
layout!(tenon_hook, 24: struct_size 0 8, describe 8 8, on_event 16 8);

/// A plugin's handle to the host. It lives as long as the process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_host {
    pub struct_size: usize,
    /// major ABI version of the host
    pub abi_major: u32,
    /// minor ABI version of the host
    pub abi_minor: u32,
    /// version of the host program, "0.1.0"; for messages only
    pub version: *const c_char,
    /// private to the host
    pub r#impl: *mut c_void,
    /// Returns the function table of a service ("tenon.tensor/1"), or null if this host does not have
    /// it.
    ///
    /// Threads  [any]
    /// Owner    tables live as long as the process
    /// Since    0.1
    pub get_interface: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        id: *const c_char,
    ) -> *const c_void>,
}
layout!(tenon_host, 40:
    struct_size 0 8, abi_major 8 4, abi_minor 12 4, version 16 8, r#impl 24 8, get_interface 32 8);

/// Service TENON_LOG_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_log_api {
    pub struct_size: usize,
    /// Writes one line, prefixed with the plugin's id. Of more than 200 lines in one second, the rest
    /// is dropped and counted. A full disk does not block it. A null `host` or `message` is ignored.
    ///
    /// Errors   none
    /// Threads  [any]
    /// Owner    `message` is copied
    /// Since    0.1
    pub write: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        level: u32,
        message: *const c_char,
    )>,
}
layout!(tenon_log_api, 16: struct_size 0 8, write 8 8);

/// Result of `describe`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_loss_info {
    /// set by the host, which also zeroes the other fields
    pub struct_size: usize,
    /// TENON_ADDITIVE_*
    pub additive_over: u32,
    /// TENON_LOSS_*
    pub flags: u32,
    /// [num_ports] lives as long as the instance
    pub ports_ref: *const tenon_port,
    pub num_ports: usize,
}
layout!(tenon_loss_info, 32:
    struct_size 0 8, additive_over 8 4, flags 12 4, ports_ref 16 8, num_ports 24 8);

/// Arguments of `count`. Inputs are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_loss_count_args {
    pub struct_size: usize,
    /// [num_inputs] In the order of the ports; null if optional and absent.
    pub inputs: *const *const tenon_tensor,
    pub num_inputs: usize,
    /// result: f64 scalar on exec's device
    pub out_count_own: *mut tenon_tensor,
}
layout!(tenon_loss_count_args, 32:
    struct_size 0 8, inputs 8 8, num_inputs 16 8, out_count_own 24 8);

/// Arguments of `compute`. Inputs are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_loss_compute_args {
    pub struct_size: usize,
    /// [num_inputs] In the order of the ports; null if optional and absent.
    pub inputs: *const *const tenon_tensor,
    pub num_inputs: usize,
    /// result: scalar on exec's device, f32 (f64 in precision fp64)
    pub out_sum_own: *mut tenon_tensor,
}
layout!(tenon_loss_compute_args, 32:
    struct_size 0 8, inputs 8 8, num_inputs 16 8, out_sum_own 24 8);

/// Arguments of `backward`. Inputs are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_loss_backward_args {
    pub struct_size: usize,
    /// [num_inputs] as for `compute`
    pub inputs: *const *const tenon_tensor,
    pub num_inputs: usize,
    /// scalar: the gradient of the sum
    pub grad_sum: *const tenon_tensor,
    /// [num_inputs] Results: each gradient is floating-point and has the shape of its input. Null for
    /// an input without gradient.
    pub grad_inputs_own: *mut *mut tenon_tensor,
}
layout!(tenon_loss_backward_args, 40:
    struct_size 0 8, inputs 8 8, num_inputs 16 8, grad_sum 24 8, grad_inputs_own 32 8);

/// Interface TENON_LOSS_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_loss {
    pub struct_size: usize,
    /// Describes inputs and properties of the loss.
    ///
    /// Errors   any error ends the run before the first step
    /// Threads  [main], once, before any other call
    /// Owner    `out` is borrowed; its array belongs to the instance
    /// Since    0.1
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        out: *mut tenon_loss_info,
    ) -> *mut tenon_status>,
    /// Counts the items of one microbatch.
    ///
    /// Errors   TENON_INVALID if shapes do not match
    /// Threads  [step]
    /// Owner    inputs are borrowed; the host releases the result
    /// Since    0.1
    pub count: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *mut tenon_loss_count_args,
    ) -> *mut tenon_status>,
    /// Sums the loss of one microbatch. Autograd records the call, unless `backward` is set.
    ///
    /// Errors   TENON_INVALID if shapes do not match
    /// Threads  [step]
    /// Owner    inputs are borrowed; the host releases the result
    /// Since    0.1
    pub compute: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *mut tenon_loss_compute_args,
    ) -> *mut tenon_status>,
    /// Computes the gradient of the sum with respect to each input, times `grad_sum`. If this pointer
    /// is null, autograd computes the gradients.
    ///
    /// Errors   TENON_INVALID if shapes do not match
    /// Threads  [step], after `compute` with the same inputs
    /// Owner    inputs are borrowed; the host releases the results
    /// Since    0.1
    pub backward: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_loss_backward_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_loss, 40: struct_size 0 8, describe 8 8, count 16 8, compute 24 8, backward 32 8);

/// Result of `describe`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_lr_scheduler_info {
    /// set by the host, which also zeroes the other fields
    pub struct_size: usize,
    /// 1: `factor` needs the length of the run. The host then rejects a recipe that does not specify
    /// it.
    pub needs_total: u32,
    pub reserved: u32,
}
layout!(tenon_lr_scheduler_info, 16: struct_size 0 8, needs_total 8 4, reserved 12 4);

/// Arguments of `factor`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_lr_factor_args {
    pub struct_size: usize,
    /// counts from 0, skipped updates included
    pub step: u64,
    /// number of steps of the run; 0 if unknown
    pub total: u64,
    /// result: finite, not negative, without unit
    pub out_factor: f64,
}
layout!(tenon_lr_factor_args, 32: struct_size 0 8, step 8 8, total 16 8, out_factor 24 8);

/// Interface TENON_LR_SCHEDULER_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_lr_scheduler {
    pub struct_size: usize,
    /// Describes the schedule.
    ///
    /// Errors   any error ends the run before the first step
    /// Threads  [main], once, before any other call
    /// Owner    `out` is borrowed until return
    /// Since    0.4
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        out: *mut tenon_lr_scheduler_info,
    ) -> *mut tenon_status>,
    /// Computes the factor for a step: a pure function of the arguments.
    ///
    /// Errors   any error ends the run
    /// Threads  [step]
    /// Owner    `args` is borrowed until return
    /// Since    0.1
    pub factor: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *mut tenon_lr_factor_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_lr_scheduler, 24: struct_size 0 8, describe 8 8, factor 16 8);

/// Service TENON_MEMORY_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_memory_api {
    pub struct_size: usize,
    /// Allocates `bytes` bytes, aligned to 64 bytes, with undefined content. Zero bytes give null.
    ///
    /// Errors   TENON_OUT_OF_MEMORY, with the requested size
    /// Threads  [any]
    /// Owner    the caller, who frees it with `release`
    /// Since    0.1
    pub allocate: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        bytes: usize,
        out_own: *mut *mut c_void,
    ) -> *mut tenon_status>,
    /// Frees memory from `allocate`. Null is allowed.
    ///
    /// Threads  [any]
    /// Owner    takes `memory_own`
    /// Since    0.1
    pub release: Option<unsafe extern "C" fn(memory_own: *mut c_void)>,
}
layout!(tenon_memory_api, 24: struct_size 0 8, allocate 8 8, release 16 8);

/// Declares one state tensor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_metric_state_spec {
    pub struct_size: usize,
    /// unique in the metric; [a-z0-9_]
    pub name: *const c_char,
    /// [ndim]; CONCAT: the first size is 0, all others are positive
    pub shape: *const i64,
    pub ndim: usize,
    /// a dtype, not a class; use F64 or I64 if sums over long runs must be exact
    pub dtype: u32,
    /// TENON_REDUCE_*
    pub reduce: u32,
    /// initial value: 0 for SUM; for MAX a lower bound of all values
    pub init: f64,
}
layout!(tenon_metric_state_spec, 48:
    struct_size 0 8, name 8 8, shape 16 8, ndim 24 8, dtype 32 4, reduce 36 4, init 40 8);

/// Result of `describe`. The arrays live as long as the instance.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_metric_info {
    /// set by the host, which also zeroes the other fields
    pub struct_size: usize,
    /// TENON_PERIOD_*; make this an option, since it costs time in each step
    pub periods: u32,
    pub reserved: u32,
    /// [num_ports] inputs of `update`
    pub ports_ref: *const tenon_port,
    pub num_ports: usize,
    /// [num_states] State tensors; may be null if there are none.
    pub states_ref: *const tenon_metric_state_spec,
    pub num_states: usize,
    /// [num_metrics] names of the values that `compute` returns, for example "accuracy"; unique, at
    /// least one; characters as in metrics.h.
    pub metrics_ref: *const *const c_char,
    pub num_metrics: usize,
}
layout!(tenon_metric_info, 64:
    struct_size 0 8, periods 8 4, reserved 12 4, ports_ref 16 8, num_ports 24 8, states_ref 32 8,
    num_states 40 8, metrics_ref 48 8, num_metrics 56 8);

/// Arguments of `update`. Inputs and states are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_metric_update_args {
    pub struct_size: usize,
    /// [num_inputs] In the order of the ports; null if optional and absent.
    pub inputs: *const *const tenon_tensor,
    pub num_inputs: usize,
    /// [num_states] updated in place; null for CONCAT states
    pub states: *const *mut tenon_tensor,
    pub num_states: usize,
    /// [num_states] Null on entry. To append rows to a CONCAT state, store a new handle, whose other
    /// axes are as declared.
    pub appended_own: *mut *mut tenon_tensor,
}
layout!(tenon_metric_update_args, 48:
    struct_size 0 8, inputs 8 8, num_inputs 16 8, states 24 8, num_states 32 8, appended_own 40 8);

/// Arguments of `merge`. Only states declared TENON_REDUCE_OWN are passed; all others are null in
/// both arrays. All are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_metric_merge_args {
    pub struct_size: usize,
    /// [num_states] the left operands, updated in place
    pub states: *const *mut tenon_tensor,
    /// [num_states] the right operands
    pub others: *const *const tenon_tensor,
    pub num_states: usize,
}
layout!(tenon_metric_merge_args, 32: struct_size 0 8, states 8 8, others 16 8, num_states 24 8);

/// Arguments of `compute`. All are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_metric_compute_args {
    pub struct_size: usize,
    /// [num_states] merged; none is null
    pub states: *const *const tenon_tensor,
    pub num_states: usize,
    /// [num_metrics] Results, in natural units, for example 0.97 for an accuracy of 97%; NaN if there
    /// is no data. The host provides the array.
    pub out_values: *mut f64,
    pub num_metrics: usize,
}
layout!(tenon_metric_compute_args, 40:
    struct_size 0 8, states 8 8, num_states 16 8, out_values 24 8, num_metrics 32 8);

/// Arguments of `reset`. States are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_metric_reset_args {
    pub struct_size: usize,
    /// [num_states] Each filled with its `init`; null for CONCAT states, which are empty.
    pub states: *const *mut tenon_tensor,
    pub num_states: usize,
}
layout!(tenon_metric_reset_args, 24: struct_size 0 8, states 8 8, num_states 16 8);

/// Interface TENON_METRIC_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_metric {
    pub struct_size: usize,
    /// Describes inputs, states and values of the metric.
    ///
    /// Errors   any error ends the run before the first step
    /// Threads  [main], once, before any other call
    /// Owner    `out` is borrowed; its arrays belong to the instance
    /// Since    0.1
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        out: *mut tenon_metric_info,
    ) -> *mut tenon_status>,
    /// Adds one microbatch to the states. Autograd never records it. It must not wait for the device,
    /// because training calls it once per microbatch.
    ///
    /// Errors   TENON_INVALID if shapes do not match
    /// Threads  [step]
    /// Owner    inputs and states are borrowed; the host releases the handles in appended_own
    /// Since    0.1
    pub update: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_metric_update_args,
    ) -> *mut tenon_status>,
    /// Merges the states of the next rank, or of the next data range, into `states`, in place. The
    /// operation must be associative. Null if no state is declared TENON_REDUCE_OWN.
    ///
    /// Errors   TENON_INVALID if shapes do not match
    /// Threads  [step]
    /// Owner    `args` is borrowed until return
    /// Since    0.1
    pub merge: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_metric_merge_args,
    ) -> *mut tenon_status>,
    /// Computes the metric's values from the merged states. It may wait for the device.
    ///
    /// Errors   any error ends the run
    /// Threads  [step], on rank 0 only
    /// Owner    `args` is borrowed until return
    /// Since    0.1
    pub compute: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_metric_compute_args,
    ) -> *mut tenon_status>,
    /// Resets states that need more than their `init` value. Null if nothing is left to do.
    ///
    /// Errors   any error ends the run
    /// Threads  [step]
    /// Owner    `args` is borrowed until return
    /// Since    0.1
    pub reset: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_metric_reset_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_metric, 48:
    struct_size 0 8, describe 8 8, update 16 8, merge 24 8, compute 32 8, reset 40 8);

/// One record. All pointers are borrowed until `write` returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_metric_record {
    pub struct_size: usize,
    /// from 1; 0 before the first step
    pub step: u64,
    /// time of the record, in seconds since 1970 UTC
    pub unix_seconds: f64,
    /// [count] for example "loss", "lr", "eval/loss"
    pub names: *const *const c_char,
    /// [count] may be NaN or infinite
    pub values: *const f64,
    pub count: usize,
    /// Label of the record's training window; "" if the dataset has no windows.
    pub window_label: *const c_char,
}
layout!(tenon_metric_record, 56:
    struct_size 0 8, step 8 8, unix_seconds 16 8, names 24 8, values 32 8, count 40 8,
    window_label 48 8);

/// Interface TENON_METRIC_SINK_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_metric_sink {
    pub struct_size: usize,
    /// Opens the sink. `run_dir` is the run directory, which exists.
    ///
    /// Errors   any error ends the run before the first step
    /// Threads  [main], once, before any other call
    /// Owner    `run_dir` is borrowed until return
    /// Since    0.1
    pub open: Option<unsafe extern "C" fn(
        this: *mut c_void,
        run_dir: *const c_char,
    ) -> *mut tenon_status>,
    /// Writes one record.
    ///
    /// Errors   an error is logged and counted; the run continues
    /// Threads  [step]
    /// Owner    the record is borrowed until return
    /// Since    0.1
    pub write: Option<unsafe extern "C" fn(
        this: *mut c_void,
        record: *const tenon_metric_record,
    ) -> *mut tenon_status>,
    /// Flushes: everything written so far reaches the file system.
    ///
    /// Errors   an error is logged and counted; the run continues
    /// Threads  [step]
    /// Since    0.1
    pub flush: Option<unsafe extern "C" fn(this: *mut c_void) -> *mut tenon_status>,
    /// Prepares for a resumed or rolled-back run, which repeats the steps after `step`. Drops the
    /// records of later steps from the sink's output, and of `step` itself all but the first
    /// `records_of_step`. Null: nothing is dropped.
    ///
    /// Errors   any error ends the run
    /// Threads  [step], after `open`, between two writes
    /// Since    0.1
    pub resume: Option<unsafe extern "C" fn(
        this: *mut c_void,
        step: u64,
        records_of_step: u64,
    ) -> *mut tenon_status>,
}
layout!(tenon_metric_sink, 40: struct_size 0 8, open 8 8, write 16 8, flush 24 8, resume 32 8);

/// Service TENON_METRICS_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_metrics_api {
    pub struct_size: usize,
    /// Adds (sum, weight) to a metric. The record shows total sum / total weight over the steps since
    /// the last record.
    ///
    /// Errors   TENON_INVALID if the name is null or invalid
    /// Threads  [step]
    /// Owner    `name` is copied
    /// Since    0.1
    pub add: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        name: *const c_char,
        sum: f64,
        weight: f64,
    ) -> *mut tenon_status>,
    /// Does the same with scalar tensors of any device. The host reads them when it writes a record,
    /// so the call does not wait for the device.
    ///
    /// Shapes   sum and weight: one element each
    /// Errors   TENON_INVALID if the name is null or invalid, or a tensor is null or no scalar
    /// Threads  [step]
    /// Owner    tensors are borrowed; the host takes references
    /// Since    0.1
    pub add_tensor: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        name: *const c_char,
        sum: *const tenon_tensor,
        weight: *const tenon_tensor,
    ) -> *mut tenon_status>,
}
layout!(tenon_metrics_api, 24: struct_size 0 8, add 8 8, add_tensor 16 8);

/// Declares how tensor-parallel ranks may divide a parameter or a value along one axis: which ranges
/// a rank holds, in units that are never cut. A fused matrix has one part per matrix in it, each
/// divided on its own. If there are more ranks than units in a part, several ranks hold the same
/// unit (the key and value heads of grouped attention).
///
///     fused query, key and value of 8, 2 and 2 heads of 64:
///     axis 0   parts 512 128 128   units 8 2 2
///
/// Ranks divide blocks that declare it (draft/tensor.h). All pointers are borrowed until the call
/// returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_split {
    pub struct_size: usize,
    /// of the shape
    pub axis: u32,
    pub reserved: u32,
    /// [num_parts] sizes, which add up to the size of the axis
    pub parts: *const i64,
    /// [num_parts] number of equal units of each part; divides its size
    pub units: *const i64,
    /// at least 1
    pub num_parts: usize,
}
layout!(tenon_split, 40:
    struct_size 0 8, axis 8 4, reserved 12 4, parts 16 8, units 24 8, num_parts 32 8);

/// Declares a value. All pointers are borrowed until `add_value` returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_value_spec {
    pub struct_size: usize,
    /// unique in the model; losses and metrics refer to it
    pub name: *const c_char,
    /// [num_axes]; null: any shape
    pub axes: *const tenon_axis,
    pub num_axes: usize,
    /// a dtype or a class (ports.h)
    pub dtype: u32,
    /// TENON_SOURCE_*
    pub source_kind: u32,
    /// Batch field or column of ids; null: `name` for a batch field. Unused for a block's output.
    pub source: *const c_char,
    /// Index of the value that holds the ids, or TENON_NO_INDEX if they come from `source`.
    pub ids: u32,
    /// TENON_POOL_*
    pub pooling: u32,
    /// table name in recipes; null: the name of the id column
    pub table: *const c_char,
    /// rows per sample for FIRST_N; otherwise 0
    pub length: u32,
    /// initial value of new rows: TENON_INIT_* except MODULE
    pub init: u32,
    /// first parameter of `init`
    pub init_a: f64,
    /// second parameter of `init`
    pub init_b: f64,
    /// How tensor-parallel ranks divide the value; null: each has all of it. The size of the axis must
    /// be known.
    pub split: *const tenon_split,
    /// TENON_VALUE_*. Since 0.5
    pub flags: u32,
    pub reserved: u32,
}
layout!(tenon_value_spec, 104:
    struct_size 0 8, name 8 8, axes 16 8, num_axes 24 8, dtype 32 4, source_kind 36 4, source 40 8,
    ids 48 4, pooling 52 4, table 56 8, length 64 4, init 68 4, init_a 72 8, init_b 80 8,
    split 88 8, flags 96 4, reserved 100 4);

/// Declares a parameter. All pointers are borrowed until `add_parameter` returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_parameter_spec {
    pub struct_size: usize,
    /// unique; dots make a path, as in "model.layers.0.mlp.up_proj.weight"
    pub name: *const c_char,
    /// [ndim]
    pub shape: *const i64,
    pub ndim: usize,
    /// TENON_CLASS_PARAM, or a dtype that must be kept
    pub dtype: u32,
    /// TENON_PARAM_*
    pub flags: u32,
    /// TENON_INIT_*
    pub init: u32,
    pub reserved: u32,
    /// first parameter of `init`
    pub init_a: f64,
    /// second parameter of `init`
    pub init_b: f64,
    /// Name of an earlier parameter that this one shares, or null. If set, all other fields except
    /// `name` are ignored.
    pub tied_to: *const c_char,
    /// how tensor-parallel ranks divide it; null: each has all of it
    pub split: *const tenon_split,
}
layout!(tenon_parameter_spec, 80:
    struct_size 0 8, name 8 8, shape 16 8, ndim 24 8, dtype 32 4, flags 36 4, init 40 4,
    reserved 44 4, init_a 48 8, init_b 56 8, tied_to 64 8, split 72 8);

/// Declares a buffer: a tensor of the model that is not trained. All pointers are borrowed until
/// `add_buffer` returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_buffer_spec {
    pub struct_size: usize,
    /// unique
    pub name: *const c_char,
    /// [ndim]
    pub shape: *const i64,
    pub ndim: usize,
    /// a dtype or a class
    pub dtype: u32,
    /// TENON_BUFFER_*
    pub kind: u32,
}
layout!(tenon_buffer_spec, 40:
    struct_size 0 8, name 8 8, shape 16 8, ndim 24 8, dtype 32 4, kind 36 4);

/// Declares a block. All pointers are borrowed until `add_block` returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_block_spec {
    pub struct_size: usize,
    /// unique, for example "layers.0"
    pub name: *const c_char,
    /// TENON_BLOCK_*
    pub flags: u32,
    pub reserved: u32,
    /// [num_inputs] Indices, here and below, that the builder returned. A block may use values and
    /// parameters of any earlier block.
    pub inputs: *const u32,
    pub num_inputs: usize,
    /// [num_outputs] values that this block produces; each value has one producer.
    pub outputs: *const u32,
    pub num_outputs: usize,
    /// [num_parameters]
    pub parameters: *const u32,
    pub num_parameters: usize,
    /// [num_buffers]
    pub buffers: *const u32,
    pub num_buffers: usize,
    /// Name of the unit of the block, for example "layers.0"; null: the block's own name. The blocks
    /// of a unit follow each other. Their parameters are gathered together, and a recipe chooses for
    /// whole units what is recomputed. Since 0.5
    pub unit: *const c_char,
}
layout!(tenon_block_spec, 96:
    struct_size 0 8, name 8 8, flags 16 4, reserved 20 4, inputs 24 8, num_inputs 32 8,
    outputs 40 8, num_outputs 48 8, parameters 56 8, num_parameters 64 8, buffers 72 8,
    num_buffers 80 8, unit 88 8);

/// Receives the declarations of `describe`. Specs are copied. Add blocks in the order in which they
/// run, which must be a topological order. The tags below hold for every function.
///
/// Errors   TENON_INVALID for a duplicate name, an index out of range, an output with two producers,
///          a block that reads a value of a later block, or a flag or source that this host refuses;
///          the message names block and value
/// Threads  those of `describe`, and only during it
/// Owner    specs are borrowed; *out_index receives the index for later specs
/// Since    0.1
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_model_builder {
    pub struct_size: usize,
    pub r#impl: *mut c_void,
    /// Adds a value.
    pub add_value: Option<unsafe extern "C" fn(
        builder: *mut tenon_model_builder,
        spec: *const tenon_value_spec,
        out_index: *mut u32,
    ) -> *mut tenon_status>,
    /// Adds a parameter.
    pub add_parameter: Option<unsafe extern "C" fn(
        builder: *mut tenon_model_builder,
        spec: *const tenon_parameter_spec,
        out_index: *mut u32,
    ) -> *mut tenon_status>,
    /// Adds a buffer.
    pub add_buffer: Option<unsafe extern "C" fn(
        builder: *mut tenon_model_builder,
        spec: *const tenon_buffer_spec,
        out_index: *mut u32,
    ) -> *mut tenon_status>,
    /// Adds a block.
    pub add_block: Option<unsafe extern "C" fn(
        builder: *mut tenon_model_builder,
        spec: *const tenon_block_spec,
        out_index: *mut u32,
    ) -> *mut tenon_status>,
}
layout!(tenon_model_builder, 48:
    struct_size 0 8, r#impl 8 8, add_value 16 8, add_parameter 24 8, add_buffer 32 8,
    add_block 40 8);

/// Arguments of `forward`. Arrays and tensors are borrowed until `forward` returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_forward_args {
    pub struct_size: usize,
    pub r#impl: *mut c_void,
    /// index of the block, as the builder returned it
    pub block: u32,
    pub reserved: u32,
    /// In the order of the block's spec; null only for an optional value that is absent.
    pub inputs: *const *const tenon_tensor,
    pub num_inputs: usize,
    /// Autograd leaves, in the order of the spec. For a materialized block, the leaves it returned.
    pub parameters: *const *const tenon_tensor,
    pub num_parameters: usize,
    pub buffers: *const *const tenon_tensor,
    pub num_buffers: usize,
    /// [num_outputs] Filled by the block with new handles; all must be set.
    pub outputs_own: *mut *mut tenon_tensor,
    pub num_outputs: usize,
    /// [num_buffers] Next values of TENON_BUFFER_STATE buffers, as new handles; null keeps the value.
    /// Ignored in a recompute.
    pub next_buffers_own: *mut *mut tenon_tensor,
    /// Keeps a tensor for this block's `backward`, in call order. Only for hand-written blocks.
    ///
    /// Errors   TENON_INVALID if an argument is null
    /// Threads  those of `forward`, and only during it
    /// Owner    `tensor` is borrowed; the host takes a reference
    /// Since    0.1
    pub save: Option<unsafe extern "C" fn(
        args: *mut tenon_forward_args,
        tensor: *const tenon_tensor,
    ) -> *mut tenon_status>,
    /// Adds an auxiliary loss: weight * sum / count, where `sum` has a gradient. Call it in every
    /// forward, in the same order, also in a recompute. A recompute uses only its gradient and does
    /// not count it twice. Its metric is "aux/" + name. The `backward` of a hand-written block must
    /// add the gradient itself.
    ///
    /// Shapes   sum and count: scalars; the gradient flows only through `sum`
    /// Errors   TENON_INVALID if an argument is null or no scalar
    /// Threads  those of `forward`, and only during it
    /// Owner    tensors are borrowed; the host takes references; `name` is copied
    /// Since    0.1
    pub add_loss: Option<unsafe extern "C" fn(
        args: *mut tenon_forward_args,
        name: *const c_char,
        sum: *const tenon_tensor,
        count: *const tenon_tensor,
        weight: f64,
    ) -> *mut tenon_status>,
}
layout!(tenon_forward_args, 112:
    struct_size 0 8, r#impl 8 8, block 16 4, reserved 20 4, inputs 24 8, num_inputs 32 8,
    parameters 40 8, num_parameters 48 8, buffers 56 8, num_buffers 64 8, outputs_own 72 8,
    num_outputs 80 8, next_buffers_own 88 8, save 96 8, add_loss 104 8);

/// Arguments of `backward`. Arrays and tensors are borrowed until `backward` returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_backward_args {
    pub struct_size: usize,
    /// index of the block
    pub block: u32,
    pub reserved: u32,
    /// [num_saved] tensors that forward saved, in call order
    pub saved: *const *const tenon_tensor,
    pub num_saved: usize,
    /// [num_parameters] As in forward.
    pub parameters: *const *const tenon_tensor,
    pub num_parameters: usize,
    /// [num_outputs] Gradients of the outputs. Null: no gradient flows through this output.
    pub grad_outputs: *const *const tenon_tensor,
    pub num_outputs: usize,
    /// [num_inputs] 0: leave the gradient null
    pub want_grad_inputs: *const u32,
    pub num_inputs: usize,
    /// [num_parameters] 0: leave the gradient null
    pub want_grad_parameters: *const u32,
    /// [num_inputs] and [num_parameters] Filled with new handles. Null means that there is no
    /// gradient: the host treats it as zero, and it does not count as an update of the parameter.
    pub grad_inputs_own: *mut *mut tenon_tensor,
    pub grad_parameters_own: *mut *mut tenon_tensor,
}
layout!(tenon_backward_args, 104:
    struct_size 0 8, block 8 4, reserved 12 4, saved 16 8, num_saved 24 8, parameters 32 8,
    num_parameters 40 8, grad_outputs 48 8, num_outputs 56 8, want_grad_inputs 64 8,
    num_inputs 72 8, want_grad_parameters 80 8, grad_inputs_own 88 8, grad_parameters_own 96 8);

/// Arguments of `materialize`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_materialize_args {
    pub struct_size: usize,
    /// index of the block
    pub block: u32,
    pub reserved: u32,
    /// [num_leaves] Filled with new handles, in the order of the block's parameters, each of the
    /// declared shape; all must be set.
    pub leaves_own: *mut *mut tenon_tensor,
    pub num_leaves: usize,
}
layout!(tenon_materialize_args, 32:
    struct_size 0 8, block 8 4, reserved 12 4, leaves_own 16 8, num_leaves 24 8);

/// Arguments of `fill_buffer`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_fill_buffer_args {
    pub struct_size: usize,
    /// index of the buffer
    pub buffer: u32,
    pub reserved: u32,
    /// The declared shape and dtype, contiguous, on the CPU, filled with zeros. Borrowed.
    pub tensor: *mut tenon_tensor,
}
layout!(tenon_fill_buffer_args, 24: struct_size 0 8, buffer 8 4, reserved 12 4, tensor 16 8);

/// Arguments of `infer`: shapes and cost of a block, without running it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_infer_args {
    pub struct_size: usize,
    /// index of the block
    pub block: u32,
    pub reserved: u32,
    /// [num_inputs] Sizes and numbers of axes of the inputs. An optional value that is absent has a
    /// null shape.
    pub input_shapes: *const *const i64,
    pub input_ndims: *const usize,
    pub num_inputs: usize,
    /// [num_outputs], at most 8 axes each
    pub out_shapes: *mut [i64; 8],
    /// [num_outputs]
    pub out_ndims: *mut usize,
    pub num_outputs: usize,
    /// floating-point operations of one forward
    pub out_flops: f64,
    /// Bytes kept for backward without recompute, not counting the block's inputs, outputs, parameters
    /// and buffers.
    pub out_saved_bytes: f64,
    /// Peak bytes that backward allocates on top of the memory in use when it starts, including the
    /// gradients it returns.
    pub out_working_bytes: f64,
    /// [num_segments] Lengths of the sequences that the samples consist of; a block without attention
    /// may ignore them. Null: each sample is one sequence. Since 0.5
    pub segment_lengths: *const i64,
    pub num_segments: usize,
}
layout!(tenon_infer_args, 104:
    struct_size 0 8, block 8 4, reserved 12 4, input_shapes 16 8, input_ndims 24 8, num_inputs 32 8,
    out_shapes 40 8, out_ndims 48 8, num_outputs 56 8, out_flops 64 8, out_saved_bytes 72 8,
    out_working_bytes 80 8, segment_lengths 88 8, num_segments 96 8);

/// Interface TENON_MODEL_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_model {
    pub struct_size: usize,
    /// Declares values, parameters, buffers and blocks.
    ///
    /// Errors   those of the builder, passed on
    /// Threads  [main], once, before any other call
    /// Owner    `builder` is borrowed until return
    /// Since    0.1
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        builder: *mut tenon_model_builder,
    ) -> *mut tenon_status>,
    /// Runs one block. Autograd records the call in training, unless the block is hand-written; it
    /// records nothing in an evaluation.
    ///
    /// Shapes   as declared; a block must accept every size of the axes left open
    /// Errors   TENON_INVALID for shapes it cannot process
    /// Threads  [step]
    /// Owner    inputs are borrowed; the host releases the handles in outputs_own and next_buffers_own
    /// Since    0.1
    pub forward: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *mut tenon_forward_args,
    ) -> *mut tenon_status>,
    /// Computes the gradients of a hand-written block. Null if there is none.
    ///
    /// Shapes   each gradient has the shape of its input or parameter
    /// Errors   TENON_INVALID for shapes it cannot process
    /// Threads  [step]
    /// Owner    arguments are borrowed; the host releases the gradients
    /// Since    0.1
    pub backward: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_backward_args,
    ) -> *mut tenon_status>,
    /// Creates the leaves of a TENON_BLOCK_MATERIALIZED block with their initial values, in the order
    /// of its parameters. Draw random numbers from torch's default generator, which the host has
    /// seeded from the run's seed and the block's name. The host copies the values and redirects the
    /// leaves (`set_data`) to its own memory. Null if no block requests it.
    ///
    /// Errors   any error ends the run
    /// Threads  [main], once per block
    /// Owner    the host releases the handles; the instance keeps the tensors
    /// Since    0.1
    pub materialize: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_materialize_args,
    ) -> *mut tenon_status>,
    /// Writes the initial value of a buffer into the tensor of `args`. Null if there are no buffers.
    ///
    /// Errors   any error ends the run
    /// Threads  [main], once per buffer of either kind
    /// Owner    `args` is borrowed until return
    /// Since    0.1
    pub fill_buffer: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_fill_buffer_args,
    ) -> *mut tenon_status>,
    /// Infers shapes and cost of a block. Optional: if null, the host runs the block on meta tensors.
    /// Required for blocks that access data pointers. `exec` describes the planned run: device,
    /// compute dtype and mesh. It has no stream and cannot compute. Autocast is set as in the run.
    ///
    /// Errors   TENON_INVALID for shapes it cannot process
    /// Threads  [any]
    /// Owner    `args` is borrowed until return
    /// Since    0.1
    pub infer: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *mut tenon_infer_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_model, 56:
    struct_size 0 8, describe 8 8, forward 16 8, backward 24 8, materialize 32 8, fill_buffer 40 8,
    infer 48 8);

/// The values of a field of the struct below.
#[repr(C)]
#[derive(Clone, Copy)]
pub union tenon_any_v {
    pub i: i64,
    pub d: f64,
    pub b: u32,
    pub s: *const c_char,
    pub device: tenon_device,
    pub tensor: *mut tenon_tensor,
    pub tensors: *const *mut tenon_tensor,
    pub ints: *const i64,
    pub doubles: *const f64,
    pub bools: *const u32,
}

/// One argument or result. Arguments are borrowed until the call returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_any {
    /// TENON_ANY_*; selects the member of `v`
    pub tag: u32,
    /// 0
    pub reserved: u32,
    /// number of elements for the list tags; otherwise 0
    pub count: usize,
    pub v: tenon_any_v,
}
layout!(tenon_any, 24: tag 0 4, reserved 4 4, count 8 8, v 16 8);

/// Service TENON_OP_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_op_api {
    pub struct_size: usize,
    /// Finds an operator. `name` has its overload after a dot, as in "aten::add.Tensor". A name
    /// without a dot means the default overload.
    ///
    /// Errors   TENON_NOT_FOUND, with the most similar names
    /// Threads  [any]
    /// Owner    *out_ref lives as long as the process
    /// Since    0.1
    pub find: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        name: *const c_char,
        out_ref: *mut *const tenon_op,
    ) -> *mut tenon_status>,
    /// Calls an operator with positional arguments. Trailing arguments that are not given take the
    /// defaults of the schema.
    ///
    /// Shapes   *io_num_results holds the capacity of `results` and receives the number of results; a
    ///          result that is a list of tensors takes one entry per tensor
    /// Errors   TENON_INVALID for too many arguments, a value of the wrong type (the message has the
    ///          schema), an error of the operator itself, or a capacity that is too small: for a
    ///          list of unknown length this is known only after the operator ran
    /// Threads  [step], [worker]
    /// Owner    arguments are borrowed; tensor results are new handles, which the caller releases
    /// Since    0.1
    pub call: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        op: *const tenon_op,
        args: *const tenon_any,
        num_args: usize,
        results: *mut tenon_any,
        io_num_results: *mut usize,
    ) -> *mut tenon_status>,
    /// Returns the schema, for example "aten::add.Tensor(Tensor self, ...) -> Tensor".
    ///
    /// Threads  [any]
    /// Owner    the string lives as long as the process
    /// Since    0.1
    pub schema: Option<unsafe extern "C" fn(op: *const tenon_op) -> *const c_char>,
}
layout!(tenon_op_api, 32: struct_size 0 8, find 8 8, call 16 8, schema 24 8);

/// Declares one tensor of optimizer state per piece.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_slot_spec {
    pub struct_size: usize,
    /// unique in the optimizer, for example "exp_avg"
    pub name: *const c_char,
    /// TENON_SLOT_*
    pub shape: u32,
    /// a dtype, or TENON_CLASS_PARAM (ports.h)
    pub dtype: u32,
    /// initial value of every element
    pub init: f64,
}
layout!(tenon_slot_spec, 32: struct_size 0 8, name 8 8, shape 16 4, dtype 20 4, init 24 8);

/// Result of `describe`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_optimizer_info {
    /// set by the host, which also zeroes the other fields
    pub struct_size: usize,
    /// TENON_OPTIMIZER_ELEMENTWISE, _MATRIX or _NORM
    pub needs: u32,
    /// flags, TENON_OPTIMIZER_OWN_SCHEDULE
    pub flags: u32,
    /// [num_slots] lives as long as the instance
    pub slots_ref: *const tenon_slot_spec,
    pub num_slots: usize,
    /// Elements of a block, or 0. Every piece starts at a multiple of `block` elements of its
    /// parameter, so that blocks do not depend on the number of ranks. Since 0.5
    pub block: i64,
}
layout!(tenon_optimizer_info, 40:
    struct_size 0 8, needs 8 4, flags 12 4, slots_ref 16 8, num_slots 24 8, block 32 8);

/// Arguments of `update`: n = num_pieces pieces of parameters. All tensors of a piece have one shape
/// and are updated in place. Pieces without a gradient are omitted and stay unchanged.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_update_args {
    pub struct_size: usize,
    pub num_pieces: usize,
    /// [n]
    pub parameters: *const *mut tenon_tensor,
    /// [n], normalized and clipped, of the dtype of the parameter.
    pub grads: *const *const tenon_tensor,
    /// [num_slots * n]: slot s of piece i is slots[s * n + i]
    pub slots: *const *mut tenon_tensor,
    /// [n] Scalars, f32: number of updates of the piece, including this one, from 1.
    pub steps: *const *const tenon_tensor,
    /// scalar, f64: the scheduled learning rate
    pub lr: *const tenon_tensor,
    /// Scalar, f32, or null. If it is 1, change nothing, including slots; `steps` have not advanced.
    pub found_inf: *const tenon_tensor,
}
layout!(tenon_update_args, 64:
    struct_size 0 8, num_pieces 8 8, parameters 16 8, grads 24 8, slots 32 8, steps 40 8, lr 48 8,
    found_inf 56 8);

/// Arguments of `evaluation_values`: pieces as in tenon_update_args.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_evaluation_values_args {
    pub struct_size: usize,
    pub num_pieces: usize,
    /// [n] On entry, the values of training; on return, those of evaluation.
    pub parameters: *const *mut tenon_tensor,
    /// [num_slots * n] unchanged
    pub slots: *const *const tenon_tensor,
    /// [n] Scalars, f32: number of updates of the piece
    pub steps: *const *const tenon_tensor,
}
layout!(tenon_evaluation_values_args, 40:
    struct_size 0 8, num_pieces 8 8, parameters 16 8, slots 24 8, steps 32 8);

/// Interface TENON_OPTIMIZER_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_optimizer {
    pub struct_size: usize,
    /// Describes granularity and optimizer state.
    ///
    /// Errors   any error ends the run before the first step
    /// Threads  [main], once, before any other call
    /// Owner    `out` is borrowed; its array belongs to the instance
    /// Since    0.1
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        out: *mut tenon_optimizer_info,
    ) -> *mut tenon_status>,
    /// Applies one update. Autograd does not record it.
    ///
    /// Shapes   as in tenon_update_args, on exec's device
    /// Errors   any error ends the run
    /// Threads  [step]
    /// Owner    all tensors are borrowed until return
    /// Since    0.1
    pub update: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_update_args,
    ) -> *mut tenon_status>,
    /// Replaces the values at which gradients are computed by those to evaluate and to export (an
    /// average), for an optimizer in which they differ. The host calls it before each evaluation and
    /// export, and then restores the values of training to the bit. Checkpoints hold the values of
    /// training. Null: both are the same.
    ///
    /// Shapes   as in tenon_evaluation_values_args, on exec's device
    /// Errors   any error ends the run
    /// Threads  [step]
    /// Owner    all tensors are borrowed until return
    /// Since    0.5
    pub evaluation_values: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_evaluation_values_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_optimizer, 32: struct_size 0 8, describe 8 8, update 16 8, evaluation_values 24 8);

/// A component that the host created because an option names it (schema key "x-tenon-component"). It
/// outlives the component whose option it is.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_component_ref {
    /// set by the caller
    pub struct_size: usize,
    /// Interface that `table` implements, for example "tenon.tokenizer/1".
    pub interface_id: *const c_char,
    /// function table of the nested component
    pub table: *const c_void,
    /// first argument of its functions
    pub this: *mut c_void,
}
layout!(tenon_component_ref, 32: struct_size 0 8, interface_id 8 8, table 16 8, this 24 8);

/// Service TENON_OPTIONS_ID. The tags below hold for every function. Error messages name the
/// component and the pointer.
///
/// Errors   TENON_NOT_FOUND if there is no value at `pointer`, TENON_INVALID if it has another type
/// Threads  [any]
/// Owner    strings are borrowed from the options
/// Since    0.1
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_options_api {
    pub struct_size: usize,
    /// Returns the type of a value, TENON_OPTION_*. It does not fail: an absent value gives
    /// TENON_OPTION_ABSENT.
    pub kind: Option<unsafe extern "C" fn(
        options: *const tenon_options,
        pointer: *const c_char,
    ) -> u32>,
    /// Reads a boolean, as 0 or 1.
    pub get_bool: Option<unsafe extern "C" fn(
        options: *const tenon_options,
        pointer: *const c_char,
        out: *mut u32,
    ) -> *mut tenon_status>,
    /// Reads an integer. A number that does not fit into 64 bits or has a fraction is TENON_INVALID.
    pub get_int: Option<unsafe extern "C" fn(
        options: *const tenon_options,
        pointer: *const c_char,
        out: *mut i64,
    ) -> *mut tenon_status>,
    /// Reads a number, integers included.
    pub get_double: Option<unsafe extern "C" fn(
        options: *const tenon_options,
        pointer: *const c_char,
        out: *mut f64,
    ) -> *mut tenon_status>,
    /// Reads a string.
    pub get_string: Option<unsafe extern "C" fn(
        options: *const tenon_options,
        pointer: *const c_char,
        out_ref: *mut *const c_char,
    ) -> *mut tenon_status>,
    /// Counts the elements of a list or the members of an object.
    pub get_count: Option<unsafe extern "C" fn(
        options: *const tenon_options,
        pointer: *const c_char,
        out: *mut usize,
    ) -> *mut tenon_status>,
    /// Reads the name of the i-th member of an object, from 0, in recipe order. TENON_NOT_FOUND if
    /// there are not that many.
    pub get_key: Option<unsafe extern "C" fn(
        options: *const tenon_options,
        pointer: *const c_char,
        i: usize,
        out_ref: *mut *const c_char,
    ) -> *mut tenon_status>,
    /// Reads a value of any type as JSON text.
    pub get_json: Option<unsafe extern "C" fn(
        options: *const tenon_options,
        pointer: *const c_char,
        out_ref: *mut *const c_char,
    ) -> *mut tenon_status>,
    /// Reads a nested component. TENON_NOT_FOUND if the option is null, TENON_INVALID if its schema
    /// lacks "x-tenon-component" or `out->struct_size` is too small.
    pub get_component: Option<unsafe extern "C" fn(
        options: *const tenon_options,
        pointer: *const c_char,
        out: *mut tenon_component_ref,
    ) -> *mut tenon_status>,
}
layout!(tenon_options_api, 80:
    struct_size 0 8, kind 8 8, get_bool 16 8, get_int 24 8, get_double 32 8, get_string 40 8,
    get_count 48 8, get_key 56 8, get_json 64 8, get_component 72 8);

/// Service TENON_PARALLEL_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_parallel_api {
    pub struct_size: usize,
    /// Splits [0, n) into disjoint ranges of at least `grain` elements, and calls body(context, begin,
    /// end) for the ranges in parallel. It returns when all calls have returned. The ranges depend
    /// only on n, grain and the number of threads. Nested calls run serially. If n is smaller than
    /// `grain`, there is one range; if n is 0, `body` is not called.
    ///
    /// Errors   the status of the failed range with the lowest begin; TENON_INVALID if `body` is null
    /// Threads  [step], [worker]
    /// Owner    `context` belongs to the caller
    /// Since    0.1
    pub run: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        n: usize,
        grain: usize,
        body: Option<unsafe extern "C" fn(context: *mut c_void, begin: usize, end: usize) -> *mut tenon_status>,
        context: *mut c_void,
    ) -> *mut tenon_status>,
    /// Returns the number of compute threads, at least 1.
    ///
    /// Threads  [any]
    /// Since    0.1
    pub num_threads: Option<unsafe extern "C" fn(host: *const tenon_host) -> u32>,
}
layout!(tenon_parallel_api, 24: struct_size 0 8, run 8 8, num_threads 16 8);

/// Arguments of the entry point. The host fills all fields except those named `out_...`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_entry_args {
    pub struct_size: usize,
    /// The ABI versions that the host supports: minors abi_minor_min to abi_minor_max of abi_major.
    pub abi_major: u32,
    pub abi_minor_min: u32,
    pub abi_minor_max: u32,
    /// The minor version that the plugin uses: TENON_ABI_MINOR of its headers. The host verifies it.
    pub out_abi_minor: u32,
    /// lives as long as the process
    pub host: *const tenon_host,
    /// First argument of register_component.
    pub registrar: *mut c_void,
    /// Registers a component.
    ///
    /// Errors   TENON_INVALID if a field is missing, the type is already registered, or
    ///          `options_schema` is not a valid JSON Schema
    /// Threads  [load]
    /// Owner    `component` and everything it points to must live as long as the process
    /// Since    0.1
    pub register_component: Option<unsafe extern "C" fn(
        registrar: *mut c_void,
        component: *const tenon_component,
    ) -> *mut tenon_status>,
    /// Optional, set by the plugin; null if there is nothing to clean up. The host calls it once
    /// before the process ends, after all instances are destroyed. Use it instead of static
    /// destructors, which run too late in a library that is never unloaded.
    ///
    /// Threads  [main]
    /// Since    0.1
    pub out_shutdown: Option<unsafe extern "C" fn()>,
}
layout!(tenon_entry_args, 56:
    struct_size 0 8, abi_major 8 4, abi_minor_min 12 4, abi_minor_max 16 4, out_abi_minor 20 4,
    host 24 8, registrar 32 8, register_component 40 8, out_shutdown 48 8);

/// One axis of a port.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_axis {
    /// May be null; axes with equal names have equal sizes within a batch. "B" counts samples, "T"
    /// positions.
    pub name: *const c_char,
    /// -1: known only at run time
    pub size: i64,
}
layout!(tenon_axis, 16: name 0 8, size 8 8);

/// An input of a loss or metric. The key "inputs" in a recipe maps `name` to another output or
/// field.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_port {
    pub struct_size: usize,
    /// a model output or batch field; outputs are searched first
    pub name: *const c_char,
    /// a dtype or a class
    pub dtype: u32,
    /// TENON_PORT_*
    pub flags: u32,
    /// null: any shape
    pub axes: *const tenon_axis,
    pub num_axes: usize,
}
layout!(tenon_port, 40:
    struct_size 0 8, name 8 8, dtype 16 4, flags 20 4, axes 24 8, num_axes 32 8);

/// Service TENON_RANDOM_ID. Every function is a pure function of its arguments.
///
/// Errors   TENON_INVALID if `out` is null and n is not 0
/// Threads  [any]
/// Since    0.1
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_random_api {
    pub struct_size: usize,
    /// Returns 64 uniform bits: number `index` of the stream.
    pub bits: Option<unsafe extern "C" fn(seed: u64, stream: u64, index: u64) -> u64>,
    /// Returns a stream number derived from a name, so that streams need no registry.
    pub stream_of: Option<unsafe extern "C" fn(name: *const c_char) -> u64>,
    /// Sets out[k] to number first + k, uniform in [0, 1), for k in [0, n).
    pub fill_uniform: Option<unsafe extern "C" fn(
        seed: u64,
        stream: u64,
        first: u64,
        n: usize,
        out: *mut f64,
    ) -> *mut tenon_status>,
    /// Sets out[k] to number first + k of the standard normal distribution, for k in [0, n). The
    /// method is Box-Muller, on one pair of 53-bit uniforms per number.
    pub fill_normal: Option<unsafe extern "C" fn(
        seed: u64,
        stream: u64,
        first: u64,
        n: usize,
        out: *mut f64,
    ) -> *mut tenon_status>,
    /// Returns element i of a pseudo-random permutation of [0, n), for n > 0 and i < n. It uses no
    /// memory; elements may be read in any order.
    pub permute: Option<unsafe extern "C" fn(seed: u64, stream: u64, n: u64, i: u64) -> u64>,
}
layout!(tenon_random_api, 48:
    struct_size 0 8, bits 8 8, stream_of 16 8, fill_uniform 24 8, fill_normal 32 8, permute 40 8);

/// Receives the entries of a snapshot. Names are paths "a/b/c" whose parts use [a-z0-9_.-]. The tags
/// below hold for every function.
///
/// Errors   TENON_INVALID for an invalid or duplicate name, an unknown scope or unknown flags
/// Threads  those of `snapshot`, and only during it
/// Owner    names and bytes are copied; of tensors the host takes a reference
/// Since    0.1
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_state_writer {
    pub struct_size: usize,
    pub r#impl: *mut c_void,
    /// Saves an integer.
    pub put_int: Option<unsafe extern "C" fn(
        writer: *mut tenon_state_writer,
        name: *const c_char,
        value: i64,
        scope: u32,
    ) -> *mut tenon_status>,
    /// Saves a double.
    pub put_double: Option<unsafe extern "C" fn(
        writer: *mut tenon_state_writer,
        name: *const c_char,
        value: f64,
        scope: u32,
    ) -> *mut tenon_status>,
    /// Saves bytes; `data` may be null if size is 0.
    ///
    /// Errors   TENON_INVALID for more than 1 MiB
    pub put_bytes: Option<unsafe extern "C" fn(
        writer: *mut tenon_state_writer,
        name: *const c_char,
        data: *const c_void,
        size: usize,
        scope: u32,
    ) -> *mut tenon_status>,
    /// Saves a tensor; `flags` is 0 or TENON_STATE_COPY.
    pub put_tensor: Option<unsafe extern "C" fn(
        writer: *mut tenon_state_writer,
        name: *const c_char,
        tensor: *const tenon_tensor,
        scope: u32,
        flags: u32,
    ) -> *mut tenon_status>,
}
layout!(tenon_state_writer, 48:
    struct_size 0 8, r#impl 8 8, put_int 16 8, put_double 24 8, put_bytes 32 8, put_tensor 40 8);

/// Gives access to the entries of a checkpoint. The tags below hold for every function.
///
/// Errors   TENON_NOT_FOUND if there is no such entry, TENON_INVALID if it has another type
/// Threads  those of `load`, and only during it
/// Owner    bytes and tensors are borrowed until `load` returns
/// Since    0.1
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_state_reader {
    pub struct_size: usize,
    pub r#impl: *mut c_void,
    /// The value that `version` returned when the entries were saved.
    pub version: u32,
    pub reserved: u32,
    /// Reads an integer.
    pub get_int: Option<unsafe extern "C" fn(
        reader: *mut tenon_state_reader,
        name: *const c_char,
        out: *mut i64,
    ) -> *mut tenon_status>,
    /// Reads a double.
    pub get_double: Option<unsafe extern "C" fn(
        reader: *mut tenon_state_reader,
        name: *const c_char,
        out: *mut f64,
    ) -> *mut tenon_status>,
    /// Reads bytes.
    pub get_bytes: Option<unsafe extern "C" fn(
        reader: *mut tenon_state_reader,
        name: *const c_char,
        out_ref: *mut *const c_void,
        out_size: *mut usize,
    ) -> *mut tenon_status>,
    /// Reads a tensor.
    pub get_tensor: Option<unsafe extern "C" fn(
        reader: *mut tenon_state_reader,
        name: *const c_char,
        out_ref: *mut *const tenon_tensor,
    ) -> *mut tenon_status>,
    /// Returns the number of entries.
    pub get_num_entries: Option<unsafe extern "C" fn(
        reader: *mut tenon_state_reader,
        out: *mut usize,
    ) -> *mut tenon_status>,
    /// Returns name and type (TENON_STATE_INT to TENON_STATE_TENSOR) of entry `i`; entries are sorted
    /// by name. TENON_NOT_FOUND if there are not that many.
    ///
    /// Owner    the name is borrowed until `load` returns
    pub get_entry: Option<unsafe extern "C" fn(
        reader: *mut tenon_state_reader,
        i: usize,
        out_name_ref: *mut *const c_char,
        out_type: *mut u32,
    ) -> *mut tenon_status>,
}
layout!(tenon_state_reader, 72:
    struct_size 0 8, r#impl 8 8, version 16 4, reserved 20 4, get_int 24 8, get_double 32 8,
    get_bytes 40 8, get_tensor 48 8, get_num_entries 56 8, get_entry 64 8);

/// Extension TENON_STATEFUL_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_stateful {
    pub struct_size: usize,
    /// Returns the version of the entries that `snapshot` writes. Increase it when their meaning
    /// changes; `load` then decides which older versions it accepts.
    ///
    /// Threads  [any]
    /// Since    0.1
    pub version: Option<unsafe extern "C" fn(this: *mut c_void) -> u32>,
    /// Saves the state into `writer`.
    ///
    /// Errors   any error makes the checkpoint fail
    /// Threads  [step], between steps
    /// Owner    `writer` is borrowed until return
    /// Since    0.1
    pub snapshot: Option<unsafe extern "C" fn(
        this: *mut c_void,
        writer: *mut tenon_state_writer,
    ) -> *mut tenon_status>,
    /// Restores the state. It may reject a version, with the reason.
    ///
    /// Errors   TENON_UNSUPPORTED for a version it cannot read. After an error the host destroys the
    ///          instance
    /// Threads  [main]
    /// Owner    `reader` is borrowed until return
    /// Since    0.1
    pub load: Option<unsafe extern "C" fn(
        this: *mut c_void,
        reader: *mut tenon_state_reader,
    ) -> *mut tenon_status>,
}
layout!(tenon_stateful, 32: struct_size 0 8, version 8 8, snapshot 16 8, load 24 8);

/// Service TENON_STATUS_ID: creates, reads and releases statuses.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_status_api {
    pub struct_size: usize,
    /// Creates a status. `code` is one of TENON_INVALID to TENON_TIMEOUT, and `id` is a short stable
    /// name such as "loss.bad_shape". `file` and `line` (from 1) locate the failure in the plugin.
    /// Null strings read as "".
    ///
    /// Errors   none: if memory runs out, the result is a status that reports TENON_OUT_OF_MEMORY
    /// Threads  [any]
    /// Owner    strings are copied; the caller returns the status or releases it
    /// Since    0.1
    pub make: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        code: u32,
        id: *const c_char,
        message: *const c_char,
        file: *const c_char,
        line: i32,
    ) -> *mut tenon_status>,
    /// Releases a status. Null is allowed.
    ///
    /// Threads  [any]
    /// Owner    takes the status
    /// Since    0.1
    pub release: Option<unsafe extern "C" fn(status_own: *mut tenon_status)>,
    /// The readers below return the parts of a status. A null status reads as TENON_OK, "" and line 0.
    ///
    /// Threads  [any]
    /// Owner    strings live as long as the status
    /// Since    0.1
    pub code: Option<unsafe extern "C" fn(status: *const tenon_status) -> u32>,
    pub id: Option<unsafe extern "C" fn(status: *const tenon_status) -> *const c_char>,
    pub message: Option<unsafe extern "C" fn(status: *const tenon_status) -> *const c_char>,
    pub file: Option<unsafe extern "C" fn(status: *const tenon_status) -> *const c_char>,
    pub line: Option<unsafe extern "C" fn(status: *const tenon_status) -> i32>,
}
layout!(tenon_status_api, 64:
    struct_size 0 8, make 8 8, release 16 8, code 24 8, id 32 8, message 40 8, file 48 8, line 56 8);

/// A device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_device {
    /// TENON_CPU, TENON_CUDA or TENON_META
    pub r#type: i32,
    /// -1: the current device
    pub index: i32,
}
layout!(tenon_device, 8: r#type 0 4, index 4 4);

/// A view of a tensor's metadata. Pointers are borrowed from the tensor and valid until its shape
/// changes or its last handle is released.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_tensor_info {
    /// set by the caller
    pub struct_size: usize,
    /// TENON_U8 to TENON_F8_E4M3
    pub dtype: u32,
    /// 0 for a scalar
    pub ndim: u32,
    /// where the data is
    pub device: tenon_device,
    /// [ndim]
    pub shape_ref: *const i64,
    /// [ndim], in elements, not bytes
    pub strides_ref: *const i64,
    /// number of elements
    pub numel: i64,
    /// The first element, in device memory if `device` is not the CPU; null for empty and meta
    /// tensors.
    pub data: *mut c_void,
    /// 1: row-major without gaps
    pub is_contiguous: u32,
    /// 1: autograd records operations on it
    pub requires_grad: u32,
}
layout!(tenon_tensor_info, 64:
    struct_size 0 8, dtype 8 4, ndim 12 4, device 16 8, shape_ref 24 8, strides_ref 32 8,
    numel 40 8, data 48 8, is_contiguous 56 4, requires_grad 60 4);

/// Service TENON_TENSOR_ID. The tags below hold for every function.
///
/// Errors   TENON_INVALID for a null argument, also where a comment does not list it
/// Threads  [any]
/// Owner    arguments are borrowed; the caller releases *out_own
/// Since    0.1
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_tensor_api {
    pub struct_size: usize,
    /// Fills *out.
    ///
    /// Errors   TENON_INVALID if an argument is null, the handle holds no tensor, or
    ///          `out->struct_size` is too small
    pub info: Option<unsafe extern "C" fn(
        tensor: *const tenon_tensor,
        out: *mut tenon_tensor_info,
    ) -> *mut tenon_status>,
    /// Creates a contiguous tensor with undefined content. `shape` may be null if ndim is 0.
    ///
    /// Errors   TENON_INVALID for a negative size or an unknown dtype; TENON_OUT_OF_MEMORY
    pub empty: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        dtype: u32,
        device: tenon_device,
        ndim: u32,
        shape: *const i64,
        out_own: *mut *mut tenon_tensor,
    ) -> *mut tenon_status>,
    /// Creates a contiguous tensor filled with `value`. With ndim 0 it creates a scalar.
    ///
    /// Errors   as for `empty`
    pub full: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        dtype: u32,
        device: tenon_device,
        ndim: u32,
        shape: *const i64,
        value: f64,
        out_own: *mut *mut tenon_tensor,
    ) -> *mut tenon_status>,
    /// Creates another handle of the same tensor, with the same storage and autograd history.
    pub retain: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        tensor: *const tenon_tensor,
        out_own: *mut *mut tenon_tensor,
    ) -> *mut tenon_status>,
    /// Releases a handle. Null is allowed.
    pub release: Option<unsafe extern "C" fn(tensor_own: *mut tenon_tensor)>,
    /// Reads the only element of a tensor. If the tensor is not on the CPU, the call waits for the
    /// device.
    ///
    /// Errors   TENON_INVALID if the tensor does not have exactly one element
    pub item: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        tensor: *const tenon_tensor,
        out: *mut f64,
    ) -> *mut tenon_status>,
    /// Wraps a DLPack 1.x tensor, sharing its data. On success the host owns the struct and calls its
    /// deleter when the last user has released the tensor. The data must be ready in the order of
    /// exec's stream; without an `exec` (null), it must be ready at once.
    ///
    /// Errors   TENON_INVALID for another major version, an unsupported dtype, a device other than CPU
    ///          and CUDA, or an invalid shape; the struct then still belongs to the caller
    /// Owner    takes `managed_own` on success
    pub from_dlpack: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        exec: *const tenon_exec,
        managed_own: *mut DLManagedTensorVersioned,
        out_own: *mut *mut tenon_tensor,
    ) -> *mut tenon_status>,
    /// Exports a tensor as DLPack 1.x, sharing its data, without autograd history. The data is ready
    /// in the order of exec's stream; without an `exec` (null), the call waits until it is ready.
    ///
    /// Errors   TENON_INTERNAL if the device failed
    /// Owner    the caller, who calls the struct's deleter
    pub to_dlpack: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        exec: *const tenon_exec,
        tensor: *const tenon_tensor,
        out_own: *mut *mut DLManagedTensorVersioned,
    ) -> *mut tenon_status>,
}
layout!(tenon_tensor_api, 72:
    struct_size 0 8, info 8 8, empty 16 8, full 24 8, retain 32 8, release 40 8, item 48 8,
    from_dlpack 56 8, to_dlpack 64 8);

/// A special token that templates refer to by name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_special_token {
    pub struct_size: usize,
    /// "bos_token", "eos_token", "pad_token", "unk_token", ...
    pub name: *const c_char,
    /// "<s>"
    pub text: *const c_char,
    /// in [0, vocab_size)
    pub id: i64,
}
layout!(tenon_special_token, 32: struct_size 0 8, name 8 8, text 16 8, id 24 8);

/// Result of `describe`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_tokenizer_info {
    /// set by the host, which also zeroes the other fields
    pub struct_size: usize,
    /// ids are in [0, vocab_size)
    pub vocab_size: i64,
    /// ids of the special tokens; -1 if the vocabulary lacks one
    pub bos: i64,
    pub eos: i64,
    pub pad: i64,
    /// K > 0: every k bytes are one token, so reading can start anywhere; 0: variable.
    pub bytes_per_token: u32,
    pub reserved: u32,
    /// Jinja template that renders a chat as text; null: none. Lives as long as the instance, as does
    /// the array below. Since 0.5
    pub chat_template_ref: *const c_char,
    /// [num_specials] with unique names. Since 0.5
    pub specials_ref: *const tenon_special_token,
    pub num_specials: usize,
}
layout!(tenon_tokenizer_info, 72:
    struct_size 0 8, vocab_size 8 8, bos 16 8, eos 24 8, pad 32 8, bytes_per_token 40 4,
    reserved 44 4, chat_template_ref 48 8, specials_ref 56 8, num_specials 64 8);

/// Arguments of `encode`. All pointers are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_encode_args {
    pub struct_size: usize,
    /// [num_bytes] the text; need not end with a NUL
    pub bytes: *const c_char,
    pub num_bytes: usize,
    /// receives the ids, in order
    pub sink: tenon_ids_sink,
    /// first argument of `sink`
    pub context: *mut c_void,
}
layout!(tenon_encode_args, 40: struct_size 0 8, bytes 8 8, num_bytes 16 8, sink 24 8, context 32 8);

/// Arguments of `decode`. All pointers are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_decode_args {
    pub struct_size: usize,
    /// [num_ids]
    pub ids: *const i32,
    pub num_ids: usize,
    /// receives the bytes, in order
    pub sink: tenon_bytes_sink,
    /// first argument of `sink`
    pub context: *mut c_void,
}
layout!(tenon_decode_args, 40: struct_size 0 8, ids 8 8, num_ids 16 8, sink 24 8, context 32 8);

/// A piece of a text.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_text_piece {
    pub struct_size: usize,
    /// [num_bytes] need not end with a NUL
    pub bytes: *const c_char,
    pub num_bytes: usize,
    /// TENON_PIECE_*
    pub kind: u32,
    pub reserved: u32,
}
layout!(tenon_text_piece, 32: struct_size 0 8, bytes 8 8, num_bytes 16 8, kind 24 4, reserved 28 4);

/// Arguments of `encode_pieces`. All pointers are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_encode_pieces_args {
    pub struct_size: usize,
    /// [num_pieces] in order; together they are one text
    pub pieces: *const tenon_text_piece,
    pub num_pieces: usize,
    /// TENON_ENCODE_*
    pub flags: u32,
    pub reserved: u32,
    /// receives the tokens, in order
    pub sink: tenon_tokens_sink,
    /// first argument of `sink`
    pub context: *mut c_void,
}
layout!(tenon_encode_pieces_args, 48:
    struct_size 0 8, pieces 8 8, num_pieces 16 8, flags 24 4, reserved 28 4, sink 32 8,
    context 40 8);

/// Arguments of `files`. All pointers are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_tokenizer_files_args {
    pub struct_size: usize,
    /// receives each file once, whole
    pub sink: tenon_file_sink,
    /// first argument of `sink`
    pub context: *mut c_void,
}
layout!(tenon_tokenizer_files_args, 24: struct_size 0 8, sink 8 8, context 16 8);

/// Interface TENON_TOKENIZER_ID. Its callers are other components, so it takes no exec.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_tokenizer {
    pub struct_size: usize,
    /// Describes the vocabulary. The result does not change during the instance's life.
    ///
    /// Threads  [any]
    /// Since    0.1
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        out: *mut tenon_tokenizer_info,
    ) -> *mut tenon_status>,
    /// Encodes text and passes the ids to the sink. The text is one piece of kind TEXT, and no token
    /// is added around it.
    ///
    /// Errors   TENON_INVALID for text it cannot encode, with the byte offset; errors of the sink
    /// Threads  [any], also concurrently
    /// Owner    `args` is borrowed until return
    /// Since    0.1
    pub encode: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_encode_args,
    ) -> *mut tenon_status>,
    /// Decodes ids and passes the bytes to the sink.
    ///
    /// Errors   TENON_INVALID for an id outside of the vocabulary; errors of the sink
    /// Threads  [any], also concurrently
    /// Owner    `args` is borrowed until return
    /// Since    0.1
    pub decode: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_decode_args,
    ) -> *mut tenon_status>,
    /// Encodes one text that consists of pieces, and passes ids and byte ranges to the sink. Ranges
    /// count bytes from the start of the first piece. A special token is recognized only if all of its
    /// text lies in pieces of kind TEMPLATE. The borders of pieces have no other effect: a token may
    /// contain bytes of two pieces. Null: no chats can be encoded.
    ///
    /// Errors   TENON_INVALID for text it cannot encode, with the byte offset; errors of the sink
    /// Threads  [any], also concurrently
    /// Owner    `args` is borrowed until return
    /// Since    0.5
    pub encode_pieces: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_encode_pieces_args,
    ) -> *mut tenon_status>,
    /// Passes the files that describe the tokenizer to other programs ("tokenizer.json"), to be
    /// written next to exported weights. Null: there are none.
    ///
    /// Errors   TENON_IO; errors of the sink
    /// Threads  [main]
    /// Owner    `args` is borrowed until return
    /// Since    0.5
    pub files: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_tokenizer_files_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_tokenizer, 48:
    struct_size 0 8, describe 8 8, encode 16 8, decode 24 8, encode_pieces 32 8, files 40 8);

/// A piece of a rendered chat.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_chat_piece {
    pub struct_size: usize,
    /// [num_bytes]
    pub bytes: *const c_char,
    pub num_bytes: usize,
    /// TENON_PIECE_TEXT: from a message; TENON_PIECE_TEMPLATE: from the template
    pub kind: u32,
    pub reserved: u32,
    /// index of the assistant's message whose answer this is part of; -1: none
    pub answer: i64,
}
layout!(tenon_chat_piece, 40:
    struct_size 0 8, bytes 8 8, num_bytes 16 8, kind 24 4, reserved 28 4, answer 32 8);

/// Arguments of `render`. All pointers are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_render_args {
    pub struct_size: usize,
    /// JSON array of objects with "role" and "content", as templates expect
    pub messages: *const c_char,
    /// JSON array of tool descriptions; null: none
    pub tools: *const c_char,
    /// JSON object of further variables, such as "bos_token"; null: none
    pub variables: *const c_char,
    /// 1: end with what precedes an answer of the assistant
    pub add_generation_prompt: u32,
    /// 1: set `answer`; 2: for texts with "train": false instead
    pub find_answers: u32,
    /// receives the pieces
    pub sink: tenon_chat_sink,
    /// first argument of `sink`
    pub context: *mut c_void,
}
layout!(tenon_render_args, 56:
    struct_size 0 8, messages 8 8, tools 16 8, variables 24 8, add_generation_prompt 32 4,
    find_answers 36 4, sink 40 8, context 48 8);

/// Service TENON_CHAT_TEMPLATE_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_chat_template_api {
    pub struct_size: usize,
    /// Compiles a template.
    ///
    /// Errors   TENON_INVALID for a syntax error, with its line
    /// Threads  [any]
    /// Owner    the caller releases *out_own; `text` is copied
    /// Since    0.5
    pub compile: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        text: *const c_char,
        out_own: *mut *mut tenon_chat_template,
    ) -> *mut tenon_status>,
    /// Renders a chat and passes the pieces to the sink.
    ///
    /// Errors   TENON_INVALID for malformed JSON, an error that the template raises (with its line),
    ///          a chat that changes earlier text when a message is added, or a rendering that is
    ///          too long; errors of the sink
    /// Threads  [any], also concurrently on one template
    /// Owner    arguments are borrowed until return
    /// Since    0.5
    pub render: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        chat_template: *const tenon_chat_template,
        args: *const tenon_render_args,
    ) -> *mut tenon_status>,
    /// Releases a template; null is ignored.
    ///
    /// Threads  [any], never while it is rendered
    /// Since    0.5
    pub release: Option<unsafe extern "C" fn(
        host: *const tenon_host,
        chat_template: *mut tenon_chat_template,
    )>,
}
layout!(tenon_chat_template_api, 32: struct_size 0 8, compile 8 8, render 16 8, release 24 8);

/// Result of `describe`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_clipper_info {
    /// set by the host, which also zeroes the other fields
    pub struct_size: usize,
    /// TENON_CLIP_*
    pub scope: u32,
    /// TENON_NORM_*, in fp32 (fp64 in precision fp64)
    pub norm: u32,
    /// 1: also the norm of the parameter values
    pub wants_parameter_norms: u32,
    /// 1: `clip` sets out_limits_own
    pub sets_limit: u32,
}
layout!(tenon_clipper_info, 24:
    struct_size 0 8, scope 8 4, norm 12 4, wants_parameter_norms 16 4, sets_limit 20 4);

/// Arguments of `clip`. Inputs are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_clip_args {
    pub struct_size: usize,
    pub num_scopes: usize,
    /// [num_scopes] Names of groups, parameters and tables; "" for TENON_CLIP_ALL.
    pub names: *const *const c_char,
    /// [num_scopes] Norms of normalized gradients; null for TENON_NORM_NONE.
    pub grad_norms: *const tenon_tensor,
    /// [num_scopes], or null if not requested
    pub parameter_norms: *const tenon_tensor,
    /// Scalar, f32: 1 if a gradient is non-finite; the update is then skipped.
    pub found_inf: *const tenon_tensor,
    /// Results: each gradient is multiplied by its factor and then clamped to [-limit, limit]. Null
    /// handles mean factor 1 and no limit.
    pub out_factors_own: *mut tenon_tensor,
    /// [num_scopes]
    pub out_limits_own: *mut tenon_tensor,
}
layout!(tenon_clip_args, 64:
    struct_size 0 8, num_scopes 8 8, names 16 8, grad_norms 24 8, parameter_norms 32 8,
    found_inf 40 8, out_factors_own 48 8, out_limits_own 56 8);

/// Interface TENON_CLIPPER_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_clipper {
    pub struct_size: usize,
    /// Describes scope and norm.
    ///
    /// Errors   any error ends the run before the first step
    /// Threads  [main], once, before any other call
    /// Owner    `out` is borrowed until return
    /// Since    0.1
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        out: *mut tenon_clipper_info,
    ) -> *mut tenon_status>,
    /// Computes factors and limits for one step. They must be equal on all ranks, as the norms are.
    ///
    /// Shapes   as in tenon_clip_args, on exec's device
    /// Errors   any error ends the run
    /// Threads  [step]
    /// Owner    inputs are borrowed; the host releases the two results
    /// Since    0.1
    pub clip: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *mut tenon_clip_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_clipper, 24: struct_size 0 8, describe 8 8, clip 16 8);

/// Result of `describe`. Strings and arrays live as long as the instance.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_generation_info {
    /// set by the host, which also zeroes the other fields
    pub struct_size: usize,
    /// name of the value that holds token ids, i64 [B, T]
    pub ids_ref: *const c_char,
    /// name of the value that holds logits, [B, T, V]
    pub logits_ref: *const c_char,
    /// largest number of positions of a sequence
    pub max_positions: i64,
    /// [num_caches] Block of each cache. A block receives its caches in this order.
    pub cache_blocks_ref: *const u32,
    pub num_caches: usize,
}
layout!(tenon_generation_info, 48:
    struct_size 0 8, ids_ref 8 8, logits_ref 16 8, max_positions 24 8, cache_blocks_ref 32 8,
    num_caches 40 8);

/// Arguments of `step`: one block on T new positions. Arrays and tensors are borrowed until `step`
/// returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_generation_args {
    pub struct_size: usize,
    /// index of the block, as the builder returned it
    pub block: u32,
    pub reserved: u32,
    /// position of the first new token: number of positions in the caches
    pub first: i64,
    /// positions that the sequence may get, at least first + T; for allocation
    pub capacity: i64,
    /// As in tenon_forward_args. Inputs hold the new positions only.
    pub inputs: *const *const tenon_tensor,
    pub num_inputs: usize,
    pub parameters: *const *const tenon_tensor,
    pub num_parameters: usize,
    pub buffers: *const *const tenon_tensor,
    pub num_buffers: usize,
    /// [num_caches] Caches of this block; null in the first step of a sequence. The block may write
    /// into them.
    pub caches: *const *mut tenon_tensor,
    pub num_caches: usize,
    /// [num_outputs] Results: values at the new positions.
    pub outputs_own: *mut *mut tenon_tensor,
    pub num_outputs: usize,
    /// [num_caches] Results; null: the host keeps the cache of `caches`, with what was written.
    pub next_caches_own: *mut *mut tenon_tensor,
}
layout!(tenon_generation_args, 120:
    struct_size 0 8, block 8 4, reserved 12 4, first 16 8, capacity 24 8, inputs 32 8,
    num_inputs 40 8, parameters 48 8, num_parameters 56 8, buffers 64 8, num_buffers 72 8,
    caches 80 8, num_caches 88 8, outputs_own 96 8, num_outputs 104 8, next_caches_own 112 8);

/// Extension TENON_GENERATION_ID of a model.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_generation {
    pub struct_size: usize,
    /// Describes values and caches.
    ///
    /// Errors   TENON_UNSUPPORTED, with the reason, if options of the model exclude it
    /// Threads  [main], after `describe` of the model
    /// Owner    `out` is borrowed; strings and array belong to the instance
    /// Since    0.5
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        out: *mut tenon_generation_info,
    ) -> *mut tenon_status>,
    /// Runs one block on new positions, without autograd. The result equals `forward` on the whole
    /// sequence, at these positions.
    ///
    /// Errors   TENON_INVALID for shapes it cannot process or too many positions
    /// Threads  [step]
    /// Owner    inputs are borrowed; the host releases the handles in outputs_own and next_caches_own
    /// Since    0.5
    pub step: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *mut tenon_generation_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_generation, 24: struct_size 0 8, describe 8 8, step 16 8);

/// Arguments of `update`. All arrays are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_parameter_average_args {
    /// set by the host
    pub struct_size: usize,
    pub num_pieces: usize,
    /// [num_pieces] Flat slices of this rank's parameters, after the update.
    pub parameters: *const *const tenon_tensor,
    /// [num_pieces] Averages of these slices, to be changed in place: f32, or f64 for f64 parameters.
    /// At the first update they hold the parameters.
    pub averages: *const *mut tenon_tensor,
    /// Number of applied updates, this one included, from 1. Saved in checkpoints.
    pub num_updates: u64,
}
layout!(tenon_parameter_average_args, 40:
    struct_size 0 8, num_pieces 8 8, parameters 16 8, averages 24 8, num_updates 32 8);

/// Extension TENON_PARAMETER_AVERAGE_ID of a hook.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_parameter_average {
    pub struct_size: usize,
    /// Includes the parameters in the averages. The host calls it after each applied update, before
    /// the hooks of after_optimizer_step. The result for an element depends on this element alone, so
    /// that it is equal for any sharding.
    ///
    /// Shapes   as in tenon_parameter_average_args, on exec's device
    /// Errors   any error ends the run
    /// Threads  [step]
    /// Owner    all tensors are borrowed until return
    /// Since    0.5
    pub update: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_parameter_average_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_parameter_average, 16: struct_size 0 8, update 8 8);

/// Result of `describe`. The arrays live as long as the instance.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_parametrization_info {
    /// set by the host, which also zeroes the other fields
    pub struct_size: usize,
    /// Real parameters and buffers. Their names are appended to the effective parameter's name, for
    /// example ".lora_a", and their `init` is not TENON_INIT_MODULE. The real parameter named "" takes
    /// the name of the effective one, and with it its place in weight files; it has the same shape,
    /// and starts with the value of the effective parameter. If there is none, the host does not store
    /// the effective parameter.
    pub reals_ref: *const tenon_parameter_spec,
    pub num_reals: usize,
    /// Of kind TENON_BUFFER_STATE if `start` or `after_update` sets them.
    pub buffers_ref: *const tenon_buffer_spec,
    pub num_buffers: usize,
    /// Reserved: ignored by this host. 1: element i of the effective parameter depends only on
    /// elements i of the real ones, so shards may be converted before they are gathered.
    pub elementwise: u32,
    pub reserved: u32,
}
layout!(tenon_parametrization_info, 48:
    struct_size 0 8, reals_ref 8 8, num_reals 16 8, buffers_ref 24 8, num_buffers 32 8,
    elementwise 40 4, reserved 44 4);

/// Arguments of `start`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_parametrization_start_args {
    pub struct_size: usize,
    /// the initial or loaded value of the effective parameter
    pub value: *const tenon_tensor,
    /// [num_reals] updated in place
    pub reals: *const *mut tenon_tensor,
    /// [num_buffers] updated in place
    pub buffers: *const *mut tenon_tensor,
}
layout!(tenon_parametrization_start_args, 32: struct_size 0 8, value 8 8, reals 16 8, buffers 24 8);

/// Arguments of `effective`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_effective_args {
    pub struct_size: usize,
    /// [num_reals]
    pub reals: *const *const tenon_tensor,
    /// [num_buffers]
    pub buffers: *const *const tenon_tensor,
    /// result: the effective parameter, in its declared shape
    pub out_own: *mut tenon_tensor,
}
layout!(tenon_effective_args, 32: struct_size 0 8, reals 8 8, buffers 16 8, out_own 24 8);

/// Arguments of `product`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_product_args {
    pub struct_size: usize,
    /// [..., D]
    pub x: *const tenon_tensor,
    /// [num_reals]
    pub reals: *const *const tenon_tensor,
    /// [num_buffers]
    pub buffers: *const *const tenon_tensor,
    /// result: x W^T, [..., N] for W [N, D], of the dtype of x
    pub out_own: *mut tenon_tensor,
}
layout!(tenon_product_args, 40: struct_size 0 8, x 8 8, reals 16 8, buffers 24 8, out_own 32 8);

/// Reserved: ignored by this host. Arguments of `backward`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_effective_backward_args {
    pub struct_size: usize,
    /// [num_reals]
    pub reals: *const *const tenon_tensor,
    /// [num_buffers]
    pub buffers: *const *const tenon_tensor,
    /// Reserved: ignored by this host. Of the shape of the effective parameter.
    pub grad_effective: *const tenon_tensor,
    /// Reserved: ignored by this host. [num_reals] Results, each of the shape of its real; null for a
    /// real without gradient.
    pub grad_reals_own: *mut *mut tenon_tensor,
}
layout!(tenon_effective_backward_args, 40:
    struct_size 0 8, reals 8 8, buffers 16 8, grad_effective 24 8, grad_reals_own 32 8);

/// Reserved: ignored by this host. Arguments of `after_update`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_after_update_args {
    pub struct_size: usize,
    /// [num_reals]
    pub reals: *const *const tenon_tensor,
    /// [num_buffers] updated in place
    pub buffers: *const *mut tenon_tensor,
    /// Scalar, f32, or null. If it is 1, the update was not applied, and nothing may change.
    pub found_inf: *const tenon_tensor,
}
layout!(tenon_after_update_args, 32: struct_size 0 8, reals 8 8, buffers 16 8, found_inf 24 8);

/// Interface TENON_PARAMETRIZATION_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_parametrization {
    pub struct_size: usize,
    /// Declares the real parameters of the parameter `effective`, which is as the model declared it.
    ///
    /// Errors   TENON_UNSUPPORTED, with the reason, for a parameter that it cannot replace
    /// Threads  [main], once, before any other call
    /// Owner    arguments are borrowed; the arrays of `out` belong to the instance
    /// Since    0.1
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        effective: *const tenon_parameter_spec,
        out: *mut tenon_parametrization_info,
    ) -> *mut tenon_status>,
    /// Initializes reals and buffers so that the effective parameter equals `value`. On entry, reals
    /// hold the values of their own initialization. All are whole tensors on the CPU.
    ///
    /// Errors   any error ends the run
    /// Threads  [main], after initialization, and after weights without reals were loaded
    /// Owner    all arguments are borrowed
    /// Since    0.1
    pub start: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_parametrization_start_args,
    ) -> *mut tenon_status>,
    /// Computes the effective parameter. It is a pure function: the host calls it again for backward,
    /// and to export plain weights. Autograd records the call, unless `backward` is set.
    ///
    /// Errors   TENON_INVALID for reals of other shapes
    /// Threads  [step]
    /// Owner    inputs are borrowed; the host releases the result
    /// Since    0.1
    pub effective: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *mut tenon_effective_args,
    ) -> *mut tenon_status>,
    /// Computes the gradients of the reals from the gradient of the effective parameter. If this
    /// pointer is null, autograd computes the gradients. This host rejects others.
    ///
    /// Errors   any error ends the run
    /// Threads  [step]
    /// Owner    inputs are borrowed; the host releases the results
    /// Since    0.1
    pub backward: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_effective_backward_args,
    ) -> *mut tenon_status>,
    /// Updates buffers (masks, scales) in place after each update of the reals. Null if there is
    /// nothing to update. This host rejects others.
    ///
    /// Errors   any error ends the run
    /// Threads  [step]
    /// Owner    all arguments are borrowed
    /// Since    0.1
    pub after_update: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_after_update_args,
    ) -> *mut tenon_status>,
    /// Computes the product of an input with the effective parameter. It is a pure function, which
    /// autograd records; under autocast, x has the dtype of autocast. The host calls it only for
    /// parameters with TENON_PARAM_LINEAR of blocks without own backward. Null: the host computes the
    /// effective parameter and uses that.
    ///
    /// Errors   TENON_INVALID for reals of other shapes
    /// Threads  [step], several times in a forward
    /// Owner    inputs are borrowed; the host releases the result
    /// Since    0.5
    pub product: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *mut tenon_product_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_parametrization, 56:
    struct_size 0 8, describe 8 8, start 16 8, effective 24 8, backward 32 8, after_update 40 8,
    product 48 8);

/// Result of `describe`. The array lives as long as the instance.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_parametrization_parts_info {
    /// set by the host, which also zeroes the other fields
    pub struct_size: usize,
    /// [num_reals * ndim] for `ndim` axes of the effective parameter. Entry [i * ndim + a] is the axis
    /// of real i that follows axis a of the effective parameter, and has its size; TENON_NO_INDEX if
    /// each rank has all of real i. Entries of the real "" are ignored: it is divided as the effective
    /// parameter.
    pub real_axes_ref: *const u32,
    /// Bit a: from its parts of the reals, a rank computes its part of the effective parameter, if
    /// ranks divide axis a; with `product`, its part of the result or its term of a sum over ranks. 0:
    /// ranks cannot divide the effective parameter.
    pub divisible_axes: u32,
    pub reserved: u32,
}
layout!(tenon_parametrization_parts_info, 24:
    struct_size 0 8, real_axes_ref 8 8, divisible_axes 16 4, reserved 20 4);

/// Extension TENON_PARAMETRIZATION_PARTS_ID of a parametrization.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_parametrization_parts {
    pub struct_size: usize,
    /// Says how ranks may divide what the instance computes.
    ///
    /// Errors   any error ends the run before the first step
    /// Threads  [main], after `describe` of the parametrization
    /// Owner    `out` is borrowed; the array belongs to the instance
    /// Since    0.5
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        out: *mut tenon_parametrization_parts_info,
    ) -> *mut tenon_status>,
}
layout!(tenon_parametrization_parts, 16: struct_size 0 8, describe 8 8);

/// Extension TENON_SAMPLE_PLACES_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_sample_places {
    pub struct_size: usize,
    /// Sets *out_ref to the place of a sample: the file, and what users find the sample by, such as a
    /// line or a row. It may read files. `window` is null for a dataset without windows.
    ///
    /// Errors   TENON_INVALID for an index outside of [0, size); after any error, the host's message
    ///          has the number of the sample only
    /// Threads  [main], also while reads are running
    /// Owner    *out_ref lives until the next call on this instance
    /// Since    0.5
    pub find_place: Option<unsafe extern "C" fn(
        this: *mut c_void,
        window: *const tenon_window,
        index: i64,
        out_ref: *mut *const c_char,
    ) -> *mut tenon_status>,
}
layout!(tenon_sample_places, 16: struct_size 0 8, find_place 8 8);

/// A file that a component reads. All pointers are borrowed until the sink returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_source_file {
    pub struct_size: usize,
    /// path or URI, as users know it
    pub name: *const c_char,
    /// Path of a local file, which the host hashes; null: the host cannot read the file.
    pub path: *const c_char,
    /// A text that differs if the content does: a hash of all bytes, an ETag. The host then does not
    /// read the file. Null: unknown.
    pub version: *const c_char,
    /// bytes; -1: unknown, or that of the local file
    pub size: i64,
    /// TENON_SOURCE_*
    pub flags: u32,
    pub reserved: u32,
}
layout!(tenon_source_file, 48:
    struct_size 0 8, name 8 8, path 16 8, version 24 8, size 32 8, flags 40 4, reserved 44 4);

/// Arguments of `list_sources`. All pointers are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_source_files_args {
    pub struct_size: usize,
    /// Window that the host has opened, and whose files are wanted; null: all files.
    pub window: *const tenon_window,
    pub sink: tenon_source_file_sink,
    /// first argument of `sink`
    pub context: *mut c_void,
}
layout!(tenon_source_files_args, 32: struct_size 0 8, window 8 8, sink 16 8, context 24 8);

/// Extension TENON_SOURCE_FILES_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_source_files {
    pub struct_size: usize,
    /// Passes the files to the sink, in the order in which the component reads them. It must be cheap,
    /// and reads no file.
    ///
    /// Errors   any error ends the run; errors of the sink
    /// Threads  [main], after `describe`; with a window, while no read is running
    /// Owner    `args` is borrowed until return
    /// Since    0.5
    pub list_sources: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_source_files_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_source_files, 16: struct_size 0 8, list_sources 8 8);

/// Declares one slot of optimizer state per row.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_row_slot_spec {
    pub struct_size: usize,
    /// unique in the optimizer, for example "exp_avg"
    pub name: *const c_char,
    /// TENON_ROW_SLOT_*
    pub shape: u32,
    /// a dtype, not a class
    pub dtype: u32,
    /// initial value in a new row, also if the id returns after an eviction
    pub init: f64,
}
layout!(tenon_row_slot_spec, 32: struct_size 0 8, name 8 8, shape 16 4, dtype 20 4, init 24 8);

/// Result of `describe`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_sparse_optimizer_info {
    /// set by the host, which also zeroes the other fields
    pub struct_size: usize,
    /// TENON_NARROW_*
    pub narrow: u32,
    /// where `update` runs: 1u << TENON_CPU, 1u << TENON_CUDA, or both
    pub devices: u32,
    /// [num_slots] lives as long as the instance
    pub slots_ref: *const tenon_row_slot_spec,
    pub num_slots: usize,
}
layout!(tenon_sparse_optimizer_info, 32:
    struct_size 0 8, narrow 8 4, devices 12 4, slots_ref 16 8, num_slots 24 8);

/// Locates the fields of a row. Offsets and stride are in bytes, a multiple of the field's size, and
/// at most 2^31 - 1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_row_layout {
    pub struct_size: usize,
    /// Array and blocks are on exec's device. Entries that no row of this call needs may be null.
    pub blocks: *const *mut c_void,
    /// log2 of the number of rows per block
    pub shift: u32,
    /// number of values per row
    pub dim: u32,
    /// distance of two rows in a block
    pub stride: usize,
    /// TENON_F32, TENON_BF16 or TENON_F16
    pub value_dtype: u32,
    /// offset of the value
    pub value_offset: i32,
    /// offset of the fp32 master; -1: none
    pub master_offset: i32,
    pub num_slots: u32,
    /// [num_slots] Offsets of the slots, in declaration order. The array is in CPU memory; pass its
    /// elements to kernels by value.
    pub slot_offsets: *const i32,
}
layout!(tenon_row_layout, 56:
    struct_size 0 8, blocks 8 8, shift 16 4, dim 20 4, stride 24 8, value_dtype 32 4,
    value_offset 36 4, master_offset 40 4, num_slots 44 4, slot_offsets 48 8);

/// Arguments of `update`: one update of n rows. All pointers except `layout` are to memory on exec's
/// device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_sparse_update_args {
    pub struct_size: usize,
    /// never null; in CPU memory
    pub layout: *const tenon_row_layout,
    pub n: usize,
    /// [n] distinct row numbers, in unspecified order
    pub rows: *const i64,
    /// [n] Id of each row. Unlike `rows`, ids do not depend on the number of ranks.
    pub ids: *const i64,
    /// [n, dim] Sum over the id's occurrences in batch order, normalized and clipped.
    pub grads: *const f32,
    /// [n] occurrences of the id in the step, over all ranks; at least 1
    pub counts: *const i64,
    /// scalar: number of updates of the table, including this one, from 1
    pub step: *const i64,
    /// scalar: the scheduled learning rate
    pub lr: *const f64,
    /// Scalar, or null. If it is 1, change nothing; `step` has not advanced.
    pub found_inf: *const f32,
    /// seed of the table, for stochastic rounding
    pub seed: u64,
}
layout!(tenon_sparse_update_args, 88:
    struct_size 0 8, layout 8 8, n 16 8, rows 24 8, ids 32 8, grads 40 8, counts 48 8, step 56 8,
    lr 64 8, found_inf 72 8, seed 80 8);

/// Interface TENON_SPARSE_OPTIMIZER_ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_sparse_optimizer {
    pub struct_size: usize,
    /// Describes row state, narrow dtypes and devices.
    ///
    /// Errors   any error ends the run before the first step
    /// Threads  [main], once, before any other call
    /// Owner    `out` is borrowed; its array belongs to the instance
    /// Since    0.1
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        out: *mut tenon_sparse_optimizer_info,
    ) -> *mut tenon_status>,
    /// Updates value and slots of the given rows in place, and no other row. The result for a row
    /// depends only on that row, not on n or on the other rows. A non-finite gradient affects at most
    /// its own row.
    ///
    /// With TENON_NARROW_STOCHASTIC, element j of a row is rounded by tenon_cut_bf16 or tenon_cut_f16.
    /// The random bits are the lowest 32 bits of number step * dim + j of stream `id` (random.h), with
    /// seed `seed`.
    ///
    /// Errors   TENON_UNSUPPORTED for a value dtype that it did not declare
    /// Threads  [worker]: several calls concurrently, on disjoint rows
    /// Owner    all arguments are borrowed until return; on a device, until the work queued on exec's
    ///          stream is done
    /// Since    0.1
    pub update: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *const tenon_sparse_update_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_sparse_optimizer, 24: struct_size 0 8, describe 8 8, update 16 8);

/// Result of `describe`. Arrays live as long as the instance.
///
/// A balance loss is an auxiliary loss over the experts of a step:
///
///     weight * X * sum_i f_i P_i,   f_i = loads_i / tokens,   P_i = shares_i / tokens
///
/// loads, shares and tokens are sums over the step. The gradient flows through `shares`. A block
/// adds its part with `add_loss`: `sum` is its shares, [X], with their gradient, and `count` is
/// [X + 1] i64, its loads and then its number of tokens. The host needs the loads of a step before
/// the first backward. If a step has several microbatches, the host therefore runs them forward once
/// more.
/// Source: Fedus et al., Switch Transformers (JMLR 2022), equation 4; loads of a whole step: Qiu et
/// al., Demons in the Detail (2025), arXiv:2501.11873.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_step_sums_info {
    /// set by the host, which also zeroes the other fields
    pub struct_size: usize,
    /// [num_buffers] summed buffers, as the builder numbered them
    pub buffers_ref: *const u32,
    pub num_buffers: usize,
    /// [num_balances] Block and X of each balance loss, in the order of blocks and of calls.
    pub balance_blocks_ref: *const u32,
    pub balance_experts_ref: *const i64,
    pub num_balances: usize,
}
layout!(tenon_step_sums_info, 48:
    struct_size 0 8, buffers_ref 8 8, num_buffers 16 8, balance_blocks_ref 24 8,
    balance_experts_ref 32 8, num_balances 40 8);

/// Arguments of `end_step`. Arrays and tensors are borrowed until `end_step` returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_end_step_args {
    pub struct_size: usize,
    /// index of the block, as the builder returned it
    pub block: u32,
    pub reserved: u32,
    /// [num_buffers] In the order of the block's spec.
    pub buffers: *const *const tenon_tensor,
    pub num_buffers: usize,
    /// [num_buffers] Results: next values of TENON_BUFFER_STATE buffers; null keeps the value.
    pub next_buffers_own: *mut *mut tenon_tensor,
}
layout!(tenon_end_step_args, 40:
    struct_size 0 8, block 8 4, reserved 12 4, buffers 16 8, num_buffers 24 8,
    next_buffers_own 32 8);

/// Extension TENON_STEP_SUMS_ID of a model.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_step_sums {
    pub struct_size: usize,
    /// Names what is summed.
    ///
    /// Errors   any error ends the run before the first step
    /// Threads  [main], after `describe` of the model
    /// Owner    `out` is borrowed; arrays belong to the instance
    /// Since    0.5
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        out: *mut tenon_step_sums_info,
    ) -> *mut tenon_status>,
    /// Computes state buffers of a block from the sums of a step. Called once a training step for each
    /// block with a summed buffer, with the same arguments on all ranks. Optional: null if no buffer
    /// depends on a sum.
    ///
    /// Errors   any error ends the run
    /// Threads  [step], after the last backward of a step
    /// Owner    the host releases the handles in next_buffers_own
    /// Since    0.5
    pub end_step: Option<unsafe extern "C" fn(
        this: *mut c_void,
        exec: *const tenon_exec,
        args: *mut tenon_end_step_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_step_sums, 24: struct_size 0 8, describe 8 8, end_step 16 8);

/// Arguments of `connect`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_storage_connect_args {
    pub struct_size: usize,
    /// Separates runs and purposes: "mlp-7/checkpoints". Checkpoints of one place are invisible in
    /// another.
    pub place: *const c_char,
}
layout!(tenon_storage_connect_args, 16: struct_size 0 8, place 8 8);

/// Arguments of `open`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_storage_open_args {
    pub struct_size: usize,
    pub checkpoint: *const c_char,
    /// 1 on the one rank that calls before all others; that call deletes leftovers of dead processes.
    pub is_first: u32,
    pub reserved: u32,
}
layout!(tenon_storage_open_args, 24: struct_size 0 8, checkpoint 8 8, is_first 16 4, reserved 20 4);

/// Arguments of `create_file`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_storage_create_args {
    pub struct_size: usize,
    pub checkpoint: *const c_char,
    pub file: *const c_char,
    /// result: belongs to the plugin; the host closes it
    pub out_file_own: *mut tenon_storage_file,
}
layout!(tenon_storage_create_args, 32:
    struct_size 0 8, checkpoint 8 8, file 16 8, out_file_own 24 8);

/// Arguments of `write`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_storage_write_args {
    pub struct_size: usize,
    pub file: *mut tenon_storage_file,
    /// [size] bytes
    pub data: *const c_void,
    pub size: usize,
}
layout!(tenon_storage_write_args, 32: struct_size 0 8, file 8 8, data 16 8, size 24 8);

/// Arguments of `close`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_storage_close_args {
    pub struct_size: usize,
    /// invalid after the call, even after an error
    pub file_own: *mut tenon_storage_file,
    /// 1: the file is complete; 0: it is discarded
    pub keep: u32,
    pub reserved: u32,
}
layout!(tenon_storage_close_args, 24: struct_size 0 8, file_own 8 8, keep 16 4, reserved 20 4);

/// Arguments of `commit`, `abort` and `remove`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_storage_checkpoint_args {
    pub struct_size: usize,
    pub checkpoint: *const c_char,
}
layout!(tenon_storage_checkpoint_args, 16: struct_size 0 8, checkpoint 8 8);

/// Arguments of `list`, `list_files` and `address`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_storage_list_args {
    pub struct_size: usize,
    /// null for `list`
    pub checkpoint: *const c_char,
    pub sink: tenon_names_sink,
    /// first argument of `sink`
    pub context: *mut c_void,
}
layout!(tenon_storage_list_args, 32: struct_size 0 8, checkpoint 8 8, sink 16 8, context 24 8);

/// Arguments of `file_size`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_storage_size_args {
    pub struct_size: usize,
    pub checkpoint: *const c_char,
    pub file: *const c_char,
    /// result, in bytes
    pub out_size: u64,
}
layout!(tenon_storage_size_args, 32: struct_size 0 8, checkpoint 8 8, file 16 8, out_size 24 8);

/// Arguments of `read`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_storage_read_args {
    pub struct_size: usize,
    pub checkpoint: *const c_char,
    pub file: *const c_char,
    /// in bytes
    pub offset: u64,
    /// in bytes
    pub size: usize,
    /// [size] bytes of the caller, which receive the content
    pub data: *mut c_void,
}
layout!(tenon_storage_read_args, 48:
    struct_size 0 8, checkpoint 8 8, file 16 8, offset 24 8, size 32 8, data 40 8);

/// Interface TENON_STORAGE_ID. Names of checkpoints and files have 1 to 200 characters of
/// [A-Za-z0-9_.-] and do not start with a dot; the host validates them. "latest", "COMMITTED" and
/// "COMMITTED.tmp" are reserved for storages. The tags below hold for every function.
///
/// Errors   TENON_IO, with the system's reason and the full address; TENON_TIMEOUT if a retry may
///          help
/// Owner    all arguments are borrowed until return
/// Since    0.1
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_storage {
    pub struct_size: usize,
    /// Connects to the location in the options. The call writes nothing, because readers connect as
    /// well.
    ///
    /// Errors   TENON_NOT_FOUND, TENON_IO
    /// Threads  [main], once, before any other call
    pub connect: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_storage_connect_args,
    ) -> *mut tenon_status>,
    /// Opens a checkpoint for writing.
    ///
    /// Errors   TENON_EXISTS if a committed checkpoint has that name
    /// Threads  [worker]
    pub open: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_storage_open_args,
    ) -> *mut tenon_status>,
    /// Creates a file in an open checkpoint.
    ///
    /// Errors   TENON_EXISTS if the checkpoint has that file
    /// Threads  [worker]
    /// Owner    the file belongs to the plugin; the host passes it to `close`, also after an error
    pub create_file: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *mut tenon_storage_create_args,
    ) -> *mut tenon_status>,
    /// Appends to a file.
    ///
    /// Threads  [worker]: different files concurrently, one file never
    pub write: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_storage_write_args,
    ) -> *mut tenon_status>,
    /// Closes a file. With `keep` = 1, success means that the content is ready for `commit`.
    ///
    /// Threads  [worker]
    /// Owner    takes `file_own`
    pub close: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_storage_close_args,
    ) -> *mut tenon_status>,
    /// Commits the checkpoint atomically. Called on one rank, after the last `close` of every rank.
    ///
    /// Errors   TENON_NOT_FOUND if no such checkpoint is open. After an error the checkpoint is not
    ///          visible, and `commit` may be retried
    /// Threads  [worker]
    pub commit: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_storage_checkpoint_args,
    ) -> *mut tenon_status>,
    /// Discards an open checkpoint. It is no error if the checkpoint does not exist.
    ///
    /// Threads  [worker]
    pub abort: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_storage_checkpoint_args,
    ) -> *mut tenon_status>,
    /// Lists the committed checkpoints, in commit order.
    ///
    /// Threads  [worker]
    pub list: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_storage_list_args,
    ) -> *mut tenon_status>,
    /// Lists the files of a committed checkpoint, sorted by name.
    ///
    /// Errors   TENON_NOT_FOUND if there is no such checkpoint
    /// Threads  [worker]
    pub list_files: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_storage_list_args,
    ) -> *mut tenon_status>,
    /// Returns the size of a file.
    ///
    /// Errors   TENON_NOT_FOUND if there is no such file
    /// Threads  [worker]
    pub file_size: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *mut tenon_storage_size_args,
    ) -> *mut tenon_status>,
    /// Reads exactly `size` bytes from `offset`.
    ///
    /// Errors   TENON_NOT_FOUND if there is no such file; TENON_DATA_LOSS, with the offset, if the
    ///          file is shorter
    /// Threads  [worker]: several reads concurrently, also of one file
    pub read: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_storage_read_args,
    ) -> *mut tenon_status>,
    /// Removes a committed checkpoint, or the leftovers of one that was never committed. It is no
    /// error if the checkpoint does not exist.
    ///
    /// Threads  [worker], while nobody reads it
    pub remove: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_storage_checkpoint_args,
    ) -> *mut tenon_status>,
    /// Passes one string to the sink: the address of the checkpoint in messages, for example
    /// "s3://bucket/a/step-500". The checkpoint need not exist.
    ///
    /// Threads  [any]
    pub address: Option<unsafe extern "C" fn(
        this: *mut c_void,
        args: *const tenon_storage_list_args,
    ) -> *mut tenon_status>,
}
layout!(tenon_storage, 112:
    struct_size 0 8, connect 8 8, open 16 8, create_file 24 8, write 32 8, close 40 8, commit 48 8,
    abort 56 8, list 64 8, list_files 72 8, file_size 80 8, read 88 8, remove 96 8, address 104 8);

/// A text to continue. Strings are borrowed until return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_text_request {
    /// set by the caller
    pub struct_size: usize,
    /// UTF-8. The text to continue, or a message of the user. Special tokens in it stay text.
    pub prompt: *const c_char,
    /// UTF-8. With is_chat: the system message; null: none
    pub system: *const c_char,
    /// 1: render prompt and system by the tokenizer's chat template
    pub is_chat: u32,
    /// 0
    pub reserved: u32,
    /// largest number of new tokens, at least 1
    pub max_tokens: i64,
    /// divides the logits, 0 or more; 0: the most likely token
    pub temperature: f64,
    /// only the K most likely tokens; 0: all
    pub top_k: i64,
    /// only the most likely tokens that together have this probability, in (0, 1]
    pub top_p: f64,
    /// of the draws, which depend on the seed and the position only
    pub seed: u64,
}
layout!(tenon_text_request, 72:
    struct_size 0 8, prompt 8 8, system 16 8, is_chat 24 4, reserved 28 4, max_tokens 32 8,
    temperature 40 8, top_k 48 8, top_p 56 8, seed 64 8);

/// A text that the model wrote.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_text_result {
    /// set by the caller
    pub struct_size: usize,
    /// [num_text_bytes] The new text in UTF-8, ends with a NUL. U+FFFD stands for bytes that belong to
    /// no character. Lives until the next call of `generate` of this run.
    pub text_ref: *const c_char,
    /// without the NUL at the end
    pub num_text_bytes: usize,
    pub num_prompt_tokens: usize,
    /// new tokens, without the end-of-text token
    pub num_tokens: usize,
    /// TENON_TEXT_*: why the text ended
    pub finish: u32,
    pub reserved: u32,
}
layout!(tenon_text_result, 48:
    struct_size 0 8, text_ref 8 8, num_text_bytes 16 8, num_prompt_tokens 24 8, num_tokens 32 8,
    finish 40 4, reserved 44 4);

/// Service TENON_TEXT_GENERATION_ID. `run` is that of the event. The tags below hold for both
/// functions.
///
/// Errors   TENON_INVALID for a null argument, a value out of range, or a hook that does not declare
///          uses_collectives; an error with the id generate.no_tokenizer, generate.no_template or
///          generate.not_possible if the recipe has no tokenizer, the tokenizer no chat template, or
///          the model cannot continue the text; errors of the model and the tokenizer
/// Threads  those of the event, and only during it
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_text_generation_api {
    pub struct_size: usize,
    /// Checks that `generate` could continue a text, without running the model. Call it at `start`, so
    /// that a mistake in the recipe ends the run before its first step.
    ///
    /// Owner    `request` is borrowed until return
    /// Since    0.5
    pub check: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        request: *const tenon_text_request,
    ) -> *mut tenon_status>,
    /// Continues a text: at after_load, after_step, after_evaluate, after_window and after_epoch, and
    /// at `end` unless the run failed. If a rank is lost, the run ends.
    ///
    /// Errors   TENON_INVALID at another event
    /// Owner    `request` and `out` are borrowed until return
    /// Since    0.5
    pub generate: Option<unsafe extern "C" fn(
        run: *mut tenon_run,
        request: *const tenon_text_request,
        out: *mut tenon_text_result,
    ) -> *mut tenon_status>,
}
layout!(tenon_text_generation_api, 24: struct_size 0 8, check 8 8, generate 16 8);

/// Maps one tensor of the files to a parameter. All pointers are borrowed until `add_tensor`
/// returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_layout_tensor {
    pub struct_size: usize,
    /// name of the tensor in the files
    pub name: *const c_char,
    /// Name of the parameter in the model's `describe`, or of a TENON_BUFFER_STATE buffer.
    pub parameter: *const c_char,
    /// TENON_LAYOUT_*
    pub flags: u32,
    pub reserved: u32,
    /// First row of the file's tensor that belongs to the parameter; 0 if the parameter is the whole
    /// tensor. Parameters in one tensor leave no gaps.
    pub first: i64,
    /// number of the slice; 0 without TENON_LAYOUT_SLICE
    pub index: i64,
}
layout!(tenon_layout_tensor, 48:
    struct_size 0 8, name 8 8, parameter 16 8, flags 24 4, reserved 28 4, first 32 8, index 40 8);

/// Receives the layout. The tags below hold for every function.
///
/// Errors   TENON_INVALID for a parameter that does not exist, or a row range or file that is given
///          twice
/// Threads  those of `describe`, and only during it
/// Owner    arguments are copied
/// Since    0.1
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_layout_builder {
    pub struct_size: usize,
    pub r#impl: *mut c_void,
    /// Maps one tensor.
    pub add_tensor: Option<unsafe extern "C" fn(
        builder: *mut tenon_layout_builder,
        tensor: *const tenon_layout_tensor,
    ) -> *mut tenon_status>,
    /// Adds a text file next to the tensors, for example "config.json". Include only facts that hold
    /// for the model.
    pub add_file: Option<unsafe extern "C" fn(
        builder: *mut tenon_layout_builder,
        name: *const c_char,
        text: *const c_char,
    ) -> *mut tenon_status>,
}
layout!(tenon_layout_builder, 32: struct_size 0 8, r#impl 8 8, add_tensor 16 8, add_file 24 8);

/// Receives differences, in terms that users know: an option of the model, its value here, and its
/// value in the files.
///
/// Threads  those of `compare`, and only during it
/// Owner    arguments are copied
/// Since    0.1
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_layout_differences {
    pub struct_size: usize,
    pub r#impl: *mut c_void,
    /// Adds one difference.
    pub add: Option<unsafe extern "C" fn(
        differences: *mut tenon_layout_differences,
        option: *const c_char,
        here: *const c_char,
        there: *const c_char,
    ) -> *mut tenon_status>,
}
layout!(tenon_layout_differences, 24: struct_size 0 8, r#impl 8 8, add 16 8);

/// Extension TENON_WEIGHTS_LAYOUT_ID of a model.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_weights_layout {
    pub struct_size: usize,
    /// Describes the tensors of all parameters in the named layout, and the files next to them.
    /// `dtype` is the dtype of most written tensors.
    ///
    /// Errors   TENON_UNSUPPORTED, with the reason, for a layout that the model does not have or that
    ///          cannot express the model's options
    /// Threads  [main], after `describe` of the model
    /// Owner    all arguments are borrowed until return
    /// Since    0.1
    pub describe: Option<unsafe extern "C" fn(
        this: *mut c_void,
        layout: *const c_char,
        dtype: u32,
        builder: *mut tenon_layout_builder,
    ) -> *mut tenon_status>,
    /// Reports where the description next to other weights ("hf": config.json) contradicts the
    /// function that this model computes. Keys without influence are skipped. `config` is read by JSON
    /// pointer ("/hidden_size", options.h).
    ///
    /// Errors   TENON_UNSUPPORTED, as for `describe`
    /// Threads  [main]
    /// Owner    all arguments are borrowed until return
    /// Since    0.1
    pub compare: Option<unsafe extern "C" fn(
        this: *mut c_void,
        layout: *const c_char,
        config: *const tenon_options,
        differences: *mut tenon_layout_differences,
    ) -> *mut tenon_status>,
}
layout!(tenon_weights_layout, 24: struct_size 0 8, describe 8 8, compare 16 8);
