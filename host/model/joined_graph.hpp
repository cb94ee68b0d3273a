// SPDX-License-Identifier: Apache-2.0
//
// Joins the graphs of all models of a run to one, and drops the blocks that nothing needs. The
// models that are not trained run first, and all their parameters are frozen.
// Invariants: values, parameters, buffers and parametrizations of the trained model keep their
// indices and names; those of a model NAME follow, as NAME/VALUE. Its plugin still sees its own
// block numbers.
#pragma once

#include "host/model/graph.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// A model that only runs forward.
struct FurtherGraph {
  std::string name;
  ModelGraph graph;
  // Adds no parameters: it reads those of the trained model that have the same names, as they are
  // stored.
  bool shares_parameters = false;
};

// Returns one graph of all models. Model i of `further` has the index i + 1.
// Errors  model.not_available for a further model that reads table rows; model.vocabularies_differ
//         if an axis "V" has another size than in the trained model, named `trained_name`;
//         model.cannot_share for a parameter that the trained model lacks, trains or does not store
ModelGraph join_graphs(ModelGraph trained,
                       const std::string& trained_name,
                       const std::vector<FurtherGraph>& further);

// Drops the blocks whose outputs nothing needs: neither `read` contains them nor a block that runs
// reads them. Values keep their indices. A block stays if it has no outputs, state buffers, table
// rows, or a parameter that no other block uses.
void skip_unread_blocks(ModelGraph& graph, const std::vector<uint32_t>& read);

// Returns the blocks that run on one chunk of a sequence at a time, ascending: the last block of
// each model, as far as it can. Empty if the last block of the trained model, the last of the list,
// cannot. A block can if it is tokenwise, and all its inputs and outputs have an axis T and are no
// table rows.
std::vector<uint32_t> tail_blocks(const ModelGraph& graph);

// Returns the outputs of tail_blocks.
std::vector<uint32_t> tail_outputs(const ModelGraph& graph);

// Returns whether a block can run on one chunk of a sequence at a time (see tail_blocks).
bool can_run_in_chunks(const ModelGraph& graph, const ModelBlock& block);
// Returns whether a block can run on a part of the positions while other ranks run it on the
// others: as above, or its tokens meet in tenon::attention only.
bool can_run_on_part(const ModelGraph& graph, const ModelBlock& block);
// Returns by block whether it runs whole where ranks divide positions: it cannot run on a part.
std::vector<bool> whole_blocks(const ModelGraph& graph);

}  // namespace tenon
