/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines the conventions that every other header of the ABI follows: versioning, layout checks,
 * thread roles and ownership. It declares no function and no service.
 *
 * The conventions are numbered so that other pages can refer to them.
 *
 * 1. Version. The ABI version is `TENON_ABI_MAJOR.TENON_ABI_MINOR`. While the major version is 0,
 *    host and plugin must have the same minor version. From 1.0 on, a host accepts every minor
 *    version of its major version, up to its own.
 * 2. Growth. A struct that may grow starts with `size_t struct_size` and grows only at its end.
 *    Whoever allocates the struct sets `struct_size` to the sizeof in its own headers: a multiple
 * of 8, from 8 to TENON_MAX_STRUCT_SIZE. Before a reader uses an optional field, it tests that one
 *    field with TENON_HAS_FIELD, or with TENON_HAS if the field is a pointer. It never compares
 *    sizes for equality, because that would reject partners that lack only unused fields. In an
 *    array of such structs, all elements have the same `struct_size`, which is their distance in
 *    bytes. Only tenon_axis, tenon_device and tenon_any have no `struct_size`; they never change.
 * 3. Enums are `uint32_t` constants. Numbers are never reused or changed. Booleans are `uint32_t`
 *    as well: writers write 0 or 1, readers take every value but 0 as true.
 * 4. Calls return `tenon_status*`; null is success (status.h). If a call fails, ownership of its
 *    arguments has not changed and its out parameters are unmodified. One exception: handles that
 *    a plugin stores into a struct of arguments belong to the host at once, which releases them
 *    even if the call then fails.
 * 5. Ownership. The side that creates an object destroys it. A pointer whose name ends in `_ref` is
 *    borrowed: it is valid until the call returns, or as long as its comment states. A pointer
 *    whose name ends in `_own` transfers ownership of a host handle (tensor, status); the receiver
 *    releases it through the host's release function. Neither side ever frees memory that the other
 *    allocated.
 * 6. Strings are UTF-8, NUL-terminated, borrowed, and non-null unless stated otherwise.
 * 7. No C++ type, exception, FILE* or errno crosses the boundary. A null argument is reported as
 *    TENON_INVALID; it does not crash.
 * 8. Functions of components take `self`, then the `exec` of the call (exec.h) if they compute or
 *    read data, then one struct with all other arguments and the results, so that arguments can be
 *    added. Functions whose arguments cannot grow take them one by one.
 * 9. Thread roles. The comment of each function pointer states one of these roles:
 *
 *        [load]    called once, on one thread, while the plugin is loaded
 *        [main]    one call at a time per instance, outside of steps
 *        [step]    one call at a time per instance, on any thread; may be time-critical
 *        [worker]  concurrent with itself and with [step], on loader threads
 *        [any]     any thread, at any time
 *
 * A role is a promise about concurrency, not about a thread's identity.
 *
 * Comments use these tags, one a line: Shapes, Units, Errors, Threads, Owner, Source, Since. A
 * field or flag marked "Reserved: ignored by this host" may be set, but has no effect yet. Fields
 * named `reserved` must be 0. A count `num_x` is the length of the array `x` and needs no comment.
 */
#ifndef TENON_ABI_H
#define TENON_ABI_H

#include <stddef.h>
#include <stdint.h>

#define TENON_ABI_MAJOR 0u
#define TENON_ABI_MINOR 5u
/* The version as a string, for the manifest. */
#define TENON_ABI_STRING "0.5"

/* Wraps declarations in C linkage, and asserts at compile time, in C and in C++. */
#ifdef __cplusplus
#define TENON_C_BEGIN extern "C" {
#define TENON_C_END }
#define TENON_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define TENON_C_BEGIN
#define TENON_C_END
#define TENON_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* Exports the plugin's one public symbol. */
#define TENON_EXPORT __attribute__((visibility("default")))

/* Largest `struct_size` of a struct or table, in bytes. A larger one is refused as garbage. */
#define TENON_MAX_STRUCT_SIZE 4096u

/* Number of bytes from the start of a T to the end of `field`. */
#define TENON_END_OF(T, field) (offsetof(T, field) + sizeof(((T*)0)->field))

/* True if the struct at `p` (of type T, with struct_size) is large enough to hold `field`. A null
 * `p` gives false. */
#define TENON_HAS_FIELD(T, p, field) ((p) != NULL && (p)->struct_size >= TENON_END_OF(T, field))

/* Like TENON_HAS_FIELD, for a pointer or a function pointer that must not be null either. */
#define TENON_HAS(T, p, field) (TENON_HAS_FIELD(T, p, field) && (p)->field != NULL)

/* Follows each struct that may grow. Compilation fails if `last` is not the last field, or if
 * padding follows it, because a field added in padding would not change struct_size. */
#define TENON_SEAL(T, last)                               \
  TENON_STATIC_ASSERT(sizeof(T) == TENON_END_OF(T, last), \
                      #T ": '" #last "' is not last, or padding follows it")

/* Pins an entry of a function table: `field` is the n-th pointer after struct_size, from 0. */
#define TENON_SLOT(T, field, n)                                                   \
  TENON_STATIC_ASSERT(offsetof(T, field) == sizeof(size_t) + (n) * sizeof(void*), \
                      #T ": '" #field "' has moved")

TENON_STATIC_ASSERT(sizeof(void*) == 8 && sizeof(size_t) == 8,
                    "the ABI is defined for 64-bit machines");

#endif
