/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts the next token from the current one, in plain C: an embedding, a hidden layer and a
 * head. Operators of the host compute all of it, and autograd computes the gradients.
 *
 * Shapes   input_ids [B, T] i64, logits [B, T, kVocabulary] */
#include <tenon/tenon.h>

#include <stdlib.h>

enum { kVocabulary = 256, kMostResults = 8 };

typedef struct MyPlugin {
  int64_t width; /* features of the hidden layer */
} MyPlugin;

/* ---- what a block computes ---- */

/* The calls of one forward, with all their results. */
typedef struct Calls {
  const tenon_exec* exec;
  tenon_status* status; /* error of the first call that failed */
  tenon_any results[kMostResults];
  size_t num_results;
} Calls;

/* Calls an operator with tensors, unless an earlier call failed. Returns its first result. */
static const tenon_tensor* call(Calls* calls,
                                const char* name,
                                const tenon_tensor* const* tensors,
                                size_t num_tensors) {
  const tenon_exec* const exec = calls->exec;
  tenon_any args[4] = {{.tag = TENON_ANY_NONE}};
  tenon_any* const results = &calls->results[calls->num_results];
  size_t num_results = kMostResults - calls->num_results;
  const tenon_op* op = NULL;
  for (size_t i = 0; i < num_tensors; ++i) {
    args[i] = (tenon_any){.tag = TENON_ANY_TENSOR, .v.tensor = (tenon_tensor*)tensors[i]};
  }
  if (calls->status == NULL) {
    calls->status = exec->ops->find(exec->host, name, &op);
  }
  if (calls->status == NULL) {
    calls->status = exec->ops->call(exec->host, op, args, num_tensors, results, &num_results);
  }
  if (calls->status != NULL) {
    return NULL;
  }
  calls->num_results += num_results;
  return results->v.tensor;
}
#define CALL(name, ...)                      \
  call(&calls,                               \
       name,                                 \
       (const tenon_tensor*[]){__VA_ARGS__}, \
       sizeof((const tenon_tensor*[]){__VA_ARGS__}) / sizeof(const tenon_tensor*))

static tenon_status* forward(void* self, const tenon_exec* exec, tenon_forward_args* args) {
  Calls calls = {.exec = exec};
  const tenon_tensor* const* const w = args->parameters; /* in the order of `describe` */
  const tenon_tensor* const x = CALL("aten::embedding", w[0], args->inputs[0]);
  const tenon_tensor* const hidden = CALL("aten::tanh", CALL("aten::linear", x, w[1], w[2]));
  const tenon_tensor* const logits = CALL("aten::linear", hidden, w[3], w[4]);
  (void)self;
  args->outputs_own[0] = (tenon_tensor*)logits;
  for (size_t i = 0; i < calls.num_results; ++i) {
    if (calls.results[i].v.tensor != logits) {
      exec->tensors->release(calls.results[i].v.tensor);
    }
  }
  return calls.status;
}

/* ---- what the model consists of ---- */

static tenon_status* describe(void* self, tenon_model_builder* builder) {
  const int64_t width = ((const MyPlugin*)self)->width;
  const struct {
    const char* name;
    int64_t shape[2];
    size_t ndim;
    uint32_t init;
  } weights[] = {{"embed.weight", {kVocabulary, width}, 2, TENON_INIT_NORMAL},
                 {"hidden.weight", {width, width}, 2, TENON_INIT_NORMAL},
                 {"hidden.bias", {width, 0}, 1, TENON_INIT_ZEROS},
                 {"head.weight", {kVocabulary, width}, 2, TENON_INIT_NORMAL},
                 {"head.bias", {kVocabulary, 0}, 1, TENON_INIT_ZEROS}};
  enum { kWeights = sizeof weights / sizeof weights[0] };
  static const tenon_axis axes[] = {{"B", -1}, {"T", -1}, {NULL, kVocabulary}};
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
  uint32_t ids = 0, logits = 0, block = 0, parameters[kWeights] = {0};
  tenon_status* status = builder->add_value(builder, &input, &ids);
  if (status == NULL) {
    status = builder->add_value(builder, &output, &logits);
  }
  for (size_t i = 0; status == NULL && i < kWeights; ++i) {
    const tenon_parameter_spec spec = {.struct_size = sizeof spec,
                                       .name = weights[i].name,
                                       .shape = weights[i].shape,
                                       .ndim = weights[i].ndim,
                                       .dtype = TENON_CLASS_PARAM,
                                       .flags = weights[i].ndim == 1 ? TENON_PARAM_NO_DECAY : 0,
                                       .init = weights[i].init,
                                       .init_b = 0.1}; /* standard deviation */
    status = builder->add_parameter(builder, &spec, &parameters[i]);
  }
  const tenon_block_spec spec = {.struct_size = sizeof spec,
                                 .name = "net",
                                 .inputs = &ids,
                                 .num_inputs = 1,
                                 .outputs = &logits,
                                 .num_outputs = 1,
                                 .parameters = parameters,
                                 .num_parameters = kWeights};
  return status == NULL ? builder->add_block(builder, &spec, &block) : status;
}

static tenon_status* create(const tenon_host* host,
                            const tenon_create_args* args,
                            void** out_self) {
  const tenon_options_api* const options = host->get_interface(host, TENON_OPTIONS_ID);
  const tenon_status_api* const errors = host->get_interface(host, TENON_STATUS_ID);
  int64_t width = 0;
  tenon_status* const status = options->get_int(args->options, "/width", &width);
  if (status != NULL) {
    return status;
  }
  MyPlugin* const model = malloc(sizeof *model);
  if (model == NULL) {
    return errors->make(
        host, TENON_OUT_OF_MEMORY, "my_plugin.memory", "out of memory", __FILE__, __LINE__);
  }
  model->width = width;
  *out_self = model;
  return NULL;
}

static void destroy(void* self) {
  free(self);
}

static const tenon_model table = {
    .struct_size = sizeof table, .describe = describe, .forward = forward};

static const tenon_component component = {
    .struct_size = sizeof component,
    .kind = "model",
    .type = "my_plugin",
    .interface_id = TENON_MODEL_ID,
    .table = &table,
    .summary = "Predicts the next token from the current one, in plain C",
    .options_schema =
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {"
        "\"width\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 65536, \"default\": 64,"
        " \"description\": \"width of the hidden layer, in features\"}}}",
    .create = create,
    .destroy = destroy};

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
