/* SPDX-License-Identifier: Apache-2.0
 *
 * A component of each kind that sets no field and no function that headers with one field less
 * lack. It is built once for each struct that it gives to the host, with headers in which that
 * struct lacks its last field. OLDER_struct is then defined. With the headers of today it runs.
 *
 * Instances have no state, and what is in guarded memory lives as long as the process. */
#include "../plugins/guarded.h"

#define GUARDED(object) museum_guard(&(object), sizeof(object))

static const tenon_options_api* options;

static tenon_status* create(const tenon_host* host,
                            const tenon_create_args* args,
                            void** out_self) {
  static int instance;
  (void)host;
  (void)args;
  *out_self = &instance;
  return NULL;
}

static void destroy(void* self) {
  (void)self;
}

/* ---- dataset: tenon_field_spec, and tenon_component_ref for its tokenizer ---- */

static tenon_status* dataset_create(const tenon_host* host,
                                    const tenon_create_args* args,
                                    void** out_self) {
  const tenon_component_ref ref = {.struct_size = sizeof ref};
  MUSEUM_TRY(options->get_component(args->options, "/tokenizer", GUARDED(ref)));
  return create(host, args, out_self);
}

static tenon_status* dataset_describe(void* self, tenon_dataset_info* out) {
  static const tenon_axis axes[] = {{"B", -1}, {NULL, 3}};
  const tenon_field_spec field = {.struct_size = sizeof field,
                                  .name = "features",
                                  .axes = axes,
                                  .num_axes = 2,
                                  .dtype = TENON_F32};
  (void)self;
  out->style = TENON_DATASET_STREAM;
  out->num_shards = 1;
  out->fields_ref = GUARDED(field);
  out->num_fields = 1;
  return NULL;
}

static tenon_status* dataset_next(void* self, const tenon_exec* exec, tenon_next_args* args) {
  static const int64_t shape[] = {1, 3};
  void* data = NULL;
  (void)self;
  (void)exec;
  MUSEUM_TRY(args->writer->add(args->writer, 0, 2, shape, &data));
  memset(data, 0, sizeof(float) * 3);
  args->out_end = 1;
  MUSEUM_TRY(args->writer->set_position(args->writer, "", 1));
  return args->writer->set_counts(args->writer, 1, 0);
}

static tenon_status* dataset_seek(void* self, const tenon_exec* exec, const tenon_seek_args* args) {
  (void)self;
  (void)exec;
  (void)args;
  return NULL;
}

static tenon_status* dataset_reset(void* self, uint64_t epoch) {
  (void)self;
  (void)epoch;
  return NULL;
}

static const tenon_dataset dataset_table = {.struct_size = sizeof dataset_table,
                                            .describe = dataset_describe,
                                            .next = dataset_next,
                                            .seek = dataset_seek,
#ifndef OLDER_tenon_dataset
                                            .reset = dataset_reset
#endif
};

/* ---- model: tenon_value_spec, tenon_split, tenon_parameter_spec, tenon_buffer_spec and
 * tenon_block_spec ---- */

static tenon_status* model_describe(void* self, tenon_model_builder* builder) {
  static const uint32_t indices[] = {0, 1};
  static const int64_t shape[] = {3};
  const tenon_value_spec input = {
      .struct_size = sizeof input, .name = "features", .dtype = TENON_F32};
  const tenon_value_spec output = {.struct_size = sizeof output,
                                   .name = "output",
                                   .dtype = TENON_F32,
                                   .source_kind = TENON_SOURCE_BLOCK};
  const tenon_split split = {.struct_size = sizeof split,
                             .parts = shape,
                             .units = shape,
#ifndef OLDER_tenon_split
                             .num_parts = 1
#endif
  };
  const tenon_parameter_spec weight = {.struct_size = sizeof weight,
                                       .name = "weight",
                                       .shape = shape,
                                       .ndim = 1,
                                       .dtype = TENON_CLASS_PARAM,
                                       .init = TENON_INIT_ONES,
#ifndef OLDER_tenon_parameter_spec
                                       .split = GUARDED(split)
#endif
  };
  const tenon_buffer_spec zeros = {.struct_size = sizeof zeros,
                                   .name = "zeros",
                                   .shape = shape,
                                   .ndim = 1,
#ifndef OLDER_tenon_buffer_spec
                                   .dtype = TENON_F32
#endif
  };
  const tenon_block_spec block = {.struct_size = sizeof block,
                                  .name = "scale",
                                  .inputs = indices,
                                  .num_inputs = 1,
                                  .outputs = indices + 1,
                                  .num_outputs = 1,
                                  .parameters = indices,
                                  .num_parameters = 1};
  uint32_t index = 0;
  (void)self;
  (void)split;
  MUSEUM_TRY(builder->add_value(builder, GUARDED(input), &index));
  MUSEUM_TRY(builder->add_value(builder, GUARDED(output), &index));
  MUSEUM_TRY(builder->add_parameter(builder, GUARDED(weight), &index));
  MUSEUM_TRY(builder->add_buffer(builder, GUARDED(zeros), &index));
  return builder->add_block(builder, GUARDED(block), &index);
}

/* The operator's one result, a tensor. */
static tenon_status* call(const tenon_exec* exec,
                          const char* name,
                          const tenon_tensor* a,
                          const tenon_tensor* b,
                          tenon_tensor** out_own) {
  tenon_any args[] = {{.tag = TENON_ANY_TENSOR}, {.tag = TENON_ANY_TENSOR}};
  tenon_any result = {0};
  const tenon_op* op = NULL;
  size_t n = 1;
  args[0].v.tensor = (tenon_tensor*)a;
  args[1].v.tensor = (tenon_tensor*)b;
  MUSEUM_TRY(exec->ops->find(exec->host, name, &op));
  MUSEUM_TRY(exec->ops->call(exec->host, op, args, b == NULL ? 1 : 2, &result, &n));
  *out_own = result.v.tensor;
  return NULL;
}

static tenon_status* model_forward(void* self, const tenon_exec* exec, tenon_forward_args* args) {
  (void)self;
  return call(
      exec, "aten::mul.Tensor", args->inputs[0], args->parameters[0], &args->outputs_own[0]);
}

static tenon_status* model_fill_buffer(void* self,
                                       const tenon_exec* exec,
                                       const tenon_fill_buffer_args* args) {
  (void)self;
  (void)exec;
  (void)args;
  return NULL; /* zeros */
}

static const tenon_model model_table = {.struct_size = sizeof model_table,
                                        .describe = model_describe,
                                        .forward = model_forward,
                                        .fill_buffer = model_fill_buffer};

/* ---- loss: tenon_port and tenon_tensor_info; metric: tenon_metric_state_spec ---- */

static const tenon_port* output_port(void) {
  const tenon_port port = {
      .struct_size = sizeof port, .name = "output", .dtype = TENON_CLASS_FLOAT};
  return GUARDED(port);
}

static tenon_status* loss_describe(void* self, tenon_loss_info* out) {
  (void)self;
  out->ports_ref = output_port();
  out->num_ports = 1;
  return NULL;
}

static tenon_status* loss_count(void* self, const tenon_exec* exec, tenon_loss_count_args* args) {
  const tenon_tensor_info empty = {.struct_size = sizeof empty};
  tenon_tensor_info* const info = GUARDED(empty);
  (void)self;
  MUSEUM_TRY(exec->tensors->info(args->inputs[0], info));
  return exec->tensors->full(
      exec->host, TENON_F64, exec->device, 0, NULL, (double)info->numel, &args->out_count_own);
}

static tenon_status* loss_compute(void* self,
                                  const tenon_exec* exec,
                                  tenon_loss_compute_args* args) {
  (void)self;
  return call(exec, "aten::sum", args->inputs[0], NULL, &args->out_sum_own);
}

static const tenon_loss loss_table = {.struct_size = sizeof loss_table,
                                      .describe = loss_describe,
                                      .count = loss_count,
                                      .compute = loss_compute};

static tenon_status* metric_describe(void* self, tenon_metric_info* out) {
  static const char* const metrics[] = {"three"};
  static const int64_t shape[] = {1};
  const tenon_metric_state_spec state = {
      .struct_size = sizeof state, .name = "state", .shape = shape, .ndim = 1, .dtype = TENON_F64};
  (void)self;
  out->periods = TENON_PERIOD_STEP;
  out->ports_ref = output_port();
  out->num_ports = 1;
  out->states_ref = GUARDED(state);
  out->num_states = 1;
  out->metrics_ref = metrics;
  out->num_metrics = 1;
  return NULL;
}

static tenon_status* metric_update(void* self,
                                   const tenon_exec* exec,
                                   const tenon_metric_update_args* args) {
  (void)self;
  (void)exec;
  (void)args;
  return NULL;
}

static tenon_status* metric_compute(void* self,
                                    const tenon_exec* exec,
                                    const tenon_metric_compute_args* args) {
  (void)self;
  (void)exec;
  args->out_values[0] = 3;
  return NULL;
}

static const tenon_metric metric_table = {.struct_size = sizeof metric_table,
                                          .describe = metric_describe,
                                          .update = metric_update,
                                          .compute = metric_compute};

/* ---- optimizer: tenon_slot_spec ---- */

static tenon_status* optimizer_describe(void* self, tenon_optimizer_info* out) {
  const tenon_slot_spec slot = {
      .struct_size = sizeof slot, .name = "slot", .dtype = TENON_CLASS_PARAM};
  (void)self;
  out->slots_ref = GUARDED(slot);
  out->num_slots = 1;
  return NULL;
}

static tenon_status* optimizer_update(void* self,
                                      const tenon_exec* exec,
                                      const tenon_update_args* args) {
  (void)self;
  (void)exec;
  (void)args;
  return NULL;
}

static const tenon_optimizer optimizer_table = {.struct_size = sizeof optimizer_table,
                                                .describe = optimizer_describe,
#ifndef OLDER_tenon_optimizer
                                                .update = optimizer_update
#endif
};

/* ---- lr_scheduler and tokenizer: their tables ---- */

static tenon_status* scheduler_describe(void* self, tenon_lr_scheduler_info* out) {
  (void)self;
  (void)out;
  return NULL;
}

static tenon_status* scheduler_factor(void* self, tenon_lr_factor_args* args) {
  (void)self;
  args->out_factor = 1;
  return NULL;
}

static const tenon_lr_scheduler scheduler_table = {.struct_size = sizeof scheduler_table,
                                                   .describe = scheduler_describe,
#ifndef OLDER_tenon_lr_scheduler
                                                   .factor = scheduler_factor
#endif
};

static tenon_status* tokenizer_describe(void* self, tenon_tokenizer_info* out) {
  (void)self;
  out->vocab_size = 1;
  return NULL;
}

static tenon_status* tokenizer_encode(void* self, const tenon_encode_args* args) {
  (void)self;
  (void)args;
  return NULL;
}

static tenon_status* tokenizer_decode(void* self, const tenon_decode_args* args) {
  (void)self;
  (void)args;
  return NULL;
}

static const tenon_tokenizer tokenizer_table = {.struct_size = sizeof tokenizer_table,
                                                .describe = tokenizer_describe,
                                                .encode = tokenizer_encode,
#ifndef OLDER_tenon_tokenizer
                                                .decode = tokenizer_decode
#endif
};

/* ---- hook: tenon_parameter_view and tenon_lr_group; tenon_stateful ---- */

static tenon_status* hook_describe(void* self, tenon_hook_info* out) {
  (void)self;
  out->events = TENON_EVENT_BIT(TENON_EVENT_START);
  return NULL;
}

static tenon_status* hook_on_event(void* self, const tenon_event* event) {
  const tenon_parameter_view view = {.struct_size = sizeof view};
  const tenon_lr_group group = {.struct_size = sizeof group};
  (void)self;
  MUSEUM_TRY(event->api->get_parameter(event->run, 0, GUARDED(view)));
  return event->api->get_lr_group(event->run, 0, GUARDED(group));
}

static const tenon_hook hook_table = {.struct_size = sizeof hook_table,
                                      .describe = hook_describe,
#ifndef OLDER_tenon_hook
                                      .on_event = hook_on_event
#endif
};

static uint32_t hook_version(void* self) {
  (void)self;
  return 1;
}

static tenon_status* hook_snapshot(void* self, tenon_state_writer* writer) {
  (void)self;
  (void)writer;
  return NULL;
}

static tenon_status* hook_load(void* self, tenon_state_reader* reader) {
  (void)self;
  (void)reader;
  return NULL;
}

static const void* hook_extension(void* self, const char* id) {
  static const tenon_stateful stateful = {.struct_size = sizeof stateful,
                                          .version = hook_version,
                                          .snapshot = hook_snapshot,
#ifndef OLDER_tenon_stateful
                                          .load = hook_load
#endif
  };
  (void)self;
  return strcmp(id, TENON_STATEFUL_ID) == 0 ? GUARDED(stateful) : NULL;
}

TENON_MANIFEST("id=org.tenon.museum.older\nversion=1.0.0\nabi=" TENON_ABI_STRING
               "\nlane=stable\ncomponent=dataset:older\ncomponent=model:older\n"
               "component=loss:older\ncomponent=metric:older\ncomponent=optimizer:older\n"
               "component=lr_scheduler:older\ncomponent=tokenizer:older\n"
               "component=hook:older\n");

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  static const struct {
    const char* kind;
    const char* interface_id;
    const void* table;
  } kinds[] = {{"dataset", TENON_DATASET_ID, &dataset_table},
               {"model", TENON_MODEL_ID, &model_table},
               {"loss", TENON_LOSS_ID, &loss_table},
               {"metric", TENON_METRIC_ID, &metric_table},
               {"optimizer", TENON_OPTIMIZER_ID, &optimizer_table},
               {"lr_scheduler", TENON_LR_SCHEDULER_ID, &scheduler_table},
               {"tokenizer", TENON_TOKENIZER_ID, &tokenizer_table},
               {"hook", TENON_HOOK_ID, &hook_table}};
  options = args->host->get_interface(args->host, TENON_OPTIONS_ID);
  args->out_abi_minor = TENON_ABI_MINOR;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
    const int is_dataset = strcmp(kinds[i].kind, "dataset") == 0;
    const tenon_component component = {
        .struct_size = sizeof component,
        .kind = kinds[i].kind,
        .type = "older",
        .interface_id = kinds[i].interface_id,
        .table = museum_guard(kinds[i].table, *(const size_t*)kinds[i].table),
        .summary = "built with older headers",
        .options_schema = is_dataset ? "{\"type\": \"object\", \"properties\": {\"tokenizer\": "
                                       "{\"type\": \"object\", \"x-tenon-component\": "
                                       "\"tokenizer\"}}, \"required\": [\"tokenizer\"]}"
                                     : "{\"type\": \"object\", \"properties\": "
                                       "{\"lr\": {\"type\": \"number\", \"default\": 0.1}}}",
        .create = is_dataset ? dataset_create : create,
        .destroy = destroy,
        .get_extension = strcmp(kinds[i].kind, "hook") == 0 ? hook_extension : NULL};
    MUSEUM_TRY(args->register_component(args->registrar, GUARDED(component)));
  }
  return NULL;
}
