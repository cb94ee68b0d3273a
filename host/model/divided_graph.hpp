// SPDX-License-Identifier: Apache-2.0
//
// Divides the parameters and values of a graph among the ranks of a tensor group. Shapes of the
// graph stay those of the whole; `part` says what a rank has. Nothing is allocated or sent here.
//
// With t ranks and a part of the split of u units, t ranks share u units evenly: rank r has units
// [r u / t, (r + 1) u / t) if u is a multiple of t, or unit r u / t if t is a multiple of u. Then
// t / u adjacent ranks have the same elements.
//
// Invariant: the same graph gives the same answers on all ranks, except `part`.
// Threads: any.
#pragma once

#include "host/distributed/ranks/rank_role.hpp"
#include "host/model/graph.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// What a divisible block does whose parameters or values the ranks cannot share evenly.
enum class IndivisibleBlocks { kRefuse, kRunWhole };

// Returns the part of something of this shape that a rank has. Only the size along the axis of the
// split has a meaning if the shape is that of a value.
// Errors  model.indivisible, with `name` and the arithmetic, if the units of a part of the split
//         and the number of ranks are no multiples of each other
Box divided_part(const ModelSplit& split,
                 const std::vector<int64_t>& shape,
                 RankIndex tensor,
                 const std::string& name);

// Sets what a rank has of each parameter and value, and which blocks are divided: those of
// TENON_BLOCK_DIVISIBLE with a split parameter or value. With one rank, nothing changes.
//
// A parameter is divided if all blocks that use it are, also by tied names. A value is divided if
// the block that makes it is. If a parameter or an input of a block is not divided although it has
// a split, the block runs whole. A parameter is stored whole if its parts have different numbers of
// copies, as a fused matrix with fewer key heads than ranks; blocks still get the part.
//
// Errors  model.indivisible as above, with the block, if such blocks are refused; model.bad_graph,
//         also with one rank, for a parameter with TENON_PARAM_INSIDE that has a split, or that a
//         block without TENON_BLOCK_DIVISIBLE declares
void divide_graph(ModelGraph& graph, RankIndex tensor, IndivisibleBlocks indivisible);

// Lets each rank store the whole of parameters for which `needs_whole` is true. Blocks still get
// parts. Call it once the optimizers are known.
// Shapes  needs_whole [graph.parameters.size()]; entries of tied names are not read
void store_whole(ModelGraph& graph, RankIndex tensor, const std::vector<bool>& needs_whole);

// Returns whether this rank adds what block `b` returns as the gradient of parameter `p`. The
// gradient is the sum over all copies of the parameter. Where each rank has the whole gradient, the
// first alone adds it. `has_pieces` is true if the block ran on this rank's piece of T.
bool adds_gradient(
    const ModelGraph& graph, uint32_t b, uint32_t p, RankIndex tensor, bool has_pieces);

}  // namespace tenon
