/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of the museum's model: two blocks, with a split on a parameter and a state buffer. */
#ifndef TENON_MUSEUM_MODEL_GRAPH_H
#define TENON_MUSEUM_MODEL_GRAPH_H

#include "museum.h"

enum { kBody, kHead };

/* The functions of the builder take one guarded spec each. */
#define ADD(self, builder, function, spec, out_index)                        \
  do {                                                                       \
    MUSEUM_TRY(museum_keep(self, 0, &(spec), sizeof(spec)));                 \
    MUSEUM_TRY((builder)->function(builder, (self)->guarded[0], out_index)); \
  } while (0)

static inline tenon_status* describe_values(museum* self,
                                            tenon_model_builder* builder,
                                            uint32_t* out) {
  static const tenon_axis features[] = {{"B", -1}, {NULL, kFeatures}};
  static const tenon_axis hidden[] = {{"B", -1}, {NULL, kHidden}};
  static const tenon_axis logits[] = {{"B", -1}, {NULL, kClasses}};
  static const tenon_axis* const axes[] = {features, hidden, logits};
  static const char* const names[] = {"features", "hidden", "logits"};
  for (uint32_t i = 0; i < 3; ++i) {
    const tenon_value_spec spec = {
        .struct_size = sizeof spec,
        .name = names[i],
        .axes = axes[i],
        .num_axes = 2,
        .dtype = i == 0 ? (uint32_t)TENON_F32 : (uint32_t)TENON_CLASS_COMPUTE,
        .source_kind = i == 0 ? TENON_SOURCE_BATCH : TENON_SOURCE_BLOCK};
    ADD(self, builder, add_value, spec, &out[i]);
  }
  return NULL;
}

static inline tenon_status* describe_parameters(museum* self,
                                                tenon_model_builder* builder,
                                                uint32_t* out) {
  static const int64_t parts[] = {kHidden};
  static const int64_t units[] = {2};
  const tenon_split split = {
      .struct_size = sizeof split, .axis = 0, .parts = parts, .units = units, .num_parts = 1};
  static const char* const names[] = {"body.weight", "body.bias", "head.weight", "head.bias"};
  static const int64_t shapes[][2] = {{kHidden, kFeatures}, {kHidden}, {kClasses, kHidden}, {3}};
  MUSEUM_TRY(museum_keep(self, 1, &split, sizeof split));
  for (uint32_t i = 0; i < 4; ++i) {
    const int is_bias = i % 2 == 1;
    const tenon_parameter_spec spec = {.struct_size = sizeof spec,
                                       .name = names[i],
                                       .shape = shapes[i],
                                       .ndim = is_bias ? 1 : 2,
                                       .dtype = TENON_CLASS_PARAM,
                                       .flags = is_bias ? TENON_PARAM_NO_DECAY : 0,
                                       .init = i < 2     ? TENON_INIT_MODULE
                                               : is_bias ? TENON_INIT_ZEROS
                                                         : TENON_INIT_CONSTANT,
                                       .init_a = 0.25,
                                       .split = i == 0 ? self->guarded[1] : NULL};
    ADD(self, builder, add_parameter, spec, &out[i]);
  }
  return NULL;
}

static inline tenon_status* museum_describe_graph(void* opaque, tenon_model_builder* builder) {
  museum* const self = opaque;
  static const int64_t shape[] = {kHidden};
  uint32_t values[3];
  uint32_t parameters[4];
  uint32_t buffer = 0;
  uint32_t block = 0;
  MUSEUM_TRY(describe_values(self, builder, values));
  MUSEUM_TRY(describe_parameters(self, builder, parameters));
  const tenon_buffer_spec mean = {.struct_size = sizeof mean,
                                  .name = "head.mean",
                                  .shape = shape,
                                  .ndim = 1,
                                  .dtype = TENON_F32,
                                  .kind = TENON_BUFFER_STATE};
  ADD(self, builder, add_buffer, mean, &buffer);
  for (uint32_t i = kBody; i <= kHead; ++i) {
    const tenon_block_spec spec = {
        .struct_size = sizeof spec,
        .name = i == kBody ? "body" : "head",
        .flags = i == kBody ? TENON_BLOCK_MATERIALIZED : TENON_BLOCK_HAND_WRITTEN,
        .inputs = &values[i],
        .num_inputs = 1,
        .outputs = &values[i + 1],
        .num_outputs = 1,
        .parameters = &parameters[2 * i],
        .num_parameters = 2,
        .buffers = &buffer,
        .num_buffers = i == kBody ? 0 : 1};
    ADD(self, builder, add_block, spec, &block);
  }
  return NULL;
}

#endif
