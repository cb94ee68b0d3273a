/* SPDX-License-Identifier: Apache-2.0
 *
 * A decoder in plain C that ranks of a tensor group divide. Its first block is an embedding and one
 * layer of Llama; its second block is a head. Attention and the feed-forward layer are divided
 * regions. The host's operators compute all of it, and autograd computes the gradients.
 *
 * Shapes   input_ids [B, T] i64 with T at most kPositions, logits [B, T, kVocabulary] */
#include <tenon/draft/context.h>
#include <tenon/draft/tensor.h>
#include <tenon/tenon.h>

#include <math.h>

enum { kVocabulary = 16, kWidth = 16, kInner = 24, kHeads = 4, kPositions = 64 };
enum { kHeadWidth = kWidth / kHeads, kHalf = kHeadWidth / 2, kMostResults = 24 };
static const double kEpsilon = 1e-6;

/* ---- calls of operators ---- */

/* The calls of one forward, with all their results. */
typedef struct Calls {
  const tenon_exec* exec;
  tenon_status* status; /* error of the first call that failed */
  tenon_any results[kMostResults];
  size_t num_results;
} Calls;

/* Calls an operator unless an earlier call failed. Returns its results. */
static tenon_any* call(Calls* calls, const char* name, const tenon_any* args, size_t num_args) {
  const tenon_exec* const exec = calls->exec;
  tenon_any* const results = &calls->results[calls->num_results];
  size_t num_results = kMostResults - calls->num_results;
  const tenon_op* op = NULL;
  if (calls->status == NULL) {
    calls->status = exec->ops->find(exec->host, name, &op);
  }
  if (calls->status == NULL) {
    calls->status = exec->ops->call(exec->host, op, args, num_args, results, &num_results);
  }
  calls->num_results += calls->status == NULL ? num_results : 0;
  return results;
}

static tenon_any tensor(const tenon_tensor* x) {
  return (tenon_any){.tag = TENON_ANY_TENSOR, .v.tensor = (tenon_tensor*)x};
}
static tenon_any tensors(const tenon_tensor* const* first, size_t count) {
  return (tenon_any){TENON_ANY_TENSORS, 0, count, {.tensors = (tenon_tensor* const*)first}};
}
static tenon_any integer(int64_t i) {
  return (tenon_any){.tag = TENON_ANY_INT, .v.i = i};
}
static tenon_any number(double d) {
  return (tenon_any){.tag = TENON_ANY_DOUBLE, .v.d = d};
}
#define CALL(name, ...)            \
  call(&calls,                     \
       name,                       \
       (tenon_any[]){__VA_ARGS__}, \
       sizeof((tenon_any[]){__VA_ARGS__}) / sizeof(tenon_any))

/* Gives `output` to the caller, and releases all other results. */
static tenon_status* finish(const Calls* calls, const tenon_any* output, tenon_tensor** out_own) {
  *out_own = calls->status == NULL ? output->v.tensor : NULL;
  for (size_t i = 0; i < calls->num_results; ++i) {
    if (&calls->results[i] != output) {
      calls->exec->tensors->release(calls->results[i].v.tensor);
    }
  }
  return calls->status;
}

static tenon_status* forward_decoder(const tenon_exec* exec, tenon_forward_args* args) {
  Calls calls = {.exec = exec};
  const tenon_tensor* const* const w = args->parameters;
  const tenon_any eps = number(kEpsilon);
  const tenon_any rotary = tensor(args->buffers[0]);
  tenon_tensor_info query = {.struct_size = sizeof query};
  calls.status = exec->tensors->info(w[2], &query);
  /* This rank has some of the heads: as many as its rows of the weight have. */
  const tenon_any heads = integer(calls.status == NULL ? query.shape_ref[0] / kHeadWidth : 0);
  const tenon_any* x = CALL("tenon::embedding", tensor(w[0]), tensor(args->inputs[0]));
  const tenon_any* normed = CALL("tenon::rms_norm", *x, tensor(w[1]), eps);
  const tenon_any* in = CALL("tenon::tensor_in", *normed);
  const tenon_any* qkv = CALL("tenon::linear", *in, tensors(w + 2, 3));
  const tenon_any* seen = CALL("tenon::packed_attention", *qkv, heads, heads, rotary);
  const tenon_any* part = CALL("tenon::linear", *seen, tensors(w + 5, 1));
  const tenon_any* delta = CALL("tenon::tensor_out", *part);
  const tenon_any* h = CALL("tenon::add_rms_norm", *x, *delta, tensor(w[6]), eps);
  const tenon_any* in2 = CALL("tenon::tensor_in", h[1]);
  const tenon_any* part2 = CALL("tenon::gated_mlp", *in2, tensor(w[7]), tensor(w[8]), tensor(w[9]));
  const tenon_any* fed = CALL("tenon::tensor_out", *part2);
  return finish(&calls, CALL("aten::add.Tensor", h[0], *fed), &args->outputs_own[0]);
}

static tenon_status* forward_head(const tenon_exec* exec, tenon_forward_args* args) {
  Calls calls = {.exec = exec};
  const tenon_tensor* const* const w = args->parameters;
  const tenon_any eps = number(kEpsilon);
  const tenon_any* last = CALL("tenon::rms_norm", tensor(args->inputs[0]), tensor(w[0]), eps);
  return finish(&calls, CALL("tenon::linear", *last, tensors(w + 1, 1)), &args->outputs_own[0]);
}

static tenon_status* forward(void* self, const tenon_exec* exec, tenon_forward_args* args) {
  (void)self;
  return args->block == 0 ? forward_decoder(exec, args) : forward_head(exec, args);
}

/* ---- what the model consists of ---- */

/* Matrices and vectors, in the order in which blocks read them: the head has the last two. */
static const struct {
  const char* name;
  int64_t shape[2]; /* of a vector: its width and 0 */
  int64_t units;    /* along `axis`, which ranks divide; 0: none */
  uint32_t axis;
} weights[] = {{"tokens", {kVocabulary, kWidth}, 0, 0},
               {"attend.norm", {kWidth, 0}, 0, 0},
               {"q.weight", {kWidth, kWidth}, kHeads, 0},
               {"k.weight", {kWidth, kWidth}, kHeads, 0},
               {"v.weight", {kWidth, kWidth}, kHeads, 0},
               {"o.weight", {kWidth, kWidth}, kHeads, 1},
               {"feed.norm", {kWidth, 0}, 0, 0},
               {"gate.weight", {kInner, kWidth}, kInner, 0},
               {"up.weight", {kInner, kWidth}, kInner, 0},
               {"down.weight", {kWidth, kInner}, kInner, 1},
               {"norm", {kWidth, 0}, 0, 0},
               {"head.weight", {kVocabulary, kWidth}, 0, 0}};
enum {
  kWeights = sizeof weights / sizeof weights[0],
  kOfHead = 2,
  kOfDecoder = kWeights - kOfHead
};

static tenon_status* add_weight(tenon_model_builder* builder, int i, uint32_t* out_index) {
  const int is_vector = weights[i].shape[1] == 0;
  const tenon_split split = {.struct_size = sizeof split,
                             .axis = weights[i].axis,
                             .parts = &weights[i].shape[weights[i].axis],
                             .units = &weights[i].units,
                             .num_parts = 1};
  const tenon_parameter_spec spec = {.struct_size = sizeof spec,
                                     .name = weights[i].name,
                                     .shape = weights[i].shape,
                                     .ndim = is_vector ? 1 : 2,
                                     .dtype = TENON_CLASS_PARAM,
                                     .flags = is_vector ? TENON_PARAM_NO_DECAY : 0,
                                     .init = is_vector ? TENON_INIT_ONES : TENON_INIT_NORMAL,
                                     .init_b = 0.2,
                                     .split = weights[i].units > 0 ? &split : NULL};
  return builder->add_parameter(builder, &spec, out_index);
}

static tenon_status* describe(void* self, tenon_model_builder* builder) {
  static const tenon_axis axes[] = {{"B", -1}, {"T", -1}, {NULL, kVocabulary}};
  static const tenon_axis wide[] = {{"B", -1}, {"T", -1}, {NULL, kWidth}};
  static const int64_t table[] = {2, kPositions, kHalf};
  const tenon_value_spec input = {.struct_size = sizeof input,
                                  .name = "input_ids",
                                  .axes = axes,
                                  .num_axes = 2,
                                  .dtype = TENON_I64,
                                  .source_kind = TENON_SOURCE_BATCH};
  const tenon_value_spec between = {.struct_size = sizeof between,
                                    .name = "y",
                                    .axes = wide,
                                    .num_axes = 3,
                                    .dtype = TENON_CLASS_COMPUTE,
                                    .source_kind = TENON_SOURCE_BLOCK};
  const tenon_value_spec output = {.struct_size = sizeof output,
                                   .name = "logits",
                                   .axes = axes,
                                   .num_axes = 3,
                                   .dtype = TENON_CLASS_COMPUTE,
                                   .source_kind = TENON_SOURCE_BLOCK};
  const tenon_buffer_spec buffer = {
      sizeof buffer, "rotary", table, 3, TENON_F32, TENON_BUFFER_CONSTANT};
  uint32_t ids = 0, y = 0, logits = 0, rotary = 0, block = 0, parameters[kWeights] = {0};
  tenon_status* status = builder->add_value(builder, &input, &ids);
  if (status == NULL) {
    status = builder->add_value(builder, &between, &y);
  }
  if (status == NULL) {
    status = builder->add_value(builder, &output, &logits);
  }
  if (status == NULL) {
    status = builder->add_buffer(builder, &buffer, &rotary);
  }
  for (int i = 0; status == NULL && i < kWeights; ++i) {
    status = add_weight(builder, i, &parameters[i]);
  }
  const tenon_block_spec decoder = {.struct_size = sizeof decoder,
                                    .name = "decoder",
                                    .flags = TENON_BLOCK_CONTEXT | TENON_BLOCK_DIVISIBLE,
                                    .inputs = &ids,
                                    .num_inputs = 1,
                                    .outputs = &y,
                                    .num_outputs = 1,
                                    .parameters = parameters,
                                    .num_parameters = kOfDecoder,
                                    .buffers = &rotary,
                                    .num_buffers = 1};
  const tenon_block_spec head = {.struct_size = sizeof head,
                                 .name = "head",
                                 .flags = TENON_BLOCK_CONTEXT | TENON_BLOCK_DIVISIBLE,
                                 .inputs = &y,
                                 .num_inputs = 1,
                                 .outputs = &logits,
                                 .num_outputs = 1,
                                 .parameters = parameters + kOfDecoder,
                                 .num_parameters = kOfHead};
  (void)self;
  if (status == NULL) {
    status = builder->add_block(builder, &decoder, &block);
  }
  return status == NULL ? builder->add_block(builder, &head, &block) : status;
}

/* Cosines, then sines, of position times frequency. */
static tenon_status* fill_buffer(void* self,
                                 const tenon_exec* exec,
                                 const tenon_fill_buffer_args* args) {
  tenon_tensor_info info = {.struct_size = sizeof info};
  tenon_status* const status = exec->tensors->info(args->tensor, &info);
  float* const table = info.data;
  (void)self;
  for (int i = 0; status == NULL && i < kPositions * kHalf; ++i) {
    const double angle = (i / kHalf) * pow(10000.0, -(double)(i % kHalf) / kHalf);
    table[i] = (float)cos(angle);
    table[kPositions * kHalf + i] = (float)sin(angle);
  }
  return status;
}

/* The model has no state of its own. */
static tenon_status* create(const tenon_host* host,
                            const tenon_create_args* args,
                            void** out_self) {
  static char self;
  (void)host;
  (void)args;
  *out_self = &self;
  return NULL;
}
static void destroy(void* self) {
  (void)self;
}

static const tenon_model table = {.struct_size = sizeof table,
                                  .describe = describe,
                                  .forward = forward,
                                  .fill_buffer = fill_buffer};
static const tenon_component component = {
    .struct_size = sizeof component,
    .kind = "model",
    .type = "divided_c",
    .interface_id = TENON_MODEL_ID,
    .table = &table,
    .summary = "One layer of Llama in plain C, divided",
    .options_schema = "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {}}",
    .create = create,
    .destroy = destroy};

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
