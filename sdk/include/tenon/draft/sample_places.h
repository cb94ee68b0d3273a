/* SPDX-License-Identifier: Apache-2.0
 *
 * Names the place of a sample in the user's data, such as "chats.jsonl, line 5". Messages about a
 * sample then lead to it. It is an optional ability of map-style datasets. */
#ifndef TENON_DRAFT_SAMPLE_PLACES_H
#define TENON_DRAFT_SAMPLE_PLACES_H

#include "../dataset.h"

TENON_C_BEGIN

#define TENON_SAMPLE_PLACES_ID "tenon.sample_places/1"

/* Extension TENON_SAMPLE_PLACES_ID. */
typedef struct tenon_sample_places {
  size_t struct_size;
  /* Sets *out_ref to the place of a sample: the file, and what users find the sample by, such as a
   * line or a row. It may read files. `window` is null for a dataset without windows.
   *
   * Errors   TENON_INVALID for an index outside of [0, size); after any error, the host's message
   *          has the number of the sample only
   * Threads  [main], also while reads are running
   * Owner    *out_ref lives until the next call on this instance
   * Since    0.5 */
  tenon_status* (*find_place)(void* self,
                              const tenon_window* window,
                              int64_t index,
                              const char** out_ref);
} tenon_sample_places;
TENON_SEAL(tenon_sample_places, find_place);
TENON_SLOT(tenon_sample_places, find_place, 0);

TENON_C_END
#endif
