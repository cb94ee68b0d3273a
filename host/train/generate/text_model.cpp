// SPDX-License-Identifier: Apache-2.0
#include "host/train/generate/text_model.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/model/sequence_runner.hpp"
#include "host/plugin/component_identity.hpp"
#include "host/tensor/philox.hpp"
#include "host/tensor/stop_flag.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/text/seconds_text.hpp"
#include "host/train/components/recipe_model.hpp"
#include "host/train/components/recipe_parametrizations.hpp"
#include "host/train/components/recipe_tables.hpp"
#include "host/train/components/recipe_tokenizer.hpp"
#include "host/train/generate/text_stream.hpp"
#include "host/train/pretrained/saved_evaluation_values.hpp"
#include "host/train/run_state/run_state_names.hpp"
#include "host/train/signal_watch.hpp"
#include "host/train/weights/layout_files.hpp"
#include "host/train/weights/weight_places.hpp"
#include "host/train/weights/weights_import.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Errors   generate.no_tokenizer
ComponentUse tokenizer_of(const Recipe& recipe) {
  const ComponentUse* const found = find_tokenizer(recipe);
  if (found == nullptr) {
    throw Error("generate.no_tokenizer",
                recipe.file +
                    ": no component of the recipe has a tokenizer, and text cannot be converted to "
                    "tokens; --generate is for models that are trained on text");
  }
  return *found;
}

RunRequest request_with(const GpuPlaces& gpu) {
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

ParameterLayout layout_on(const RunPlatform& platform) {
  ParameterLayout layout;
  layout.dtype = platform.precision().stored;
  layout.seen_dtype = platform.precision().compute;
  layout.device = platform.device();
  layout.partition_of = [](uint32_t) { return 0U; };
  return layout;
}

ExecBase exec_on_cpu(ExecBase exec) {
  exec.device = at::kCPU;
  exec.stream = nullptr;
  return exec;
}

const char* text_of(TextEnd end) {
  switch (end) {
    case TextEnd::kEos:
      return "the text ended";
    case TextEnd::kMaxTokens:
      return "--max-tokens reached";
    case TextEnd::kMaxPositions:
      return "the model's longest sequence reached";
    case TextEnd::kStopped:
      break;
  }
  return "stopped";
}

}  // namespace

std::string GeneratedText::text() const {
  std::string rate;
  if (num_tokens > 1 && seconds > 0) {
    char number[32];
    std::snprintf(number, sizeof(number), "%.1f", static_cast<double>(num_tokens - 1) / seconds);
    rate = formatted(", {} tokens/s", number);
  }
  return formatted("prompt of {} in {}; {}{}; {}",
                   counted(num_prompt_tokens, "token"),
                   seconds_text(prompt_seconds),
                   counted(num_tokens, "token"),
                   rate,
                   text_of(end));
}

TextModel::TextModel(const Recipe& recipe,
                     PluginRegistry& registry,
                     const GpuPlaces& gpu,
                     Weights weights)
    : recipe_(recipe),
      request_(request_with(gpu)),
      platform_(recipe, request_, RunPlatform::Purpose::kCheck),
      factory_(registry, prepared(platform_, recipe), platform_.mesh_view()),
      model_(factory_.create(recipe.model.use, "model")),
      trained_graph_(graph_for(model_, recipe.model, factory_, weights)),
      graph_(untrained_graph(trained_graph_)),
      tokenizer_instance_(factory_.create(tokenizer_of(recipe), "tokenizer")),
      tokenizer_(tokenizer_instance_) {
  find_generation();
  store_.emplace(graph_, layout_on(platform_));
  const ExecFrame frame(model_.instance().host(), exec_on_cpu(platform_.exec()));
  store_->initialise(model_, frame.exec(), mix_seeds(recipe.seed, stream_of("init")));
  create_tables();
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

SequenceInputs TextModel::inputs() {
  return {.fields = features_ ? &*features_ : nullptr, .rows = rows_ ? &*rows_ : nullptr};
}

// Says once if the model cannot use caches.
void TextModel::find_generation() {
  std::string why = "its plugin does not implement tenon.generation/1";
  generation_ = GenerationProxy::of(model_.instance());
  if (generation_.has_value()) {
    try {
      generation_->describe();
    } catch (const PluginError& error) {
      if (error.code() != TENON_UNSUPPORTED) {
        throw;
      }
      why = error.message();
      generation_.reset();
    }
  }
  if (!generation_.has_value()) {
    log_warning(model_.instance().identity().describe() +
                " has no caches for generation: each token runs the whole text again (" + why +
                ")");
  }
}

void TextModel::load(const CheckpointReader& reader) {
  const SavedWeights complete(reader, own_places(graph_).weights, std::nullopt);  // or throws
  const auto state = reader.state(0, 1, nullptr);
  store_->load(state, run_state::kParameters);
  if (tables_) {
    tables_->load(state, run_state::kTables);
  }
  SavedEvaluationValues(reader, recipe_, trained_graph_, factory_).convert(*store_);
  store_->publish();
}

void TextModel::load(const WeightsImportRequest& weights) {
  WeightsImport(model_.instance(), graph_, weights).load(*store_);
}

std::vector<int32_t> TextModel::prompt_ids(const std::string& prompt) const {
  const TokenizerInfo& info = tokenizer_.info();
  std::vector<int32_t> ids =
      tokenizer_.has_pieces()
          ? tokenizer_.encode({{.text = prompt, .is_template = false}}, /*adds_around=*/true)
          : tokenizer_.encode(prompt);
  if (!prompt.empty() && !ids.empty() && ids.back() == info.eos) {
    ids.pop_back();
  }
  if (ids.empty()) {
    const int64_t start = info.bos >= 0 ? info.bos : info.eos;
    if (start < 0) {
      throw Error("generate.not_possible",
                  "the prompt is empty, and the tokenizer has no token that starts a text; give a "
                  "prompt of at least one character");
    }
    ids.push_back(static_cast<int32_t>(start));
  }
  return ids;
}

GeneratedText TextModel::generate(const std::vector<int32_t>& ids,
                                  const Sampling& sampling,
                                  int64_t max_tokens,
                                  const std::function<void(const std::string& piece)>& print) {
  const SignalWatch signals(SignalWatch::Second::kEnds);
  const TokenizerInfo& info = tokenizer_.info();
  const auto num_prompt = static_cast<int64_t>(ids.size());
  const int64_t capacity = num_prompt + max_tokens;
  const std::unique_ptr<SequenceRunner> sequence =
      generation_.has_value()
          ? cached_sequence(model_, *store_, platform_.exec(), *generation_, capacity, inputs())
          : whole_sequence(model_, *store_, platform_.exec(), inputs());
  const int64_t longest = sequence->max_positions().value_or(capacity);
  if (num_prompt >= longest) {
    throw Error("generate.not_possible",
                formatted("the prompt has {} tokens, and the model's sequences have at most {}; "
                          "shorten the prompt",
                          num_prompt,
                          longest));
  }
  const TokenSampler sampler(sampling, info.vocab_size);
  TextStream stream([this](const std::vector<int32_t>& all) { return tokenizer_.decode(all); },
                    ids);
  GeneratedText result{.num_prompt_tokens = ids.size()};
  std::vector<int64_t> next(ids.begin(), ids.end());
  Clock::time_point begin = Clock::now();
  for (int64_t position = num_prompt;; ++position) {
    const auto count = static_cast<int64_t>(result.num_tokens);
    if (count == max_tokens || position >= longest || is_stop_requested()) {
      result.end = count == max_tokens   ? TextEnd::kMaxTokens
                   : position >= longest ? TextEnd::kMaxPositions
                                         : TextEnd::kStopped;
      break;
    }
    const int64_t id = sampler.pick(sequence->append(next), static_cast<uint64_t>(position));
    if (result.num_tokens == 0) {
      result.prompt_seconds = seconds_since(begin);
      begin = Clock::now();
    }
    if (id == info.eos) {
      result.end = TextEnd::kEos;
      break;
    }
    ++result.num_tokens;
    next = {id};
    if (const std::string piece = stream.push(static_cast<int32_t>(id)); !piece.empty()) {
      print(piece);
    }
  }
  result.seconds = seconds_since(begin);
  if (const std::string rest = stream.finish(); !rest.empty()) {
    print(rest);
  }
  return result;
}

}  // namespace tenon
