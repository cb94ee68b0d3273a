// SPDX-License-Identifier: Apache-2.0
//
// A trained model and its tokenizer, ready to continue texts: the recipe's model with the weights
// of a checkpoint or of another program, on one rank. Needs no data, no losses and no optimizer of
// parameters. A model with lookups has its tables, with the rows of the checkpoint, and the
// features that compute their ids. Threads: [main], which is the train thread here.
#pragma once

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/device/gpu_files.hpp"
#include "host/embedding/table_set.hpp"
#include "host/model/parameter_store.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/plugin/registry.hpp"
#include "host/plugin/tokenizer_proxy.hpp"
#include "host/process/process.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/generate/text_generator.hpp"
#include "host/train/pretrained/saved_model.hpp"
#include "host/train/run/run_platform.hpp"
#include "host/train/run/text_features.hpp"
#include "host/train/table_rows.hpp"
#include "host/train/weights/weights_request.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

class TextModel {
 public:
  // Where the weights will come from. Those of another program have no parametrizations: adapters
  // of the recipe are omitted.
  enum class Weights { kOfRun, kOfOther };

  // Creates model and tokenizer, and allocates parameters without values. The recipe, the registry
  // and the process are borrowed.
  // Errors  generate.no_tokenizer if no component of the recipe has a tokenizer; device.*; table.* and
  //         data.bad_feature for a model with lookups; errors of the plugins
  TextModel(const Recipe& recipe,
            PluginRegistry& registry,
            Process& process,
            const GpuFiles& gpu,
            Weights weights);
  TextModel(const TextModel&) = delete;
  TextModel& operator=(const TextModel&) = delete;

  const TokenizerProxy& tokenizer() const { return tokenizer_; }
  // The chat template that the training data uses in place of the tokenizer's; "" if none.
  const std::string& chat_template() const { return chat_template_; }
  // Texts also end where an answer ends in this template.
  void end_turns_of(const std::string& chat_template);
  // As TextGenerator::prompt_ids.
  std::vector<int32_t> prompt_ids(const std::string& prompt) const {
    return generator_->prompt_ids(prompt);
  }

  // Load the weights of all parameters. Rows of tables come only from a checkpoint. Of a checkpoint
  // with values of evaluation, such as averages, these are used. Returns what was loaded, for a
  // message.
  // Errors  weights.*; table.bad_state; checkpoint.damaged; checkpoint.no_best; storage.io
  SavedModel load(const CheckpointReader& reader, WhichParameters which);
  void load(const WeightsImportRequest& weights);

  // Continues a prompt of at least one token, and passes the new text to `print`, in pieces that
  // are valid UTF-8. Returns early if the process was asked to stop.
  // Errors  generate.not_possible; errors of the plugins and of `print`
  GeneratedText generate(const std::vector<int32_t>& prompt,
                         const Sampling& sampling,
                         int64_t max_tokens,
                         const std::function<void(const std::string& piece)>& print);

 private:
  void create_tables();

  const Recipe& recipe_;
  Process& process_;
  RunRequest request_;
  RunPlatform platform_;
  ComponentFactory factory_;
  ModelProxy model_;
  ModelGraph trained_graph_;
  ModelGraph graph_;  // the same, without parameters to train
  std::optional<ParameterStore> store_;
  ComponentInstance tokenizer_instance_;
  TokenizerProxy tokenizer_;
  std::string chat_template_;  // of the training data; "": the tokenizer's
  // If the model looks up rows:
  std::optional<TextFeatures> features_;
  std::optional<TableSet> tables_;
  std::optional<TableRows> rows_;

  std::optional<TextGenerator> generator_;
};

}  // namespace tenon
