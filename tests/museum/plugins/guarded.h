/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that ends where a page ends, followed by a page whose every access is a fault. A host that
 * reads or writes more of a struct than its `struct_size` crashes, even if it was built with newer
 * headers and the address sanitizer does not know the plugin's memory. */
#ifndef TENON_MUSEUM_GUARDED_H
#define TENON_MUSEUM_GUARDED_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#endif

#include <tenon/tenon.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MUSEUM_TRY(call)                 \
  do {                                   \
    tenon_status* const failed = (call); \
    if (failed != NULL) {                \
      return failed;                     \
    }                                    \
  } while (0)

/* Copies `bytes` bytes, a multiple of 8 and at most a page, to the end of a page that is followed
 * by an inaccessible one. Returns null if memory runs out. Free it with museum_unguard(). */
static inline void* museum_guard(const void* bytes_ref, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* const pages =
      mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    return NULL;
  }
  (void)mprotect(pages + page, page, PROT_NONE);
  return memcpy(pages + page - bytes, bytes_ref, bytes);
}

static inline void museum_unguard(void* guarded) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (guarded != NULL) {
    (void)munmap((char*)((uintptr_t)guarded / page * page), 2 * page);
  }
}

#endif
