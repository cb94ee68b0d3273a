/* SPDX-License-Identifier: Apache-2.0
 *
 * Has a manifest, and not the symbol that goes with it. */
#include <tenon/manifest.h>

TENON_MANIFEST("id=org.tenon.zoo.no_entry\nversion=1.0.0\nabi=" TENON_ABI_STRING
               "\nlane=stable\ncomponent=loss:zoo\n");
