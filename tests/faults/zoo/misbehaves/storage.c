/* SPDX-License-Identifier: Apache-2.0
 *
 * A storage that is empty and full: it lists no checkpoint, and takes none. */
#include <tenon/draft/storage.h>

#include "misbehaves.h"

typedef struct StorageFault {
  const char* name;
} StorageFault;

static const StorageFault kFaults[] = {{""}, {"keep_nothing"}};

static tenon_status* refuse(void* self) {
  return fail(self, TENON_IO, "no room for a checkpoint");
}

static tenon_status* connect_storage(void* self, const tenon_storage_connect_args* args) {
  (void)self;
  (void)args;
  return NULL;
}

static tenon_status* open_checkpoint(void* self, const tenon_storage_open_args* args) {
  (void)args;
  return refuse(self);
}

static tenon_status* create_file(void* self, tenon_storage_create_args* args) {
  (void)args;
  return refuse(self);
}

static tenon_status* write_file(void* self, const tenon_storage_write_args* args) {
  (void)args;
  return refuse(self);
}

static tenon_status* close_file(void* self, const tenon_storage_close_args* args) {
  (void)args;
  return refuse(self);
}

static tenon_status* commit(void* self, const tenon_storage_checkpoint_args* args) {
  (void)args;
  return refuse(self);
}

static tenon_status* give_up(void* self, const tenon_storage_checkpoint_args* args) {
  (void)self;
  (void)args;
  return NULL;
}

static tenon_status* list(void* self, const tenon_storage_list_args* args) {
  (void)self;
  (void)args;
  return NULL;
}

static tenon_status* list_files(void* self, const tenon_storage_list_args* args) {
  (void)self;
  (void)args;
  return NULL;
}

static tenon_status* file_size(void* self, tenon_storage_size_args* args) {
  (void)args;
  return refuse(self);
}

static tenon_status* read_file(void* self, const tenon_storage_read_args* args) {
  (void)args;
  return refuse(self);
}

static tenon_status* address(void* self, const tenon_storage_list_args* args) {
  (void)self;
  return args->sink(args->context, "nowhere:");
}

static const tenon_storage kTable = {.struct_size = sizeof(tenon_storage),
                                     .connect = connect_storage,
                                     .open = open_checkpoint,
                                     .create_file = create_file,
                                     .write = write_file,
                                     .close = close_file,
                                     .commit = commit,
                                     .abort = give_up,
                                     .list = list,
                                     .list_files = list_files,
                                     .file_size = file_size,
                                     .read = read_file,
                                     .remove = give_up,
                                     .address = address};

DEFINE_CREATE(create, kFaults)

const tenon_component bad_storage_component =
    COMPONENT("storage", "bad_storage", TENON_STORAGE_ID, kTable, create, OPTIONS_SCHEMA(""));
