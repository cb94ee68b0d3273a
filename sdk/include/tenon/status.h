/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports why a call failed. A null `tenon_status*` means success. Any other value is a host object
 * that carries a code, an id, a message and the source location in the plugin.
 *
 * There is no "last error": the caller inspects a returned status and releases it exactly once. */
#ifndef TENON_STATUS_H
#define TENON_STATUS_H

#include "abi.h"

TENON_C_BEGIN

typedef struct tenon_host tenon_host;
/* A failure, owned by its holder. Opaque; the host allocates it. */
typedef struct tenon_status tenon_status;

/* Classifies a failure. Callers react to the code; the message is for people. */
enum {
  TENON_OK = 0,            /* never stored in a status */
  TENON_INVALID = 1,       /* an argument, option or shape is invalid */
  TENON_UNSUPPORTED = 2,   /* valid, but this component does not support it */
  TENON_NOT_FOUND = 3,     /* a required file, field or name does not exist */
  TENON_IO = 4,            /* reading or writing failed */
  TENON_OUT_OF_MEMORY = 5, /* an allocation failed */
  TENON_INTERNAL = 6,      /* a bug or an unexpected exception; also every unknown code */
  TENON_CANCELLED = 7,     /* given up because the run is to stop (exec.h) */
  TENON_EXISTS = 8,        /* a name that must be new exists already */
  TENON_DATA_LOSS = 9,     /* data is incomplete or corrupt: retrying does not help */
  TENON_TIMEOUT = 10       /* no answer in time: retrying may help */
};

#define TENON_STATUS_ID "tenon.status/1"

/* Service TENON_STATUS_ID: creates, reads and releases statuses. */
typedef struct tenon_status_api {
  size_t struct_size;

  /* Creates a status. `code` is one of TENON_INVALID to TENON_TIMEOUT, and `id` is a short stable
   * name such as "loss.bad_shape". `file` and `line` (from 1) locate the failure in the plugin.
   * Null strings read as "".
   *
   * Errors   none: if memory runs out, the result is a status that reports TENON_OUT_OF_MEMORY
   * Threads  [any]
   * Owner    strings are copied; the caller returns the status or releases it
   * Since    0.1 */
  tenon_status* (*make)(const tenon_host* host,
                        uint32_t code,
                        const char* id,
                        const char* message,
                        const char* file,
                        int32_t line);
  /* Releases a status. Null is allowed.
   *
   * Threads  [any]
   * Owner    takes the status
   * Since    0.1 */
  void (*release)(tenon_status* status_own);

  /* The readers below return the parts of a status. A null status reads as TENON_OK, "" and line 0.
   *
   * Threads  [any]
   * Owner    strings live as long as the status
   * Since    0.1 */
  uint32_t (*code)(const tenon_status* status);
  const char* (*id)(const tenon_status* status);
  const char* (*message)(const tenon_status* status);
  const char* (*file)(const tenon_status* status);
  int32_t (*line)(const tenon_status* status);
} tenon_status_api;

TENON_SEAL(tenon_status_api, line);
TENON_SLOT(tenon_status_api, make, 0);
TENON_SLOT(tenon_status_api, line, 6);

TENON_C_END
#endif
