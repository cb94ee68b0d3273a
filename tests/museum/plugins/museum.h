/* SPDX-License-Identifier: Apache-2.0
 *
 * What the plugins of the museum share: instances, access to tensors, samples and the entry. Each
 * struct and table that a plugin gives to the host is in guarded memory (guarded.h). */
#ifndef TENON_MUSEUM_H
#define TENON_MUSEUM_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* of guarded.h; before every system header */
#endif

#include <math.h>
#include <stdio.h>

#include "guarded.h"

enum { kFeatures = 3, kHidden = 4, kClasses = 3 };

/* An instance of each kind, with a few numbers whose meaning the kind defines. */
typedef struct museum {
  const tenon_host* host;
  const tenon_status_api* status;
  const tenon_options_api* options;
  void* guarded[2];       /* memory of museum_guard() that lives as long as the instance */
  tenon_tensor_info info; /* of the last museum_data() */
  FILE* file;             /* of the metric sink */
  double numbers[2];
  int64_t counts[2];
} museum;

#define MUSEUM_FAIL(self, code, text) \
  ((self)->status->make((self)->host, code, "museum.failed", text, __FILE__, __LINE__))

/* A `create` for kinds without options. */
static inline tenon_status* museum_create(const tenon_host* host,
                                          const tenon_create_args* args,
                                          void** out_self) {
  (void)args;
  museum* const self = calloc(1, sizeof(museum));
  const tenon_status_api* const status = host->get_interface(host, TENON_STATUS_ID);
  if (self == NULL) {
    return status->make(
        host, TENON_OUT_OF_MEMORY, "museum.memory", "out of memory", __FILE__, __LINE__);
  }
  self->host = host;
  self->status = status;
  self->options = host->get_interface(host, TENON_OPTIONS_ID);
  *out_self = self;
  return NULL;
}

static inline void museum_destroy(void* opaque) {
  museum* const self = opaque;
  museum_unguard(self->guarded[0]);
  museum_unguard(self->guarded[1]);
  free(self);
}

/* Keeps guarded memory for the instance. */
static inline tenon_status* museum_keep(museum* self, int i, const void* bytes_ref, size_t bytes) {
  museum_unguard(self->guarded[i]);
  self->guarded[i] = museum_guard(bytes_ref, bytes);
  return self->guarded[i] != NULL ? NULL : MUSEUM_FAIL(self, TENON_OUT_OF_MEMORY, "out of memory");
}

/* Reads where the elements of a contiguous CPU tensor are; self->info has its shape. */
static inline tenon_status* museum_data(museum* self,
                                        const tenon_exec* exec,
                                        const tenon_tensor* tensor,
                                        uint32_t dtype,
                                        void* out_data) {
  const tenon_tensor_info empty = {.struct_size = sizeof(tenon_tensor_info)};
  tenon_tensor_info* const info = museum_guard(&empty, sizeof empty);
  if (info == NULL) {
    return MUSEUM_FAIL(self, TENON_OUT_OF_MEMORY, "out of memory");
  }
  tenon_status* const status = exec->tensors->info(tensor, info);
  self->info = *info;
  museum_unguard(info);
  if (status != NULL) {
    return status;
  }
  if (self->info.dtype != dtype || self->info.device.type != TENON_CPU ||
      !self->info.is_contiguous) {
    return MUSEUM_FAIL(self, TENON_UNSUPPORTED, "a tensor has another dtype, device or layout");
  }
  memcpy(out_data, &self->info.data, sizeof(void*));
  return NULL;
}

/* Creates a tensor, which `out_data` points into. */
static inline tenon_status* museum_empty(museum* self,
                                         const tenon_exec* exec,
                                         uint32_t dtype,
                                         uint32_t ndim,
                                         const int64_t* shape,
                                         tenon_tensor** out_own,
                                         void* out_data) {
  MUSEUM_TRY(exec->tensors->empty(self->host, dtype, exec->device, ndim, shape, out_own));
  return museum_data(self, exec, *out_own, dtype, out_data);
}

/* Sample `i` of both datasets: the label is the index of the largest feature. */
static inline void museum_sample(int64_t i, float* features, int64_t* label) {
  *label = 0;
  for (int64_t f = 0; f < kFeatures; ++f) {
    features[f] = (float)((i * 7 + f * 5 + i * f) % 11 - 5) / 4.0F;
    *label = features[f] > features[*label] ? f : *label;
  }
}

/* Fills the fields of both datasets in: "features" f32 [B, 3] and "labels" i64 [B]. */
static inline tenon_status* museum_fields(museum* self, tenon_dataset_info* out) {
  static const tenon_axis axes[] = {{"B", -1}, {NULL, kFeatures}};
  const tenon_field_spec fields[] = {{.struct_size = sizeof(tenon_field_spec),
                                      .name = "features",
                                      .axes = axes,
                                      .num_axes = 2,
                                      .dtype = TENON_F32},
                                     {.struct_size = sizeof(tenon_field_spec),
                                      .name = "labels",
                                      .axes = axes,
                                      .num_axes = 1,
                                      .dtype = TENON_I64}};
  MUSEUM_TRY(museum_keep(self, 0, fields, sizeof fields));
  out->fields_ref = self->guarded[0];
  out->num_fields = 2;
  return NULL;
}

/* Adds both fields of a batch of n samples to the writer. */
static inline tenon_status* museum_add_fields(tenon_batch_writer* writer,
                                              int64_t n,
                                              float** out_features,
                                              int64_t** out_labels) {
  const int64_t shape[] = {n, kFeatures};
  void* data = NULL;
  MUSEUM_TRY(writer->add(writer, 0, 2, shape, &data));
  *out_features = data;
  MUSEUM_TRY(writer->add(writer, 1, 1, shape, &data));
  *out_labels = data;
  return writer->set_counts(writer, n, 0);
}

/* Registers one component, of which `component` and its table are copies in guarded memory. */
static inline tenon_status* museum_enter(tenon_entry_args* args, const tenon_component* component) {
  tenon_component copy = *component;
  copy.table = museum_guard(component->table, *(const size_t*)component->table);
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, museum_guard(&copy, sizeof copy));
}

/* Defines the manifest and the entry of a plugin with one component. */
#define MUSEUM_PLUGIN(name, kind_and_type, component)                                 \
  TENON_MANIFEST("id=org.tenon.museum." name "\nversion=1.0.0\nabi=" TENON_ABI_STRING \
                 "\nlane=stable\ncomponent=" kind_and_type "\n");                     \
  tenon_status* tenon_plugin_entry(tenon_entry_args* args) {                          \
    return museum_enter(args, &(component));                                          \
  }                                                                                   \
  TENON_STATIC_ASSERT(sizeof(component) == sizeof(tenon_component), "one component")

#define MUSEUM_NO_OPTIONS \
  "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {}}"

#endif
