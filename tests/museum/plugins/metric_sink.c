/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes records as lines of JSON to museum.jsonl in the run folder, so that the museum needs no
 * other plugin. It drops nothing if a run is resumed. */
#include "museum.h"

static tenon_status* open_file(void* opaque, const char* run_dir) {
  museum* const self = opaque;
  char path[4096];
  if (snprintf(path, sizeof path, "%s/museum.jsonl", run_dir) >= (int)sizeof path) {
    return MUSEUM_FAIL(self, TENON_INVALID, "the path of the run folder is too long");
  }
  self->file = fopen(path, "ae");
  return self->file != NULL ? NULL : MUSEUM_FAIL(self, TENON_IO, "museum.jsonl cannot be opened");
}

static tenon_status* flush(void* opaque) {
  const museum* const self = opaque;
  return fflush(self->file) == 0 ? NULL : MUSEUM_FAIL(self, TENON_IO, "museum.jsonl: no space");
}

static tenon_status* write_record(void* opaque, const tenon_metric_record* record) {
  const museum* const self = opaque;
  (void)fprintf(self->file, "{\"step\": %llu", (unsigned long long)record->step);
  for (size_t i = 0; i < record->count; ++i) {
    if (isfinite(record->values[i])) {
      (void)fprintf(self->file, ", \"%s\": %.9g", record->names[i], record->values[i]);
    }
  }
  (void)fputs("}\n", self->file);
  return flush(opaque);
}

static void destroy(void* opaque) {
  const museum* const self = opaque;
  if (self->file != NULL) {
    (void)fclose(self->file);
  }
  museum_destroy(opaque);
}

static const tenon_metric_sink table = {
    .struct_size = sizeof table, .open = open_file, .write = write_record, .flush = flush};

static const tenon_component component = {.struct_size = sizeof component,
                                          .kind = "metric_sink",
                                          .type = "museum_jsonl",
                                          .interface_id = TENON_METRIC_SINK_ID,
                                          .table = &table,
                                          .summary = "lines of JSON",
                                          .options_schema = MUSEUM_NO_OPTIONS,
                                          .create = museum_create,
                                          .destroy = destroy};

MUSEUM_PLUGIN("metric_sink", "metric_sink:museum_jsonl", component);
