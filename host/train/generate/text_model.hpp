// SPDX-License-Identifier: Apache-2.0
//
// A trained model and its tokenizer, ready to continue texts: the recipe's model with the weights
// of a checkpoint or of another program, on one rank. Needs no data, no losses and no optimizer of
// parameters. A model with lookups has its tables, with the rows of the checkpoint, and the
// features that compute their ids. Threads: [main], which is the train thread here.
#pragma once

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/device/gpu_places.hpp"
#include "host/embedding/table_set.hpp"
#include "host/model/parameter_store.hpp"
#include "host/model/sequence_runner.hpp"
#include "host/plugin/generation_proxy.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/plugin/registry.hpp"
#include "host/plugin/tokenizer_proxy.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/generate/text_features.hpp"
#include "host/train/generate/token_sampler.hpp"
#include "host/train/run/run_platform.hpp"
#include "host/train/run/table_rows.hpp"
#include "host/train/weights/weights_request.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// Why a text ended.
enum class TextEnd { kEos, kMaxTokens, kMaxPositions, kStopped };

struct GeneratedText {
  size_t num_prompt_tokens = 0;
  size_t num_tokens = 0;  // without the prompt and without the end of the text
  TextEnd end = TextEnd::kMaxTokens;
  double prompt_seconds = 0;  // until the first token
  double seconds = 0;         // of the tokens after the first

  // Returns a line for people.
  std::string text() const;
};

class TextModel {
 public:
  // Where the weights will come from. Those of another program have no parametrizations: adapters
  // of the recipe are omitted.
  enum class Weights { kOfRun, kOfOther };

  // Creates model and tokenizer, and allocates parameters without values. The recipe and the
  // registry are borrowed.
  // Errors  generate.no_tokenizer if no component of the recipe has a tokenizer; device.*; table.* and
  //         data.bad_feature for a model with lookups; errors of the plugins
  TextModel(const Recipe& recipe, PluginRegistry& registry, const GpuPlaces& gpu, Weights weights);
  TextModel(const TextModel&) = delete;
  TextModel& operator=(const TextModel&) = delete;

  const TokenizerProxy& tokenizer() const { return tokenizer_; }

  // Load the weights of all parameters. Rows of tables come only from a checkpoint. Of a checkpoint
  // with values of evaluation, such as averages, these are used.
  // Errors  weights.*; table.bad_state; checkpoint.damaged; storage.io
  void load(const CheckpointReader& reader);
  void load(const WeightsImportRequest& weights);

  // Encodes a text to continue, with the tokens that the tokenizer puts around a text, except those
  // that end it.
  // Errors  generate.not_possible for an empty text that nothing can start; errors of the tokenizer
  std::vector<int32_t> prompt_ids(const std::string& prompt) const;

  // Continues a prompt of at least one token, and passes the new text to `print`, in pieces that
  // are valid UTF-8. Returns early if the process was asked to stop.
  // Errors  generate.not_possible; errors of the plugins and of `print`
  GeneratedText generate(const std::vector<int32_t>& prompt,
                         const Sampling& sampling,
                         int64_t max_tokens,
                         const std::function<void(const std::string& piece)>& print);

 private:
  void find_generation();
  void create_tables();
  SequenceInputs inputs();

  const Recipe& recipe_;
  RunRequest request_;
  RunPlatform platform_;
  ComponentFactory factory_;
  ModelProxy model_;
  ModelGraph trained_graph_;
  ModelGraph graph_;  // the same, without parameters to train
  std::optional<ParameterStore> store_;
  ComponentInstance tokenizer_instance_;
  TokenizerProxy tokenizer_;
  std::optional<GenerationProxy> generation_;  // nothing: without caches
  // If the model looks up rows:
  std::optional<TextFeatures> features_;
  std::optional<TableSet> tables_;
  std::optional<TableRows> rows_;
};

}  // namespace tenon
