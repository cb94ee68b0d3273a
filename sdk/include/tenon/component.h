/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a component: anything that a recipe can name by kind and type. A plugin registers one
 * descriptor per component, and the host creates any number of instances of it.
 *
 * The functions of an instance are in the table of its kind (model.h, dataset.h, ...). Optional
 * abilities are looked up by id: those of an instance with `get_extension`, those of the component
 * with `get_table`. */
#ifndef TENON_COMPONENT_H
#define TENON_COMPONENT_H

#include "exec.h"
#include "host.h"
#include "options.h"
#include "status.h"

TENON_C_BEGIN

/* Arguments of `create`. All pointers are borrowed until `create` returns, unless stated otherwise.
 */
typedef struct tenon_create_args {
  size_t struct_size;
  /* The validated options, with defaults filled in (options.h). Never null. */
  const tenon_options* options;
  const char* place; /* JSON pointer in the recipe, "/hooks/0"; lives as long as the instance */
  uint64_t seed;     /* derived from the run's seed and `place`; equal on all ranks */
  const tenon_mesh* mesh; /* position of this rank; valid for the whole run */
} tenon_create_args;
TENON_SEAL(tenon_create_args, mesh);

/* Describes a component. The descriptor, its strings and its table live as long as the process. */
typedef struct tenon_component {
  size_t struct_size;
  const char* kind;         /* one of the kinds of this ABI, for example "loss" */
  const char* type;         /* name in recipes, for example "cross_entropy": [a-z0-9_] */
  const char* interface_id; /* interface that `table` implements, for example "tenon.loss/1" */
  const void* table;        /* function table of the kind; the type follows from interface_id */
  const char* summary;      /* one line for --list-plugins */
  /* JSON Schema (draft 7) of an object. Every optional key has a default. An empty "properties"
   * means that the component has no options. */
  const char* options_schema;

  /* Creates an instance. It has no effect outside of the process: the first time the host sees a
   * plugin, it creates, describes and destroys an instance of each component with default options,
   * in a child process.
   *
   * Errors   TENON_INVALID for options that are valid individually but not together; TENON_IO and
   *          others as they apply. On an error, `destroy` is not called
   * Threads  [main]
   * Owner    the instance belongs to the plugin; the host calls `destroy` exactly once
   * Since    0.1 */
  tenon_status* (*create)(const tenon_host* host, const tenon_create_args* args, void** out_self);
  /* Destroys an instance.
   *
   * Threads  [main], never while another call on the instance is running
   * Owner    takes `self`
   * Since    0.1 */
  void (*destroy)(void* self);

  /* Returns the table of an optional ability ("tenon.stateful/1"), whose functions take `self`, or
   * null if the instance lacks it. The function pointer itself may be null.
   *
   * Threads  [any]
   * Owner    the table lives at least as long as the instance
   * Since    0.1 */
  const void* (*get_extension)(void* self, const char* id);

  /* Returns the table of another interface of the component, or null if it has none of this id. The
   * function pointer itself may be null. The host asks for two sorts of ids:
   *
   * - other versions of the kind's interface ("tenon.loss/2"), newest first, if it does not know
   *   `interface_id`. A component that serves old and new hosts names the older one there;
   * - abilities that concern the component before an instance exists.
   *
   * Threads  [any]
   * Owner    the table lives as long as the process
   * Since    0.4 */
  const void* (*get_table)(const char* id);
} tenon_component;
TENON_SEAL(tenon_component, get_table);

TENON_C_END
#endif
