/* SPDX-License-Identifier: Apache-2.0
 *
 * Embeds the manifest: everything the host learns about a plugin without running its code. The
 * manifest is an ELF note (section ".note.tenon", owner "tenon", type 1) whose text consists of
 * "key=value" lines:
 *
 *     id=com.example.focal       identity of the plugin: a reverse domain name, not the file name
 *     version=1.2.0              MAJOR.MINOR.PATCH
 *     abi=0.4                    ABI version of the headers that the plugin was built with, or
 *                                MIN..MAX: it also runs with older hosts, down to MIN (1.0..1.3)
 *     lane=stable                or "torch": the plugin uses libtorch's C++ ABI
 *     torch=version=...;git=...  lane torch: the libtorch build, compared as a string
 *     component=loss:focal       one line for each component that the plugin registers
 *     requires=tenon.op/1        a service that the plugin needs; a host without it rejects the
 *                                plugin before loading it. Any number of lines
 *
 * A host ignores keys that it does not know, except those that start with '!': it then rejects the
 * plugin. '!' makes any key one that must be understood.
 *
 * `tenon_add_plugin()` writes the manifest. Without CMake, put one TENON_MANIFEST(...) into one
 * source file of the plugin:
 *
 *     TENON_MANIFEST("id=com.example.focal\nversion=1.2.0\nabi=" TENON_ABI_STRING "\n"
 *                    "lane=stable\ncomponent=loss:focal\n");
 *
 * `readelf -p .note.tenon FILE` prints it. A note survives strip and --gc-sections and needs no
 * step after linking. */
#ifndef TENON_MANIFEST_H
#define TENON_MANIFEST_H

#include "abi.h"

/* Section, owner and type of the ELF note. */
#define TENON_MANIFEST_SECTION ".note.tenon"
#define TENON_MANIFEST_OWNER "tenon"
#define TENON_MANIFEST_TYPE 1u

/* Defines the note. `text` is a string literal; use it once per plugin, at file scope. */
#define TENON_MANIFEST(text)                                                                   \
  static const struct {                                                                        \
    uint32_t namesz, descsz, type;                                                             \
    char name[8];                                                                              \
    char desc[(sizeof(text) + 3u) / 4u * 4u];                                                  \
  } tenon_manifest_note __attribute__((used, section(TENON_MANIFEST_SECTION), aligned(4))) = { \
      sizeof(TENON_MANIFEST_OWNER), sizeof(text), TENON_MANIFEST_TYPE, TENON_MANIFEST_OWNER, text}

#endif
