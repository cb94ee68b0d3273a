/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks whose parameters are divided among the ranks of a tensor group (`parallel.tensor` in a
 * recipe). A host that lacks this draft refuses the flags.
 *
 * A block has a divided region, between calls of the host's operators `tenon::tensor_in` and
 * `tenon::tensor_out` (docs/reference/operators.md). Outside of it, values are whole and the same
 * on all ranks of the group, or with `parallel.sequence_parallel`, each rank has a piece of the
 * axis T. Inside, each rank computes with its part of the split parameters (tenon_split in
 * model.h); sizes follow from the shapes of the tensors that the block receives. On one rank, the
 * operators do nothing. */
#ifndef TENON_DRAFT_TENSOR_H
#define TENON_DRAFT_TENSOR_H

#include "../model.h"

TENON_C_BEGIN

/* Flag of a block, beside TENON_BLOCK_* of model.h. The block calls the operators above, so the
 * host may give it parts of its split parameters. Splits of other blocks are ignored: such blocks
 * run whole on each rank. */
#define TENON_BLOCK_DIVISIBLE 256u /* 1 << 8 */

/* Flag of a parameter without a split, beside TENON_PARAM_* of model.h: divisible blocks use it
 * inside of the region, so that its gradient is the sum over the ranks. All blocks that use a
 * parameter use it inside, or none. */
#define TENON_PARAM_INSIDE 32u /* 1 << 5 */

/* Flag of a loss, beside TENON_LOSS_* of loss.h. Inputs that a divisible block makes with a split
 * arrive as this rank's part, and the loss is computed in a region: it adds up over parts by
 * `tenon::tensor_out`, and returns the same sum on all ranks. Other losses get whole inputs. */
#define TENON_LOSS_DIVISIBLE 2u /* 1 << 1 */

TENON_C_END
#endif
