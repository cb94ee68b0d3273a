/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream-style dataset of two shards over the made samples: shard s has the samples s, s + 2 and
 * so on. The position of a shard is the number of samples read from it. */
#include "museum.h"

enum { kShards = 2, kSamplesOfShard = 7 };

static tenon_status* describe(void* self, tenon_dataset_info* out) {
  out->style = TENON_DATASET_STREAM;
  out->num_shards = kShards;
  return museum_fields(self, out);
}

static tenon_status* next(void* opaque, const tenon_exec* exec, tenon_next_args* args) {
  museum* const self = opaque;
  float* features = NULL;
  int64_t* labels = NULL;
  (void)exec;
  int64_t position = self->counts[args->shard];
  const int64_t left = kSamplesOfShard - position;
  const int64_t n = left < args->max_samples ? left : args->max_samples;
  MUSEUM_TRY(museum_add_fields(args->writer, n, &features, &labels));
  for (int64_t i = 0; i < n; ++i) {
    museum_sample((position + i) * kShards + args->shard, features + i * kFeatures, labels + i);
  }
  position += n;
  self->counts[args->shard] = position;
  args->out_end = position == kSamplesOfShard;
  return args->writer->set_position(args->writer, &position, sizeof position);
}

static tenon_status* seek(void* opaque, const tenon_exec* exec, const tenon_seek_args* args) {
  museum* const self = opaque;
  int64_t position = 0;
  (void)exec;
  if (args->position != NULL) {
    if (args->position_size != sizeof position) {
      return MUSEUM_FAIL(self, TENON_INVALID, "a position has another size");
    }
    memcpy(&position, args->position, sizeof position);
  }
  self->counts[args->shard] = position;
  return NULL;
}

static tenon_status* reset(void* opaque, uint64_t epoch) {
  museum* const self = opaque;
  (void)epoch;
  self->counts[0] = 0;
  self->counts[1] = 0;
  return NULL;
}

static const tenon_dataset table = {
    .struct_size = sizeof table, .describe = describe, .next = next, .seek = seek, .reset = reset};

static const tenon_component component = {.struct_size = sizeof component,
                                          .kind = "dataset",
                                          .type = "museum_stream",
                                          .interface_id = TENON_DATASET_ID,
                                          .table = &table,
                                          .summary = "made samples, as a stream",
                                          .options_schema = MUSEUM_NO_OPTIONS,
                                          .create = museum_create,
                                          .destroy = museum_destroy};

MUSEUM_PLUGIN("stream_dataset", "dataset:museum_stream", component);
