/* SPDX-License-Identifier: Apache-2.0
 *
 * The grammar that every other header of the ABI is written in: version, layout checks, thread
 * roles, ownership. It declares no function and no service.
 *
 * Conventions, numbered so that other pages can point at them:
 *
 *  1. Version. `TENON_ABI_MAJOR.TENON_ABI_MINOR`. While the major is 0, host and plugin must agree
 * on the minor exactly; from 1.0 on, a host accepts every minor of its major up to its own.
 *  2. Growth. A struct that may grow opens with `size_t struct_size`, set by whoever allocates it
 * to the sizeof of *his* header, and grows only at its end. A reader tests the one field it is
 * about to use, with TENON_HAS; it never compares sizes for equality. Rationale: "at least all of
 * mine" refuses partners that lack only what nobody asks of them.
 *  3. Enums are `uint32_t` constants. Numbers are never reused or changed.
 *  4. Calls return `tenon_status*`; null is success (status.h). What a call would have handed over
 * on success has not changed hands when it fails, and its out parameters are untouched.
 *  5. Ownership. Who makes it, destroys it. A pointer whose name ends in `_ref` is borrowed: it
 * stays valid until the call returns, or as long as its comment says. One that ends in `_own`
 * passes the duty to release a *handle of the host's* (tensor, status) through the host's own
 * release function. No memory allocated on one side is ever freed by the other.
 *  6. Strings are UTF-8, NUL-terminated, borrowed, never null unless said.
 *  7. No C++ type, exception, FILE*, or errno crosses. A null argument is TENON_INVALID, not a
 * crash.
 *  8. Thread roles. Each function pointer's comment has one of
 *       [load]    while the plugin is being loaded, once, one thread
 *       [main]    one call at a time for the instance, outside of steps
 *       [step]    one call at a time for the instance, on any thread; may be time-critical
 *       [worker]  concurrently with itself and with [step], on loader threads
 *       [any]     any thread, at any time
 *     A role is a promise about concurrency, not about a thread's identity. */
#ifndef TENON_ABI_H
#define TENON_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TENON_ABI_MAJOR 0u
#define TENON_ABI_MINOR 1u
/* The same, for the manifest. */
#define TENON_ABI_STRING "0.1"

#ifdef __cplusplus
#define TENON_C_BEGIN extern "C" {
#define TENON_C_END }
#define TENON_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define TENON_C_BEGIN
#define TENON_C_END
#define TENON_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* Visibility of the one exported symbol. */
#define TENON_EXPORT __attribute__((visibility("default")))

/* True if `p` (a struct of type T with struct_size) is large enough to hold `field`, and it is not
 * null. */
#define TENON_HAS(T, p, field) \
  ((p) != NULL && (p)->struct_size >= offsetof(T, field) + sizeof((p)->field) && (p)->field != NULL)

/* Stands after each growing struct: fails to compile when `last` is not the last field, or when
 * padding follows it, because a field added there would not change struct_size. */
#define TENON_SEAL(T, last)                                                   \
  TENON_STATIC_ASSERT(sizeof(T) == offsetof(T, last) + sizeof(((T*)0)->last), \
                      #T ": '" #last "' is not last, or padding follows it")

/* Pins a slot of a function table: the n-th pointer after struct_size. */
#define TENON_SLOT(T, field, n)                                                   \
  TENON_STATIC_ASSERT(offsetof(T, field) == sizeof(size_t) + (n) * sizeof(void*), \
                      #T ": '" #field "' has moved")

TENON_STATIC_ASSERT(sizeof(void*) == 8 && sizeof(size_t) == 8,
                    "the ABI is defined for 64-bit machines");

#endif
