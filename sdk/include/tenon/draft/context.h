/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that run on a part of the positions of each sequence, while other ranks run them on the
 * other parts (`parallel.context` in a recipe). Blocks flagged TENON_BLOCK_TOKENWISE can, too. A
 * host that lacks this draft refuses the flag. */
#ifndef TENON_DRAFT_CONTEXT_H
#define TENON_DRAFT_CONTEXT_H

#include "../model.h"

TENON_C_BEGIN

/* Flag of a block, beside TENON_BLOCK_* of model.h. All inputs and outputs have an axis T. Tokens
 * are independent, except in the host's operators `tenon::attention` and `tenon::packed_attention`,
 * and in auxiliary losses that are sums over tokens. Positions come from an input such as the batch
 * field `position_ids`, and not from sizes. Queries, keys and values of a call have the block's
 * positions; attention weights are not dropped out. A part may have no positions. */
#define TENON_BLOCK_CONTEXT 128u /* 1 << 7 */

TENON_C_END
#endif
