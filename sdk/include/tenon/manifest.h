/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest: what the host learns of a plugin without running any of its code. It is an ELF note
 * (section ".note.tenon", owner "tenon", type 1) whose text is "key=value" lines:
 *
 *     id=com.example.focal          reverse domain; the plugin's identity, whatever its file is
 * called version=1.2.0                 MAJOR.MINOR.PATCH abi=0.1                       of the
 * headers it was built with lane=stable | torch           torch: uses libtorch's C++ ABI, and then
 *     torch=version=...;git=...     the build it was compiled against, compared as a string
 *     component=loss:focal          one line for each component it registers, no more and no less
 *
 * `tenon_add_plugin()` writes it. Without CMake, put one TENON_MANIFEST(...) into one file of the
 * plugin:
 *
 *     TENON_MANIFEST("id=com.example.focal\nversion=1.2.0\nabi=" TENON_ABI_STRING "\n"
 *                    "lane=stable\ncomponent=loss:focal\n");
 *
 * `readelf -p .note.tenon FILE` shows it.
 * Rationale: a note survives strip and --gc-sections and needs no step after linking. */
#ifndef TENON_MANIFEST_H
#define TENON_MANIFEST_H

#include "abi.h"

#define TENON_MANIFEST_SECTION ".note.tenon"
#define TENON_MANIFEST_OWNER "tenon"
#define TENON_MANIFEST_TYPE 1u

#define TENON_MANIFEST(text)                                                                   \
  static const struct {                                                                        \
    uint32_t namesz, descsz, type;                                                             \
    char name[8];                                                                              \
    char desc[(sizeof(text) + 3u) / 4u * 4u];                                                  \
  } tenon_manifest_note __attribute__((used, section(TENON_MANIFEST_SECTION), aligned(4))) = { \
      sizeof(TENON_MANIFEST_OWNER), sizeof(text), TENON_MANIFEST_TYPE, TENON_MANIFEST_OWNER, text}

#endif
