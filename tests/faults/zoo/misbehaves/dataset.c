/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets of `x` [B, 4] f32 and `labels` [B] i64: `bad_map` with 24 samples, and `bad_stream` with
 * two shards of 12. A fault changes what describe() declares, the number of samples, or the reads
 * from number BAD_STEP on. */
#include <stdlib.h>
#include <string.h>

#include "misbehaves.h"

enum { kShardSize = 12, kNumShards = 2 };

typedef struct DatasetFault {
  const char* name;
  void (*change)(tenon_dataset_info* info, tenon_field_spec* fields);
  int64_t size; /* -1: as it is */
  tenon_status* (*write)(tenon_batch_writer* writer, int64_t num_samples);
} DatasetFault;

/* The instance of either dataset. The recipe has one loader thread, so reads are never concurrent.
 */
typedef struct Dataset {
  Instance head;
  tenon_field_spec fields[2];
  int64_t cursors[kNumShards];
} Dataset;

/* ---- the good batch ---- */

static tenon_status* write_x(tenon_batch_writer* writer, int64_t num_samples) {
  const int64_t shape[] = {num_samples, 4};
  void* data = NULL;
  RETURN_IF_FAILED(writer->add(writer, 0, 2, shape, &data));
  for (int64_t i = 0; i < 4 * num_samples; ++i) {
    ((float*)data)[i] = (float)(i % 7) / 7;
  }
  return NULL;
}

static tenon_status* write_labels(tenon_batch_writer* writer, int64_t num_samples) {
  void* data = NULL;
  RETURN_IF_FAILED(writer->add(writer, 1, 1, &num_samples, &data));
  for (int64_t i = 0; i < num_samples; ++i) {
    ((int64_t*)data)[i] = i % 3;
  }
  return NULL;
}

static tenon_status* write_fields(tenon_batch_writer* writer, int64_t num_samples) {
  RETURN_IF_FAILED(write_x(writer, num_samples));
  return write_labels(writer, num_samples);
}

static tenon_status* write_batch(tenon_batch_writer* writer, int64_t num_samples) {
  RETURN_IF_FAILED(write_fields(writer, num_samples));
  return writer->set_counts(writer, num_samples, 0);
}

/* ---- faults of describe ---- */

static void unknown_field_flags(tenon_dataset_info* info, tenon_field_spec* fields) {
  (void)info;
  fields[0].flags = 1u << 9;
}

static void field_twice(tenon_dataset_info* info, tenon_field_spec* fields) {
  (void)info;
  fields[1].name = "x";
}

static void four_billion_shards(tenon_dataset_info* info, tenon_field_spec* fields) {
  (void)fields;
  info->num_shards = UINT32_MAX;
}

/* ---- faults of reads ---- */

static tenon_status* count_one_more(tenon_batch_writer* writer, int64_t num_samples) {
  RETURN_IF_FAILED(write_fields(writer, num_samples));
  return writer->set_counts(writer, num_samples + 1, 0);
}

static tenon_status* count_below_zero(tenon_batch_writer* writer, int64_t num_samples) {
  RETURN_IF_FAILED(write_fields(writer, num_samples));
  return writer->set_counts(writer, -1, -1);
}

static tenon_status* write_x_twice(tenon_batch_writer* writer, int64_t num_samples) {
  RETURN_IF_FAILED(write_x(writer, num_samples));
  return write_batch(writer, num_samples);
}

static tenon_status* write_field_99(tenon_batch_writer* writer, int64_t num_samples) {
  void* data = NULL;
  RETURN_IF_FAILED(write_batch(writer, num_samples));
  return writer->add(writer, 99, 1, &num_samples, &data);
}

static tenon_status* write_no_labels(tenon_batch_writer* writer, int64_t num_samples) {
  RETURN_IF_FAILED(write_x(writer, num_samples));
  return writer->set_counts(writer, num_samples, 0);
}

static tenon_status* write_five_columns(tenon_batch_writer* writer, int64_t num_samples) {
  const int64_t shape[] = {num_samples, 5};
  void* data = NULL;
  return writer->add(writer, 0, 2, shape, &data);
}

/* More bytes than any address space has. */
static tenon_status* write_huge_batch(tenon_batch_writer* writer, int64_t num_samples) {
  const int64_t shape[] = {INT64_C(1) << 46, 4};
  void* data = NULL;
  (void)num_samples;
  return writer->add(writer, 0, 2, shape, &data);
}

static tenon_status* write_garbage_tensor(tenon_batch_writer* writer, int64_t num_samples) {
  (void)num_samples;
  return writer->add_tensor(writer, 0, (tenon_tensor*)(uintptr_t)0x5a50);
}

static tenon_status* crash_in_read(tenon_batch_writer* writer, int64_t num_samples) {
  (void)writer;
  (void)num_samples;
  crash();
  return NULL;
}

static tenon_status* hang_in_read(tenon_batch_writer* writer, int64_t num_samples) {
  (void)writer;
  (void)num_samples;
  hang();
  return NULL;
}

static tenon_status* write_nothing(tenon_batch_writer* writer, int64_t num_samples) {
  (void)num_samples;
  return writer->set_counts(writer, 0, 0);
}

static tenon_status* position_of_two_mib(tenon_batch_writer* writer, int64_t num_samples) {
  static const char position[2 << 20];
  RETURN_IF_FAILED(write_batch(writer, num_samples));
  return writer->set_position(writer, position, sizeof(position));
}

/* The next read uses the writer of this one. */
static tenon_status* writer_kept(tenon_batch_writer* writer, int64_t num_samples) {
  static tenon_batch_writer* kept = NULL;
  tenon_batch_writer* const before = kept;
  kept = writer;
  if (before != NULL) {
    RETURN_IF_FAILED(before->set_counts(before, num_samples, 0));
  }
  return write_batch(writer, num_samples);
}

static const tenon_host* host_of_reads;

static tenon_status* metric_added(tenon_batch_writer* writer, int64_t num_samples) {
  const tenon_metrics_api* metrics = host_of_reads->get_interface(host_of_reads, TENON_METRICS_ID);
  RETURN_IF_FAILED(metrics->add(host_of_reads, "zoo/samples", 1, 1));
  return write_batch(writer, num_samples);
}

static const DatasetFault kMapFaults[] = {
    {"", NULL, -1, NULL},
    {"unknown_field_flags", unknown_field_flags, -1, NULL},
    {"field_twice", field_twice, -1, NULL},
    {"size_below_zero", NULL, -7, NULL},
    {"count_one_more", NULL, -1, count_one_more},
    {"count_below_zero", NULL, -1, count_below_zero},
    {"count_nothing", NULL, -1, write_fields},
    {"write_x_twice", NULL, -1, write_x_twice},
    {"write_field_99", NULL, -1, write_field_99},
    {"write_no_labels", NULL, -1, write_no_labels},
    {"write_five_columns", NULL, -1, write_five_columns},
    {"write_garbage_tensor", NULL, -1, write_garbage_tensor},
    {"crash_in_read", NULL, -1, crash_in_read},
    {"hang_in_read", NULL, -1, hang_in_read},
    {"writer_kept", NULL, -1, writer_kept},
    {"metric_added", NULL, -1, metric_added},
};

static const DatasetFault kStreamFaults[] = {
    {"", NULL, -1, NULL},
    {"four_billion_shards", four_billion_shards, -1, NULL},
    {"count_one_more", NULL, -1, count_one_more},
    {"write_nothing", NULL, -1, write_nothing},
    {"no_position", NULL, -1, write_batch},
    {"position_of_two_mib", NULL, -1, position_of_two_mib},
    {"write_huge_batch", NULL, -1, write_huge_batch},
};

/* ---- both components ---- */

static const DatasetFault* fault_of(const Dataset* self) {
  return self->head.fault;
}

static tenon_status* create(const tenon_host* host,
                            const tenon_create_args* args,
                            const FaultList* list,
                            void** out_self) {
  void* head = NULL;
  RETURN_IF_FAILED(create_instance(host, args, list, &head));
  Dataset* self = calloc(1, sizeof(*self));
  tenon_status* failed = NULL;
  if (self != NULL) {
    self->head = *(const Instance*)head;
    *out_self = self;
  } else {
    failed = fail(head, TENON_OUT_OF_MEMORY, "no memory for a dataset");
  }
  free(head);
  return failed;
}

static tenon_status* describe(Dataset* self, tenon_dataset_info* out, uint32_t style) {
  static const tenon_axis x_axes[] = {{"B", -1}, {"D", 4}};
  static const tenon_axis label_axes[] = {{"B", -1}};
  self->fields[0] = (tenon_field_spec){.struct_size = sizeof(tenon_field_spec),
                                       .name = "x",
                                       .axes = x_axes,
                                       .num_axes = 2,
                                       .dtype = TENON_F32};
  self->fields[1] = (tenon_field_spec){.struct_size = sizeof(tenon_field_spec),
                                       .name = "labels",
                                       .axes = label_axes,
                                       .num_axes = 1,
                                       .dtype = TENON_I64};
  out->style = style;
  out->num_shards = kNumShards;
  out->fields_ref = self->fields;
  out->num_fields = 2;
  if (fault_of(self)->change != NULL) {
    fault_of(self)->change(out, self->fields);
  }
  return NULL;
}

static int is_bad_read(Dataset* self) {
  return ++self->head.num_calls >= BAD_STEP && fault_of(self)->write != NULL;
}

/* ---- bad_map ---- */

static tenon_status* describe_map(void* self, tenon_dataset_info* out) {
  return describe(self, out, TENON_DATASET_MAP);
}

static tenon_status* size(void* self, const tenon_window* window, int64_t* out) {
  (void)window;
  *out = fault_of(self)->size != -1 ? fault_of(self)->size : kNumShards * kShardSize;
  return NULL;
}

static tenon_status* read_map(void* self, const tenon_exec* exec, const tenon_read_args* args) {
  const int64_t num_samples = (int64_t)args->num_indices;
  host_of_reads = exec->host;
  return is_bad_read(self) ? fault_of(self)->write(args->writer, num_samples)
                           : write_batch(args->writer, num_samples);
}

static const tenon_dataset kMapTable = {
    .struct_size = sizeof(tenon_dataset), .describe = describe_map, .size = size, .read = read_map};

static tenon_status* create_map(const tenon_host* host,
                                const tenon_create_args* args,
                                void** out_self) {
  static const FaultList list = FAULT_LIST(kMapFaults);
  return create(host, args, &list, out_self);
}

const tenon_component bad_map_component =
    COMPONENT("dataset", "bad_map", TENON_DATASET_ID, kMapTable, create_map, OPTIONS_SCHEMA(""));

/* ---- bad_stream ---- */

static tenon_status* describe_stream(void* self, tenon_dataset_info* out) {
  return describe(self, out, TENON_DATASET_STREAM);
}

static tenon_status* next(void* opaque, const tenon_exec* exec, tenon_next_args* args) {
  Dataset* self = opaque;
  int64_t* cursor = &self->cursors[args->shard];
  const int64_t left = kShardSize - *cursor;
  const int64_t num_samples = left < args->max_samples ? left : args->max_samples;
  (void)exec;
  if (is_bad_read(self)) {
    return fault_of(self)->write(args->writer, num_samples);
  }
  *cursor += num_samples;
  args->out_end = *cursor == kShardSize;
  RETURN_IF_FAILED(write_batch(args->writer, num_samples));
  return args->writer->set_position(args->writer, cursor, sizeof(*cursor));
}

static tenon_status* seek(void* opaque, const tenon_exec* exec, const tenon_seek_args* args) {
  Dataset* self = opaque;
  int64_t* cursor = &self->cursors[args->shard];
  (void)exec;
  *cursor = 0;
  if (args->position != NULL && args->position_size == sizeof(*cursor)) {
    memcpy(cursor, args->position, sizeof(*cursor));
  }
  return NULL;
}

static tenon_status* reset(void* opaque, uint64_t epoch) {
  Dataset* self = opaque;
  (void)epoch;
  memset(self->cursors, 0, sizeof(self->cursors));
  return NULL;
}

static const tenon_dataset kStreamTable = {.struct_size = sizeof(tenon_dataset),
                                           .describe = describe_stream,
                                           .next = next,
                                           .seek = seek,
                                           .reset = reset};

static tenon_status* create_stream(const tenon_host* host,
                                   const tenon_create_args* args,
                                   void** out_self) {
  static const FaultList list = FAULT_LIST(kStreamFaults);
  return create(host, args, &list, out_self);
}

const tenon_component bad_stream_component = COMPONENT(
    "dataset", "bad_stream", TENON_DATASET_ID, kStreamTable, create_stream, OPTIONS_SCHEMA(""));
