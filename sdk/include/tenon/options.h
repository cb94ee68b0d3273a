/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives a component read access to its options from the recipe. The options are already validated
 * against the component's schema, and every default is filled in.
 *
 * Values are addressed by JSON pointer ("/lr", "/betas/0"); "" addresses the whole object. Options
 * live until `create` returns: copy the values you need later. */
#ifndef TENON_OPTIONS_H
#define TENON_OPTIONS_H

#include "host.h"
#include "status.h"

TENON_C_BEGIN

typedef struct tenon_options tenon_options;

/* Type of an option's value, as returned by `kind`. */
enum {
  TENON_OPTION_ABSENT = 0, /* there is no value at this pointer */
  TENON_OPTION_NULL = 1,
  TENON_OPTION_BOOL = 2,
  TENON_OPTION_INT = 3,
  TENON_OPTION_DOUBLE = 4,
  TENON_OPTION_STRING = 5,
  TENON_OPTION_LIST = 6,
  TENON_OPTION_OBJECT = 7
};

/* A component that the host created because an option names it (schema key "x-tenon-component"). It
 * outlives the component whose option it is. */
typedef struct tenon_component_ref {
  /* set by the caller */
  size_t struct_size;
  /* Interface that `table` implements, for example "tenon.tokenizer/1". */
  const char* interface_id;
  const void* table; /* function table of the nested component */
  void* self;        /* first argument of its functions */
} tenon_component_ref;
TENON_SEAL(tenon_component_ref, self);

#define TENON_OPTIONS_ID "tenon.options/1"

/* Service TENON_OPTIONS_ID. The tags below hold for every function. Error messages name the
 * component and the pointer.
 *
 * Errors   TENON_NOT_FOUND if there is no value at `pointer`, TENON_INVALID if it has another type
 * Threads  [any]
 * Owner    strings are borrowed from the options
 * Since    0.1 */
typedef struct tenon_options_api {
  size_t struct_size;
  /* Returns the type of a value, TENON_OPTION_*. It does not fail: an absent value gives
   * TENON_OPTION_ABSENT. */
  uint32_t (*kind)(const tenon_options* options, const char* pointer);
  /* Reads a boolean, as 0 or 1. */
  tenon_status* (*get_bool)(const tenon_options* options, const char* pointer, uint32_t* out);
  /* Reads an integer. A number that does not fit into 64 bits or has a fraction is TENON_INVALID.
   */
  tenon_status* (*get_int)(const tenon_options* options, const char* pointer, int64_t* out);
  /* Reads a number, integers included. */
  tenon_status* (*get_double)(const tenon_options* options, const char* pointer, double* out);
  /* Reads a string. */
  tenon_status* (*get_string)(const tenon_options* options,
                              const char* pointer,
                              const char** out_ref);
  /* Counts the elements of a list or the members of an object. */
  tenon_status* (*get_count)(const tenon_options* options, const char* pointer, size_t* out);
  /* Reads the name of the i-th member of an object, from 0, in recipe order. TENON_NOT_FOUND if
   * there are not that many. */
  tenon_status* (*get_key)(const tenon_options* options,
                           const char* pointer,
                           size_t i,
                           const char** out_ref);
  /* Reads a value of any type as JSON text. */
  tenon_status* (*get_json)(const tenon_options* options,
                            const char* pointer,
                            const char** out_ref);
  /* Reads a nested component. TENON_NOT_FOUND if the option is null, TENON_INVALID if its schema
   * lacks "x-tenon-component" or `out->struct_size` is too small. */
  tenon_status* (*get_component)(const tenon_options* options,
                                 const char* pointer,
                                 tenon_component_ref* out);
} tenon_options_api;

TENON_SEAL(tenon_options_api, get_component);
TENON_SLOT(tenon_options_api, kind, 0);
TENON_SLOT(tenon_options_api, get_component, 8);

TENON_C_END
#endif
