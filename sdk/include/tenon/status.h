/* SPDX-License-Identifier: Apache-2.0
 *
 * What a call says when it fails. A null `tenon_status*` is success; anything else is an object of
 * the host that carries code, id, message and the place in the plugin's source. There is no "last
 * error": a status is returned, looked at, and released exactly once. */
#ifndef TENON_STATUS_H
#define TENON_STATUS_H

#include "abi.h"

TENON_C_BEGIN

typedef struct tenon_host tenon_host;
typedef struct tenon_status tenon_status;

/* The caller's choice of reaction depends on the code; the text is for people. */
enum {
  TENON_OK = 0,          /* never inside a status object */
  TENON_INVALID = 1,     /* an argument, option or shape is wrong */
  TENON_UNSUPPORTED = 2, /* legal, but this component does not do it */
  TENON_NOT_FOUND = 3,   /* a file, field, name that should be there is not */
  TENON_IO = 4,          /* reading or writing failed */
  TENON_OUT_OF_MEMORY = 5,
  TENON_INTERNAL = 6 /* a bug, or an exception nobody expected */
};

#define TENON_STATUS_ID "tenon.status/1"

typedef struct tenon_status_api {
  size_t struct_size;

  /* Makes a status. It never fails: without memory it returns a status that says so.
   *
   * Threads  [any]
   * Owner    strings are copied; the caller returns the status or releases it
   * Since    0.1 */
  tenon_status* (*make)(const tenon_host* host,
                        uint32_t code,
                        const char* id,
                        const char* message,
                        const char* file,
                        int32_t line);
  /* Releases a status. Null is allowed. Threads [any] */
  void (*release)(tenon_status* status_own);

  /* Readers. Strings live as long as the status; a null status reads as TENON_OK and "".
   * Threads [any] */
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
