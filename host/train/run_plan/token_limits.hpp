// SPDX-License-Identifier: Apache-2.0
//
// Checks, before the first step, that a language model takes the samples of a source: their lengths
// against its positions, and their token ids against its vocabulary.
// Threads: [main], while no read is running.
#pragma once

#include "host/data/data_source.hpp"
#include "host/model/graph.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"

namespace tenon {

// Does nothing for sources without lengths, and for models that declare no limit: an option
// `max_position_embeddings`, `n_positions` or `n_ctx`, or an axis V. Reads all samples if the
// tokenizer has more tokens than the model.
//
// Errors   data.beyond_model names the source and the sample; errors of the source
void check_token_limits(const Recipe& recipe,
                        const ComponentUse& model,
                        const ModelGraph& graph,
                        ComponentFactory& factory,
                        DataSource& source);

}  // namespace tenon
