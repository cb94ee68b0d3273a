// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/hf_names.hpp"

#include <set>
#include <string>

#include "tests/support/catch.hpp"

namespace tenon {

using TensorNames = std::set<std::string>;

TEST_CASE("buffers that transformers computes are ignored in its files", "[train]") {
  CHECK(is_computed_in_hf("model.layers.0.self_attn.rotary_emb.inv_freq", {32}));
  CHECK(is_computed_in_hf("h.0.attn.bias", {1, 1, 1024, 1024}));
  CHECK(is_computed_in_hf("h.0.attn.masked_bias", {}));
  CHECK_FALSE(is_computed_in_hf("h.0.attn.bias", {64}));
  CHECK_FALSE(is_computed_in_hf("model.layers.0.self_attn.q_proj.bias", {64}));
  CHECK_FALSE(is_computed_in_hf("model.my_inv_freq", {64}));
}

TEST_CASE("a folder of a base model lacks the prefix of the model with a head", "[train]") {
  const TensorNames here = {"transformer.wte.weight",
                            "transformer.h.0.ln_1.weight",
                            "transformer.ln_f.weight",
                            "lm_head.weight"};
  const HfPrefix hub({"wte.weight", "h.0.ln_1.weight", "ln_f.weight"}, here);
  CHECK(hub.here("wte.weight") == "transformer.wte.weight");
  CHECK(hub.here("lm_head.weight") == "lm_head.weight");
  CHECK_FALSE(hub.is_other_part("wte.weight"));
  const HfPrefix same(here, here);
  CHECK(same.here("wte.weight") == "wte.weight");
}

TEST_CASE("the text of a model with images is found in its folder", "[train]") {
  const TensorNames here = {
      "model.embed_tokens.weight", "model.layers.0.a.weight", "model.norm.weight"};
  const HfPrefix old({"language_model.model.embed_tokens.weight",
                      "language_model.model.layers.0.a.weight",
                      "language_model.model.norm.weight",
                      "vision_tower.a.weight"},
                     here);
  CHECK(old.here("language_model.model.norm.weight") == "model.norm.weight");
  CHECK(old.is_other_part("vision_tower.a.weight"));
  CHECK_FALSE(old.is_other_part("language_model.model.norm.weight"));
  const HfPrefix now({"model.language_model.embed_tokens.weight",
                      "model.language_model.layers.0.a.weight",
                      "model.language_model.norm.weight",
                      "model.vision_tower.a.weight"},
                     here);
  const HfPrefix nested({"model.language_model.model.embed_tokens.weight",
                         "model.language_model.model.layers.0.a.weight",
                         "model.language_model.model.norm.weight"},
                        here);
  CHECK(nested.here("model.language_model.model.norm.weight") == "model.norm.weight");
  CHECK(now.here("model.language_model.norm.weight") == "model.norm.weight");
  CHECK(now.is_other_part("model.vision_tower.a.weight"));
}

TEST_CASE("a config.json tells its text and its quantization", "[train]") {
  CHECK(text_config(R"({"a": 1})") == R"({"a": 1})");
  CHECK(text_config(R"({"model_type": "gemma3", "text_config": {"a":1}})") == R"({"a":1})");
  CHECK_FALSE(quantization_of("{}").has_value());
  CHECK_FALSE(quantization_of(R"({"quantization_config": null})").has_value());
  CHECK(quantization_of(R"({"quantization_config": {"quant_method": "gptq"}})") == "gptq");
  CHECK(quantization_of(R"({"quantization_config": {}})") == "unknown");
}

}  // namespace tenon
