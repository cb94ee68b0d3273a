/* SPDX-License-Identifier: Apache-2.0
 *
 * A linear model of one block: `logits` [B, 3] from `x` [B, 4]. A fault changes one of its four
 * declarations, or what the block returns. */
#include <string.h>

#include "misbehaves.h"

typedef struct Declarations {
  tenon_value_spec x;
  tenon_value_spec logits;
  tenon_parameter_spec weight;
  tenon_block_spec block;
} Declarations;

typedef struct ModelFault {
  const char* name;
  void (*change)(Declarations* d);
  tenon_status* (*forward)(const Instance* self, const tenon_exec* exec, tenon_forward_args* args);
} ModelFault;

/* Indices of the builder, in the order of describe(). */
static const uint32_t kX[] = {0};
static const uint32_t kLogits[] = {1};
static const uint32_t kWeight[] = {0};

/* ---- faults of describe ---- */

static void value_of_no_size(Declarations* d) {
  d->x.struct_size = 0;
}

static void parameter_of_huge_size(Declarations* d) {
  d->weight.struct_size = (size_t)1 << 40;
}

static void block_of_odd_size(Declarations* d) {
  d->block.struct_size = sizeof(tenon_block_spec) + 3;
}

static void index_out_of_range(Declarations* d) {
  static const uint32_t inputs[] = {77};
  d->block.inputs = inputs;
}

static void cycle(Declarations* d) {
  d->block.inputs = kLogits;
}

static void negative_size(Declarations* d) {
  static const int64_t shape[] = {3, -4};
  d->weight.shape = shape;
}

static void unknown_block_flags(Declarations* d) {
  d->block.flags = 1u << 20;
}

static void name_that_is_no_text(Declarations* d) {
  d->weight.name = "wei\xffght";
}

static void name_with_slash(Declarations* d) {
  d->weight.name = "../../weight";
}

static void name_of_10000_bytes(Declarations* d) {
  static char name[10001];
  memset(name, 'n', sizeof(name) - 1);
  d->weight.name = name;
}

static void name_of_null(Declarations* d) {
  d->weight.name = NULL;
}

static void name_of_two(Declarations* d) {
  d->logits.name = "x";
}

/* ---- the block ---- */

static tenon_status* good_forward(const Instance* self,
                                  const tenon_exec* exec,
                                  tenon_forward_args* args) {
  const tenon_any operands[2] = {tensor_any(args->inputs[0]), tensor_any(args->parameters[0])};
  (void)self;
  return call_op(exec, "aten::linear", operands, 2, &args->outputs_own[0]);
}

static tenon_status* no_output(const Instance* self,
                               const tenon_exec* exec,
                               tenon_forward_args* args) {
  (void)self;
  (void)exec;
  (void)args;
  return NULL;
}

static tenon_status* output_of_i64(const Instance* self,
                                   const tenon_exec* exec,
                                   tenon_forward_args* args) {
  tenon_tensor_info x = {.struct_size = sizeof(x)};
  RETURN_IF_FAILED(self->tensors->info(args->inputs[0], &x));
  const int64_t shape[] = {x.shape_ref[0], 3};
  return self->tensors->full(
      self->host, TENON_I64, exec->device, 2, shape, 1, &args->outputs_own[0]);
}

static tenon_status* garbage_output(const Instance* self,
                                    const tenon_exec* exec,
                                    tenon_forward_args* args) {
  (void)self;
  (void)exec;
  args->outputs_own[0] = (tenon_tensor*)(uintptr_t)0x5a5a5a5a50;
  return NULL;
}

static const ModelFault kFaults[] = {
    {"", NULL, NULL},
    {"value_of_no_size", value_of_no_size, NULL},
    {"parameter_of_huge_size", parameter_of_huge_size, NULL},
    {"block_of_odd_size", block_of_odd_size, NULL},
    {"index_out_of_range", index_out_of_range, NULL},
    {"cycle", cycle, NULL},
    {"negative_size", negative_size, NULL},
    {"unknown_block_flags", unknown_block_flags, NULL},
    {"name_that_is_no_text", name_that_is_no_text, NULL},
    {"name_with_slash", name_with_slash, NULL},
    {"name_of_10000_bytes", name_of_10000_bytes, NULL},
    {"name_of_null", name_of_null, NULL},
    {"name_of_two", name_of_two, NULL},
    {"no_output", NULL, no_output},
    {"output_of_i64", NULL, output_of_i64},
    {"garbage_output", NULL, garbage_output},
};

/* ---- the component ---- */

static tenon_status* describe(void* opaque, tenon_model_builder* builder) {
  static const tenon_axis x_axes[] = {{"B", -1}, {NULL, 4}};
  static const tenon_axis logits_axes[] = {{"B", -1}, {NULL, 3}};
  static const int64_t shape[] = {3, 4};
  const Instance* self = opaque;
  const ModelFault* fault = self->fault;
  Declarations d = {.x = {.struct_size = sizeof(tenon_value_spec),
                          .name = "x",
                          .axes = x_axes,
                          .num_axes = 2,
                          .dtype = TENON_CLASS_COMPUTE,
                          .source_kind = TENON_SOURCE_BATCH},
                    .logits = {.struct_size = sizeof(tenon_value_spec),
                               .name = "logits",
                               .axes = logits_axes,
                               .num_axes = 2,
                               .dtype = TENON_CLASS_COMPUTE,
                               .source_kind = TENON_SOURCE_BLOCK},
                    .weight = {.struct_size = sizeof(tenon_parameter_spec),
                               .name = "weight",
                               .shape = shape,
                               .ndim = 2,
                               .dtype = TENON_CLASS_PARAM,
                               .init = TENON_INIT_NORMAL,
                               .init_b = 0.5},
                    .block = {.struct_size = sizeof(tenon_block_spec),
                              .name = "only",
                              .inputs = kX,
                              .num_inputs = 1,
                              .outputs = kLogits,
                              .num_outputs = 1,
                              .parameters = kWeight,
                              .num_parameters = 1}};
  uint32_t index = 0;
  if (fault->change != NULL) {
    fault->change(&d);
  }
  RETURN_IF_FAILED(builder->add_value(builder, &d.x, &index));
  RETURN_IF_FAILED(builder->add_value(builder, &d.logits, &index));
  RETURN_IF_FAILED(builder->add_parameter(builder, &d.weight, &index));
  return builder->add_block(builder, &d.block, &index);
}

static tenon_status* forward(void* opaque, const tenon_exec* exec, tenon_forward_args* args) {
  const Instance* self = opaque;
  const ModelFault* fault = self->fault;
  return fault->forward != NULL && exec->step >= BAD_STEP ? fault->forward(self, exec, args)
                                                          : good_forward(self, exec, args);
}

static const tenon_model kTable = {
    .struct_size = sizeof(tenon_model), .describe = describe, .forward = forward};

DEFINE_CREATE(create, kFaults)

const tenon_component bad_model_component =
    COMPONENT("model", "bad_model", TENON_MODEL_ID, kTable, create, OPTIONS_SCHEMA(""));
