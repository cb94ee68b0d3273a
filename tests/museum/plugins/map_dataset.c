/* SPDX-License-Identifier: Apache-2.0
 *
 * A map-style dataset of made samples, which are the same in every run. */
#include "museum.h"

static tenon_status* create(const tenon_host* host,
                            const tenon_create_args* args,
                            void** out_self) {
  int64_t samples = 0;
  void* self = NULL;
  MUSEUM_TRY(museum_create(host, args, &self));
  tenon_status* const status =
      ((museum*)self)->options->get_int(args->options, "/samples", &samples);
  if (status != NULL) {
    museum_destroy(self);
    return status;
  }
  ((museum*)self)->counts[0] = samples;
  *out_self = self;
  return NULL;
}

static tenon_status* describe(void* self, tenon_dataset_info* out) {
  out->style = TENON_DATASET_MAP;
  return museum_fields(self, out);
}

static tenon_status* size(void* self, const tenon_window* window, int64_t* out) {
  (void)window;
  *out = ((museum*)self)->counts[0];
  return NULL;
}

static tenon_status* read_samples(void* opaque,
                                  const tenon_exec* exec,
                                  const tenon_read_args* args) {
  const museum* const self = opaque;
  float* features = NULL;
  int64_t* labels = NULL;
  if (TENON_HAS(tenon_exec, exec, stop_requested) && exec->stop_requested(exec)) {
    return MUSEUM_FAIL(self, TENON_CANCELLED, "the run is to stop");
  }
  MUSEUM_TRY(museum_add_fields(args->writer, (int64_t)args->num_indices, &features, &labels));
  for (size_t i = 0; i < args->num_indices; ++i) {
    museum_sample(args->indices[i], features + i * kFeatures, labels + i);
  }
  return NULL;
}

static const tenon_dataset table = {
    .struct_size = sizeof table, .describe = describe, .size = size, .read = read_samples};

static const tenon_component component = {
    .struct_size = sizeof component,
    .kind = "dataset",
    .type = "museum_map",
    .interface_id = TENON_DATASET_ID,
    .table = &table,
    .summary = "made samples, by index",
    .options_schema =
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": "
        "{\"samples\": {\"type\": \"integer\", \"minimum\": 1, \"default\": 10}}}",
    .create = create,
    .destroy = museum_destroy};

MUSEUM_PLUGIN("map_dataset", "dataset:museum_map", component);
