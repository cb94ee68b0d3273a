/* SPDX-License-Identifier: Apache-2.0
 *
 * Declares the one symbol that a plugin exports. Everything else passes through tables of function
 * pointers.
 *
 * The host reads the manifest (manifest.h) and rejects incompatible plugins. It then loads the
 * library, in a child process the first time it sees the file, and calls the entry point once. The
 * library is never unloaded. */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include "component.h"
#include "manifest.h"

TENON_C_BEGIN

/* Arguments of the entry point. The host fills all fields except those named `out_...`. */
typedef struct tenon_entry_args {
  size_t struct_size;
  /* The ABI versions that the host supports: minors abi_minor_min to abi_minor_max of abi_major. */
  uint32_t abi_major;
  uint32_t abi_minor_min;
  uint32_t abi_minor_max;
  /* The minor version that the plugin uses: TENON_ABI_MINOR of its headers. The host verifies it.
   */
  uint32_t out_abi_minor;
  const tenon_host* host; /* lives as long as the process */

  /* First argument of register_component. */
  void* registrar;
  /* Registers a component.
   *
   * Errors   TENON_INVALID if a field is missing, the type is already registered, or
   *          `options_schema` is not a valid JSON Schema
   * Threads  [load]
   * Owner    `component` and everything it points to must live as long as the process
   * Since    0.1 */
  tenon_status* (*register_component)(void* registrar, const tenon_component* component);

  /* Optional, set by the plugin; null if there is nothing to clean up. The host calls it once
   * before the process ends, after all instances are destroyed. Use it instead of static
   * destructors, which run too late in a library that is never unloaded.
   *
   * Threads  [main]
   * Since    0.1 */
  void (*out_shutdown)(void);
} tenon_entry_args;
TENON_SEAL(tenon_entry_args, out_shutdown);

#define TENON_ENTRY_SYMBOL "tenon_plugin_entry"

/* Registers the plugin's components: exactly those that its manifest lists. The entry point starts
 * no thread, opens no file, prints nothing and changes no process-wide state.
 *
 * Errors   those of register_component, passed on; any error rejects the plugin
 * Threads  [load]
 * Owner    `args` is borrowed until return
 * Since    0.1 */
TENON_EXPORT tenon_status* tenon_plugin_entry(tenon_entry_args* args);

TENON_C_END
#endif
