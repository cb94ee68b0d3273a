// SPDX-License-Identifier: Apache-2.0
//
// Texts of the model in training. The parameters are those of the run, gathered block by block;
// nothing is copied. The blocks are those that the model declares: the run skips blocks that
// nothing reads in training, such as a head.
// Invariant: training does not change by a bit.
// Threads: the train thread; every rank calls the same functions.
#pragma once

#include "host/distributed/collectives/group.hpp"
#include "host/model/parameter_store.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/plugin/tokenizer_proxy.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/evaluation_values.hpp"
#include "host/train/generate/text_generator.hpp"
#include "host/train/text_source.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct ModelServices;
struct RunPlan;

class RunTexts final : public TextSource {
 public:
  // All are borrowed and outlive this object.
  RunTexts(const RunPlan& plan, ModelServices& model, Group& ranks)
      : plan_(plan), model_(model), ranks_(ranks) {}

  void check(const TextRequest& request) override;
  WrittenText generate(const TextRequest& request, uint64_t step) override;

 private:
  TextGenerator& generator();
  std::vector<int32_t> ids_of(const TextRequest& request);

  const RunPlan& plan_;
  ModelServices& model_;
  Group& ranks_;
  // Created with the first text.
  std::optional<ComponentInstance> tokenizer_instance_;
  std::optional<TokenizerProxy> tokenizer_;
  std::string chat_template_;  // of the training data; "": the tokenizer's
  std::optional<TextGenerator> generator_;
};

}  // namespace tenon
