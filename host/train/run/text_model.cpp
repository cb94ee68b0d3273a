// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/text_model.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/tensor/philox.hpp"
#include "host/train/components/end_tokens.hpp"
#include "host/train/components/recipe_model.hpp"
#include "host/train/components/recipe_parametrizations.hpp"
#include "host/train/components/recipe_tables.hpp"
#include "host/train/components/recipe_tokenizer.hpp"
#include "host/train/pretrained/saved_evaluation_values.hpp"
#include "host/train/run_state/run_state_names.hpp"
#include "host/train/weights/layout_files.hpp"
#include "host/train/weights/layout_map.hpp"
#include "host/train/weights/weights_import.hpp"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace tenon {
namespace {

RunRequest request_with(const GpuFiles& gpu) {
  RunRequest request;
  request.gpu = gpu;
  return request;
}

const Recipe& prepared(const RunPlatform& platform, const Recipe& recipe) {
  platform.set_up_process(recipe);
  return recipe;
}

ModelGraph graph_for(ModelProxy& model,
                     const ModelUse& use,
                     ComponentFactory& factory,
                     TextModel::Weights weights) {
  ModelGraph graph = recipe_model(model, use);
  if (weights == TextModel::Weights::kOfRun) {
    add_parametrizations(factory, use, graph);
  }
  return graph;
}

// Returns the graph for parameters that are not trained, and whose initial values are replaced.
ModelGraph untrained_graph(ModelGraph graph) {
  for (ModelParameter& parameter : graph.parameters) {
    parameter.flags |= TENON_PARAM_FROZEN;  // no gradients are allocated
    if (parameter.init != TENON_INIT_MODULE) {
      parameter.init = TENON_INIT_ZEROS;
    }
  }
  return graph;
}

}  // namespace

TextModel::TextModel(const Recipe& recipe,
                     PluginRegistry& registry,
                     Process& process,
                     const GpuFiles& gpu,
                     Weights weights)
    : recipe_(recipe),
      process_(process),
      request_(request_with(gpu)),
      platform_(recipe, process, request_, RunPlatform::Purpose::kCheck),
      factory_(registry, prepared(platform_, recipe), platform_.mesh_view()),
      model_(factory_.create(recipe.model.use, "model")),
      trained_graph_(graph_for(model_, recipe.model, factory_, weights)),
      graph_(untrained_graph(trained_graph_)),
      tokenizer_instance_(factory_.create(required_tokenizer(recipe), "tokenizer")),
      tokenizer_(tokenizer_instance_),
      chat_template_(trained_chat_template(recipe, tokenizer_)) {
  store_.emplace(graph_, platform_.whole_layout());
  create_tables();
  generator_.emplace(TextGenerator::Parts{
      .model = model_,
      .store = *store_,
      .exec = platform_.exec(),
      .tokenizer = tokenizer_,
      .ends = end_tokens(tokenizer_, chat_template_),
      .inputs = {.fields = features_ ? &*features_ : nullptr, .rows = rows_ ? &*rows_ : nullptr}});
  const ExecFrame frame(model_.instance().host(), platform_.exec().on(at::kCPU));
  store_->initialise(model_, frame.exec(), mix_seeds(recipe.seed, stream_of("init")));
}

// The optimizer of a table determines the layout of its rows.
void TextModel::create_tables() {
  const auto has_lookup = [](const ModelValue& value) { return value.lookup.has_value(); };
  if (std::ranges::none_of(graph_.values, has_lookup)) {
    return;
  }
  const TablePlan plan = plan_tables(recipe_, graph_);
  std::vector<TableUse> uses;
  for (const PlannedTable& table : plan.tables) {
    uses.push_back(
        {table.spec,
         SparseOptimizerProxy(factory_.create(table.optimizer, "tables/" + table.spec.name)),
         table.lr,
         table.clip_row_norm});
  }
  tables_.emplace(std::move(uses), plan.lookups, platform_.exec());
  rows_.emplace(*tables_, plan.values);
  features_.emplace(factory_);
}

SavedModel TextModel::load(const CheckpointReader& reader, WhichParameters which) {
  SavedModel saved = saved_model(reader, reader.state(0, 1, nullptr), which);
  const StateTree& state = saved.state;
  const SavedWeights complete(  // or throws
      state,
      reader.address(),
      own_layout_map(graph_).weights,
      std::nullopt);
  store_->load(state, run_state::kParameters);
  if (tables_) {
    tables_->load(state, run_state::kTables);
  }
  if (!saved.best.has_value()) {
    SavedEvaluationValues(reader, recipe_, trained_graph_, factory_).convert(*store_);
  }
  store_->publish();
  return saved;
}

void TextModel::load(const WeightsImportRequest& weights) {
  const WeightsImport imported(model_.instance(), graph_, weights);
  imported.load(*store_);
  if (const auto config = imported.text(kGenerationConfig)) {
    generator_->end_at(end_ids_of(*config, weights.from + "/" + kGenerationConfig));
  }
}

void TextModel::end_turns_of(const std::string& chat_template) {
  if (const auto end = turn_end(tokenizer_, chat_template)) {
    generator_->end_at({*end});
  }
}

GeneratedText TextModel::generate(const std::vector<int32_t>& prompt,
                                  const Sampling& sampling,
                                  int64_t max_tokens,
                                  const std::function<void(const std::string& piece)>& print) {
  const auto signals = process_.watch_signals(SignalWatch::Second::kEnds);
  SignalWatch::keep_from_compute_threads();
  GeneratedText made = generator_->generate(prompt, sampling, max_tokens, print);
  if (made.end == TextEnd::kNonFinite) {
    throw Error("generate.not_possible",
                "the model's logits are NaN or all -infinity; its parameters are probably "
                "non-finite: use an earlier checkpoint (--from)");
  }
  return made;
}

}  // namespace tenon
