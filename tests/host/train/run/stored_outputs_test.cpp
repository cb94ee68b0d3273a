// SPDX-License-Identifier: Apache-2.0
//
// Outputs of a reference that are stored before a run; tests/recipes/stored_outputs_test.cpp
// compares whole runs.
#include "host/train/run/stored_outputs.hpp"

#include "host/data/batch_builder.hpp"
#include "host/process/signal_watch.hpp"
#include "host/train/run_plan/run_plan.hpp"

#include <ATen/Functions.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "tests/host/train/run/run_rig.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string stored_patch() {
  const std::string reference = (source_dir() / "tests/parity/hf_tied").string();
  return R"({
    "model": {"type": "llama", "options": {
      "in_features": null, "hidden": null, "out_features": null,
      "vocab_size": 64, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
      "num_attention_heads": 2, "num_key_value_heads": 2}},
    "models": {"reference": {"type": "llama", "optimizer": false, "outputs": "stored",
      "load": [{"from": ")" +
         reference + R"("}], "options": {
      "vocab_size": 64, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
      "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,
      "rms_norm_eps": 1e-5, "rope_theta": 500.0, "tie_word_embeddings": true,
      "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                       "high_freq_factor": 4.0, "original_max_position_embeddings": 8}}}},
    "data": {"batch_size": 4, "train": {"type": "pair_rows", "options": {"samples": 10}}},
    "loss": {"type": "preference"}, "metrics": null})";
}

at::Tensor stored_field(const RunPlan& plan) {
  DataSource& source = plan.data.train->source();
  std::vector<int64_t> indices(static_cast<size_t>(source.size(nullptr)));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  BatchBuilder builder(source, source.size(nullptr));
  source.read(nullptr, indices, builder.writer());
  const Batch batch = builder.finish();
  const at::Tensor labels_BT = *batch.find("labels");
  const at::Tensor logps_BT = *batch.find("reference/token_logps");
  CHECK(logps_BT.masked_select(labels_BT.eq(-100)).eq(0).all().item<bool>());
  return logps_BT.masked_select(labels_BT.ne(-100));
}

}  // namespace

TEST_CASE("batches have the stored log-probabilities of a reference at their labels", "[train]") {
  const ScratchFolder cache;
  ::setenv("TENON_CACHE", cache.path().c_str(), 1);
  RunRig rig(stored_patch());
  const SignalWatch signals;
  const auto plan = rig.plan();
  CHECK(plan->model.models->members().size() == 1);
  CHECK(plan->model.graph.num_elements() == plan->model.trained_graph().num_elements());
  CHECK(stored_field(*plan).eq(0).all().item<bool>());  // not computed yet
  const auto fingerprints = store_outputs(rig.context(), *plan, signals);
  REQUIRE(fingerprints.has_value());
  const at::Tensor logps = stored_field(*plan);
  CHECK(logps.scalar_type() == at::kFloat);
  CHECK(logps.lt(0).all().item<bool>());
  CHECK(fingerprints->at("reference").size() == 16);
  // The same values are read again.
  const auto again = rig.plan();
  REQUIRE(store_outputs(rig.context(), *again, signals).has_value());
  CHECK(at::equal(stored_field(*again), logps));
  CHECK_THAT(rig.log(), contains_text("model 'reference': computing token_logps for dataset"));
  ::unsetenv("TENON_CACHE");
}

}  // namespace tenon
