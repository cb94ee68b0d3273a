// SPDX-License-Identifier: Apache-2.0
//
// Divides the parameters and values of a graph among the ranks of a tensor group. Shapes of the
// graph stay those of the whole; `part` says what a rank has. Nothing is allocated or sent here.
//
// With t ranks and a part of the split of u units, t ranks share u units evenly: rank r has units
// [r u / t, (r + 1) u / t) if u is a multiple of t, or unit r u / t if t is a multiple of u. Then
// t / u adjacent ranks have the same elements.
//
// Invariant: the same graph gives the same answers but for `part` on all ranks.
// Threads: any.
#pragma once

#include "host/distributed/ranks/rank_role.hpp"
#include "host/model/graph.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// Returns the part of something of this shape that a rank has.
// Errors  model.indivisible, with the arithmetic, if the units of a part of the split and the
//         number of ranks are no multiples of each other
Box divided_part(const ModelSplit& split,
                 const std::vector<int64_t>& shape,
                 RankIndex tensor,
                 const std::string& name);

// Sets what a rank has of each parameter and value, and which blocks are divided: those of
// TENON_BLOCK_DIVISIBLE with a split parameter or value. A parameter is divided if all blocks that
// use it are, also by tied names; its block runs whole otherwise. With one rank, nothing changes.
//
// Errors  model.indivisible as above, with the block, unless `runs_indivisible_whole`: such blocks
//         then run whole; model.bad_graph for a parameter with TENON_PARAM_INSIDE that a block
//         which is not divisible uses, or that has a split
void divide_graph(ModelGraph& graph, RankIndex tensor, bool runs_indivisible_whole);

// Lets each rank store the whole of parameters for which `needs_whole` is true, and of those whose
// parts have different numbers of copies (a fused matrix with fewer key heads than ranks). Blocks
// still get parts. Call it once the optimizers are known.
void store_whole(ModelGraph& graph, RankIndex tensor, const std::vector<bool>& needs_whole);

// Returns whether this rank adds what block `b` returns as the gradient of parameter `p`. The
// gradient is the sum over all copies of the parameter. Where each rank has the whole gradient, the
// first alone adds it: outside of divided regions, unless ranks hold pieces of T.
bool adds_gradient(
    const ModelGraph& graph, uint32_t b, uint32_t p, RankIndex tensor, bool has_pieces);

}  // namespace tenon
