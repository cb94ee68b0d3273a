/* SPDX-License-Identifier: Apache-2.0
 *
 * The one symbol a plugin exports. Everything else travels through tables of function pointers.
 *
 * The host reads the manifest (manifest.h), refuses what cannot work, loads the library (in a child
 * process the first time it sees the file), and calls the entry once. The library is never
 * unloaded. */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include "component.h"
#include "manifest.h"

TENON_C_BEGIN

typedef struct tenon_entry_args {
  size_t struct_size;
  /* What the host speaks: every minor from abi_minor_min to abi_minor_max of abi_major. */
  uint32_t abi_major;
  uint32_t abi_minor_min;
  uint32_t abi_minor_max;
  uint32_t out_abi_minor; /* the plugin's choice: TENON_ABI_MINOR of its headers. The host checks */
  const tenon_host* host; /* lives as long as the process */

  /* Registers a component. `component` and all it points to live as long as the process.
   * Errors   TENON_INVALID: a field is missing, the type is taken, the schema is no JSON Schema
   * Threads  [load]  Since 0.1 */
  void* registrar;
  tenon_status* (*register_component)(void* registrar, const tenon_component* component);

  /* May be set by the plugin: called once before the process ends, after all instances are
   * destroyed. Rationale: static destructors of libraries that are never unloaded run too late to
   * be safe. Threads [main] */
  void (*out_shutdown)(void);
} tenon_entry_args;
TENON_SEAL(tenon_entry_args, out_shutdown);

#define TENON_ENTRY_SYMBOL "tenon_plugin_entry"

/* Registers the plugin's components, the same ones that its manifest lists. It starts no thread,
 * opens no file, prints nothing and changes no process-wide state. Threads [load]  Since 0.1 */
TENON_EXPORT tenon_status* tenon_plugin_entry(tenon_entry_args* args);

TENON_C_END
#endif
