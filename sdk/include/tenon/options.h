/* SPDX-License-Identifier: Apache-2.0
 *
 * A component's options, as its recipe gives them: already validated against the component's
 * schema, with every default filled in. Values are found by JSON pointer ("/lr", "/betas/0"; "" is
 * the whole). Options live until `create` returns; copy what is needed later. */
#ifndef TENON_OPTIONS_H
#define TENON_OPTIONS_H

#include "host.h"
#include "status.h"

TENON_C_BEGIN

typedef struct tenon_options tenon_options;

enum {
  TENON_OPTION_ABSENT = 0,
  TENON_OPTION_NULL = 1,
  TENON_OPTION_BOOL = 2,
  TENON_OPTION_INT = 3,
  TENON_OPTION_DOUBLE = 4,
  TENON_OPTION_STRING = 5,
  TENON_OPTION_LIST = 6,
  TENON_OPTION_OBJECT = 7
};

/* A component that the host made because an option named it (schema key "x-tenon-component"). The
 * host keeps it alive longer than the component that asked for it. */
typedef struct tenon_component_ref {
  size_t struct_size;
  const char* interface_id; /* "tenon.tokenizer/1": what `table` points to */
  const void* table;
  void* self;
} tenon_component_ref;
TENON_SEAL(tenon_component_ref, self);

#define TENON_OPTIONS_ID "tenon.options/1"

/* All: Threads [any]; Errors TENON_NOT_FOUND if nothing is there, TENON_INVALID if it has another
 * type; the message names component and pointer. Strings are borrowed from the options. Since 0.1.
 */
typedef struct tenon_options_api {
  size_t struct_size;
  uint32_t (*kind)(const tenon_options* options, const char* pointer);
  tenon_status* (*get_bool)(const tenon_options* options, const char* pointer, bool* out);
  tenon_status* (*get_int)(const tenon_options* options, const char* pointer, int64_t* out);
  tenon_status* (*get_double)(const tenon_options* options,
                              const char* pointer,
                              double* out); /* ints too */
  tenon_status* (*get_string)(const tenon_options* options,
                              const char* pointer,
                              const char** out_ref);
  /* Number of elements of a list, of members of an object. */
  tenon_status* (*get_count)(const tenon_options* options, const char* pointer, size_t* out);
  /* Name of the i-th member of an object, in the order of the recipe. */
  tenon_status* (*get_key)(const tenon_options* options,
                           const char* pointer,
                           size_t i,
                           const char** out_ref);
  /* The value as JSON text. */
  tenon_status* (*get_json)(const tenon_options* options,
                            const char* pointer,
                            const char** out_ref);
  tenon_status* (*get_component)(const tenon_options* options,
                                 const char* pointer,
                                 tenon_component_ref* out);
} tenon_options_api;

TENON_SEAL(tenon_options_api, get_component);
TENON_SLOT(tenon_options_api, kind, 0);
TENON_SLOT(tenon_options_api, get_component, 8);

TENON_C_END
#endif
