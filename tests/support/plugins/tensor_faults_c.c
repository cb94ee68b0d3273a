/* SPDX-License-Identifier: Apache-2.0
 *
 * A model in plain C, x + tanh(n w1^T) w2^T of n = norm(x), whose inner width ranks of a tensor
 * group divide, with a backward by autograd. The first component is right; each of the others has
 * one mistake.
 *
 * Shapes   input_ids [B, T] i64, x and y [B, T, kWidth] */
#include <tenon/draft/tensor.h>
#include <tenon/tenon.h>

enum { kVocabulary = 16, kWidth = 8, kInner = 12, kMostResults = 16 };

typedef enum Mistake { kNone, kNoIn, kNoOut, kInside, kNumMistakes } Mistake;

/* ---- calls of operators ---- */

typedef struct Calls {
  const tenon_exec* exec;
  tenon_status* status; /* error of the first call that failed */
  tenon_any results[kMostResults];
  size_t num_results;
} Calls;

/* Calls an operator of one result, unless an earlier call failed. */
static tenon_any* call(Calls* calls, const char* name, const tenon_any* args, size_t num_args) {
  const tenon_exec* const exec = calls->exec;
  tenon_any* const result = &calls->results[calls->num_results];
  size_t num_results = 1;
  const tenon_op* op = NULL;
  if (calls->status == NULL) {
    calls->status = exec->ops->find(exec->host, name, &op);
  }
  if (calls->status == NULL) {
    calls->status = exec->ops->call(exec->host, op, args, num_args, result, &num_results);
  }
  calls->num_results += calls->status == NULL ? num_results : 0;
  return result;
}

static tenon_any tensor(const tenon_tensor* x) {
  return (tenon_any){.tag = TENON_ANY_TENSOR, .v.tensor = (tenon_tensor*)x};
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
  const Mistake mistake = *(const Mistake*)self;
  Calls calls = {.exec = exec};
  const tenon_tensor* const* const w = args->parameters;
  const tenon_any none = {.tag = TENON_ANY_NONE};
  const tenon_any* result = NULL;
  if (args->block == 0) {
    result = CALL("tenon::embedding", tensor(w[0]), tensor(args->inputs[0]));
  } else {
    const tenon_any x = tensor(args->inputs[0]);
    const tenon_any* normed = CALL("tenon::rms_norm", x, tensor(w[0]), number(1e-6));
    const tenon_any* in = mistake == kNoIn ? normed : CALL("tenon::tensor_in", *normed);
    const tenon_any* up = CALL("aten::linear", *in, tensor(w[1]), none);
    const tenon_any* inner = CALL("aten::tanh", *up);
    const tenon_any* part = CALL("aten::linear", *inner, tensor(w[2]), none);
    const tenon_any* change = mistake == kNoOut ? part : CALL("tenon::tensor_out", *part);
    result = CALL("aten::add.Tensor", x, *change);
  }
  args->outputs_own[0] = calls.status == NULL ? result->v.tensor : NULL;
  for (size_t i = 0; i < calls.num_results; ++i) {
    if (&calls.results[i] != result) {
      exec->tensors->release(calls.results[i].v.tensor);
    }
  }
  return calls.status;
}

/* ---- what the model consists of ---- */

static tenon_status* add_weight(tenon_model_builder* builder,
                                const char* name,
                                const int64_t shape[2],
                                int split_axis, /* -1: no split */
                                uint32_t flags,
                                uint32_t* out_index) {
  const int64_t units = kInner;
  const tenon_split split = {.struct_size = sizeof split,
                             .axis = (uint32_t)split_axis,
                             .parts = &units,
                             .units = &units,
                             .num_parts = 1};
  const tenon_parameter_spec spec = {.struct_size = sizeof spec,
                                     .name = name,
                                     .shape = shape,
                                     .ndim = shape[1] == 0 ? 1 : 2,
                                     .dtype = TENON_CLASS_PARAM,
                                     .flags = flags,
                                     .init = TENON_INIT_NORMAL,
                                     .init_b = 0.4,
                                     .split = split_axis < 0 ? NULL : &split};
  return builder->add_parameter(builder, &spec, out_index);
}

static tenon_status* add_value(tenon_model_builder* builder,
                               const char* name,
                               size_t num_axes,
                               uint32_t* out_index) {
  static const tenon_axis axes[] = {{"B", -1}, {"T", -1}, {NULL, kWidth}};
  const int is_input = num_axes == 2;
  const tenon_value_spec spec = {
      .struct_size = sizeof spec,
      .name = name,
      .axes = axes,
      .num_axes = num_axes,
      .dtype = is_input ? (uint32_t)TENON_I64 : (uint32_t)TENON_CLASS_COMPUTE,
      .source_kind = is_input ? TENON_SOURCE_BATCH : TENON_SOURCE_BLOCK};
  return builder->add_value(builder, &spec, out_index);
}

#define TRY(call)                  \
  do {                             \
    tenon_status* status = (call); \
    if (status != NULL) {          \
      return status;               \
    }                              \
  } while (0)

static tenon_status* describe(void* self, tenon_model_builder* builder) {
  static const int64_t table[] = {kVocabulary, kWidth};
  static const int64_t vector[] = {kWidth, 0};
  static const int64_t wide[] = {kInner, kWidth};
  static const int64_t narrow[] = {kWidth, kInner};
  const uint32_t inside = *(const Mistake*)self == kInside ? TENON_PARAM_INSIDE : 0;
  uint32_t ids = 0, x = 0, y = 0, block = 0, tokens = 0, w[3] = {0};
  TRY(add_value(builder, "input_ids", 2, &ids));
  TRY(add_value(builder, "x", 3, &x));
  TRY(add_value(builder, "y", 3, &y));
  TRY(add_weight(builder, "tokens", table, -1, 0, &tokens));
  TRY(add_weight(builder, "norm", vector, -1, inside, &w[0]));
  TRY(add_weight(builder, "up", wide, 0, 0, &w[1]));
  TRY(add_weight(builder, "down", narrow, 1, 0, &w[2]));
  const tenon_block_spec embed = {.struct_size = sizeof embed,
                                  .name = "embed",
                                  .inputs = &ids,
                                  .num_inputs = 1,
                                  .outputs = &x,
                                  .num_outputs = 1,
                                  .parameters = &tokens,
                                  .num_parameters = 1};
  const tenon_block_spec feed = {.struct_size = sizeof feed,
                                 .name = "feed",
                                 .flags = TENON_BLOCK_DIVISIBLE,
                                 .inputs = &x,
                                 .num_inputs = 1,
                                 .outputs = &y,
                                 .num_outputs = 1,
                                 .parameters = w,
                                 .num_parameters = 3};
  TRY(builder->add_block(builder, &embed, &block));
  return builder->add_block(builder, &feed, &block);
}

static const tenon_model table = {
    .struct_size = sizeof table, .describe = describe, .forward = forward};

/* An instance is the number of its mistake. */
static const Mistake mistakes[kNumMistakes] = {kNone, kNoIn, kNoOut, kInside};
#define CREATE(name, mistake)                                                   \
  static tenon_status* name(                                                    \
      const tenon_host* host, const tenon_create_args* args, void** out_self) { \
    (void)host;                                                                 \
    (void)args;                                                                 \
    *out_self = (void*)&mistakes[mistake];                                      \
    return NULL;                                                                \
  }
CREATE(create_right, kNone)
CREATE(create_no_in, kNoIn)
CREATE(create_no_out, kNoOut)
CREATE(create_inside, kInside)

static void destroy(void* self) {
  (void)self;
}

#define COMPONENT(name, function)                                                                \
  {                                                                                              \
    .struct_size = sizeof(tenon_component), .kind = "model", .type = name,                       \
    .interface_id = TENON_MODEL_ID, .table = &table, .summary = "for tests: a block in plain C", \
    .options_schema =                                                                            \
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {}}",           \
    .create = function, .destroy = destroy                                                       \
  }

static const tenon_component components[kNumMistakes] = {
    COMPONENT("tensor_c", create_right),
    COMPONENT("tensor_c_no_in", create_no_in),
    COMPONENT("tensor_c_no_out", create_no_out),
    COMPONENT("tensor_c_inside", create_inside)};

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  for (int i = 0; i < kNumMistakes; ++i) {
    TRY(args->register_component(args->registrar, &components[i]));
  }
  return NULL;
}
