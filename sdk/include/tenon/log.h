/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes messages for people to the run's log and the terminal. Report metrics through metrics.h
 * and errors as a status. */
#ifndef TENON_LOG_H
#define TENON_LOG_H

#include "host.h"

TENON_C_BEGIN

/* Severity. The host treats an unknown higher level as an error. */
enum { TENON_LOG_DEBUG = 0, TENON_LOG_INFO = 1, TENON_LOG_WARN = 2, TENON_LOG_ERROR = 3 };

#define TENON_LOG_ID "tenon.log/1"

/* Service TENON_LOG_ID. */
typedef struct tenon_log_api {
  size_t struct_size;
  /* Writes one line, prefixed with the plugin's id. Of more than 200 lines in one second, the rest
   * is dropped and counted. A full disk does not block it. A null `host` or `message` is ignored.
   *
   * Errors   none
   * Threads  [any]
   * Owner    `message` is copied
   * Since    0.1 */
  void (*write)(const tenon_host* host, uint32_t level, const char* message);
} tenon_log_api;

TENON_SEAL(tenon_log_api, write);

TENON_C_END
#endif
