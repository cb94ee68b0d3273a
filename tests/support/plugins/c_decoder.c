/* SPDX-License-Identifier: Apache-2.0
 *
 * A decoder in plain C: an embedding, one layer of Llama and a head, with llama's names of
 * parameters. The host's operators compute all of it, and autograd computes the gradients.
 *
 * Shapes   input_ids [B, T] i64 with T at most kPositions, logits [B, T, kVocabulary] */
#include <tenon/draft/context.h>
#include <tenon/tenon.h>

#include <math.h>

enum { kVocabulary = 256, kWidth = 128, kInner = 352, kHeads = 4, kPositions = 512 };
enum { kHalf = kWidth / kHeads / 2, kMostResults = 16 };
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

static tenon_status* forward(void* self, const tenon_exec* exec, tenon_forward_args* args) {
  Calls calls = {.exec = exec};
  const tenon_tensor* const* const w = args->parameters;
  const tenon_any eps = number(kEpsilon);
  const tenon_any heads = integer(kHeads);
  const tenon_any rotary = tensor(args->buffers[0]);
  const tenon_any* x = CALL("tenon::embedding", tensor(w[0]), tensor(args->inputs[0]));
  const tenon_any* normed = CALL("tenon::rms_norm", *x, tensor(w[1]), eps);
  const tenon_any* qkv = CALL("tenon::linear", *normed, tensors(w + 2, 3));
  const tenon_any* seen = CALL("tenon::packed_attention", *qkv, heads, heads, rotary);
  const tenon_any* delta = CALL("tenon::linear", *seen, tensors(w + 5, 1));
  const tenon_any* h = CALL("tenon::add_rms_norm", *x, *delta, tensor(w[6]), eps);
  const tenon_any* fed = CALL("tenon::gated_mlp", h[1], tensor(w[7]), tensor(w[8]), tensor(w[9]));
  const tenon_any* y = CALL("aten::add.Tensor", h[0], *fed);
  const tenon_any* last = CALL("tenon::rms_norm", *y, tensor(w[10]), eps);
  const tenon_any* logits = CALL("tenon::linear", *last, tensors(w + 11, 1));
  (void)self;
  args->outputs_own[0] = calls.status == NULL ? logits->v.tensor : NULL;
  for (size_t i = 0; i < calls.num_results; ++i) {
    if (&calls.results[i] != logits) {
      exec->tensors->release(calls.results[i].v.tensor);
    }
  }
  return calls.status;
}

/* ---- what the model consists of ---- */

/* Matrices and vectors, in the order in which `forward` reads them. */
static const struct {
  const char* name;
  int64_t shape[2]; /* of a vector: its width and 0 */
} weights[] = {{"model.embed_tokens.weight", {kVocabulary, kWidth}},
               {"model.layers.0.input_layernorm.weight", {kWidth, 0}},
               {"model.layers.0.self_attn.q_proj.weight", {kWidth, kWidth}},
               {"model.layers.0.self_attn.k_proj.weight", {kWidth, kWidth}},
               {"model.layers.0.self_attn.v_proj.weight", {kWidth, kWidth}},
               {"model.layers.0.self_attn.o_proj.weight", {kWidth, kWidth}},
               {"model.layers.0.post_attention_layernorm.weight", {kWidth, 0}},
               {"model.layers.0.mlp.gate_proj.weight", {kInner, kWidth}},
               {"model.layers.0.mlp.up_proj.weight", {kInner, kWidth}},
               {"model.layers.0.mlp.down_proj.weight", {kWidth, kInner}},
               {"model.norm.weight", {kWidth, 0}},
               {"lm_head.weight", {kVocabulary, kWidth}}};
enum { kWeights = sizeof weights / sizeof weights[0] };

static tenon_status* add_weight(tenon_model_builder* builder, int i, uint32_t* out_index) {
  const int is_vector = weights[i].shape[1] == 0;
  const tenon_parameter_spec spec = {.struct_size = sizeof spec,
                                     .name = weights[i].name,
                                     .shape = weights[i].shape,
                                     .ndim = is_vector ? 1 : 2,
                                     .dtype = TENON_CLASS_PARAM,
                                     .flags = is_vector ? TENON_PARAM_NO_DECAY : 0,
                                     .init = is_vector ? TENON_INIT_ONES : TENON_INIT_NORMAL,
                                     .init_b = 0.02};
  return builder->add_parameter(builder, &spec, out_index);
}

static tenon_status* describe(void* self, tenon_model_builder* builder) {
  static const tenon_axis axes[] = {{"B", -1}, {"T", -1}, {NULL, kVocabulary}};
  static const int64_t table[] = {2, kPositions, kHalf};
  const tenon_value_spec input = {.struct_size = sizeof input,
                                  .name = "input_ids",
                                  .axes = axes,
                                  .num_axes = 2,
                                  .dtype = TENON_I64,
                                  .source_kind = TENON_SOURCE_BATCH};
  const tenon_value_spec output = {.struct_size = sizeof output,
                                   .name = "logits",
                                   .axes = axes,
                                   .num_axes = 3,
                                   .dtype = TENON_CLASS_COMPUTE,
                                   .source_kind = TENON_SOURCE_BLOCK};
  const tenon_buffer_spec buffer = {
      sizeof buffer, "rotary", table, 3, TENON_F32, TENON_BUFFER_CONSTANT};
  uint32_t ids = 0, logits = 0, rotary = 0, block = 0, parameters[kWeights] = {0};
  tenon_status* status = builder->add_value(builder, &input, &ids);
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
                                    .flags = TENON_BLOCK_CONTEXT,
                                    .inputs = &ids,
                                    .num_inputs = 1,
                                    .outputs = &logits,
                                    .num_outputs = 1,
                                    .parameters = parameters,
                                    .num_parameters = kWeights,
                                    .buffers = &rotary,
                                    .num_buffers = 1};
  (void)self;
  return status == NULL ? builder->add_block(builder, &decoder, &block) : status;
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
    .type = "c_decoder",
    .interface_id = TENON_MODEL_ID,
    .table = &table,
    .summary = "One layer of Llama in plain C",
    .options_schema = "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {}}",
    .create = create,
    .destroy = destroy};

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
