// SPDX-License-Identifier: Apache-2.0
//
// The config.json of Hugging Face's LlamaForCausalLM: written from the model's options, and
// compared with them. Compares only keys that affect the computation.
// Threads: any.
#ifndef TENON_LLAMA_HF_CONFIG_HPP
#define TENON_LLAMA_HF_CONFIG_HPP

#include <tenon/cpp/text.hpp>
#include <tenon/cpp/weights_layout.hpp>

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

struct HfConfig {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 0;
  double rope_theta = 0;
  bool tie_word_embeddings = false;
  double initializer_range = 0;
  double dropout = 0;
  std::string rope_type = "default";
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 1;
  int64_t original_max_position_embeddings = 0;
};

// Round-trips exactly. Always has a point or an exponent, since some readers require it for floats.
inline std::string number_text(double value) {
  std::ostringstream out;
  for (int digits = 6; digits <= std::numeric_limits<double>::max_digits10; ++digits) {
    out.str("");
    out.precision(digits);
    out << value;
    if (std::stod(out.str()) == value) {
      break;
    }
  }
  const std::string text = out.str();
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

// The rotary keys as JSON members, for "rope_parameters" and "rope_scaling".
inline std::string rope_members(const HfConfig& c, const std::string& indent) {
  std::string text = indent + "\"rope_type\": \"" + c.rope_type + "\"";
  if (c.rope_type != "default") {
    text += ",\n" + indent + "\"factor\": " + number_text(c.factor);
  }
  if (c.rope_type == "llama3") {
    text += ",\n" + indent + "\"low_freq_factor\": " + number_text(c.low_freq_factor) + ",\n" +
            indent + "\"high_freq_factor\": " + number_text(c.high_freq_factor) + ",\n" + indent +
            "\"original_max_position_embeddings\": " +
            std::to_string(c.original_max_position_embeddings);
  }
  return text;
}

inline std::string hf_config_text(const HfConfig& c, uint32_t dtype) {
  const char* const type = dtype == TENON_BF16  ? "bfloat16"
                           : dtype == TENON_F16 ? "float16"
                           : dtype == TENON_F64 ? "float64"
                                                : "float32";
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  // Writes both the old rotary keys and the newer object, so that all transformers releases read
  // it.
  const std::string scaling =
      c.rope_type == "default" ? std::string("null") : "{\n" + rope_members(c, "    ") + "\n  }";
  return tenon::concat("{\n  \"architectures\": [\"LlamaForCausalLM\"],\n",
                       "  \"model_type\": \"llama\",\n",
                       "  \"vocab_size\": ",
                       c.vocab_size,
                       ",\n  \"hidden_size\": ",
                       c.hidden_size,
                       ",\n  \"intermediate_size\": ",
                       c.intermediate_size,
                       ",\n  \"num_hidden_layers\": ",
                       c.num_hidden_layers,
                       ",\n  \"num_attention_heads\": ",
                       c.num_attention_heads,
                       ",\n  \"num_key_value_heads\": ",
                       c.num_key_value_heads,
                       ",\n  \"head_dim\": ",
                       c.head_dim,
                       ",\n  \"max_position_embeddings\": ",
                       c.max_position_embeddings,
                       ",\n  \"hidden_act\": \"silu\",\n  \"attention_bias\": false,\n",
                       "  \"mlp_bias\": false,\n  \"attention_dropout\": ",
                       number_text(c.dropout),
                       ",\n  \"rms_norm_eps\": ",
                       number_text(c.rms_norm_eps),
                       ",\n  \"rope_theta\": ",
                       number_text(c.rope_theta),
                       ",\n  \"rope_scaling\": ",
                       scaling,
                       ",\n  \"rope_parameters\": {\n    \"rope_theta\": ",
                       number_text(c.rope_theta),
                       ",\n",
                       rope_members(c, "    "),
                       "\n  },\n  \"tie_word_embeddings\": ",
                       flag(c.tie_word_embeddings),
                       ",\n  \"initializer_range\": ",
                       number_text(c.initializer_range),
                       ",\n  \"bos_token_id\": null,\n  \"eos_token_id\": null,\n",
                       "  \"pad_token_id\": null,\n  \"torch_dtype\": \"",
                       type,
                       "\",\n  \"dtype\": \"",
                       type,
                       "\"\n}\n");
}

// Reads a config.json key by key. Missing or null keys have LlamaConfig's defaults.
class HfConfigReader {
 public:
  HfConfigReader(const tenon::OptionReader& config, tenon::LayoutDifferences& differences)
      : config_(config), differences_(differences) {}

  bool has(const std::string& pointer) const {
    const uint32_t kind = config_.kind(pointer);
    return kind != TENON_OPTION_ABSENT && kind != TENON_OPTION_NULL;
  }
  std::string text(const std::string& pointer, const std::string& otherwise) const {
    return has(pointer) ? config_.get_string(pointer) : otherwise;
  }
  double number(const std::string& pointer, double otherwise) const {
    return has(pointer) ? config_.get_double(pointer) : otherwise;
  }
  int64_t integer(const std::string& pointer, int64_t otherwise) const {
    return has(pointer) ? config_.get_int(pointer) : otherwise;
  }
  bool flag(const std::string& pointer, bool otherwise) const {
    return has(pointer) ? config_.get_bool(pointer) : otherwise;
  }

  void compare(const std::string& option, int64_t here, int64_t there) {
    if (here != there) {
      differences_.add(option, std::to_string(here), std::to_string(there));
    }
  }
  void compare(const std::string& option, double here, double there) {
    if (here != there) {
      differences_.add(option, number_text(here), number_text(there));
    }
  }
  void compare(const std::string& option, const std::string& here, const std::string& there) {
    if (here != there) {
      differences_.add(option, here, there);
    }
  }
  void compare(const std::string& option, bool here, bool there) {
    compare(option, std::string(here ? "true" : "false"), std::string(there ? "true" : "false"));
  }

 private:
  const tenon::OptionReader& config_;
  tenon::LayoutDifferences& differences_;
};

inline void compare_hf_config(const HfConfig& here,
                              const tenon::OptionReader& config,
                              tenon::LayoutDifferences& differences) {
  HfConfigReader r(config, differences);
  r.compare("model_type", std::string("llama"), r.text("/model_type", "llama"));
  r.compare("vocab_size", here.vocab_size, r.integer("/vocab_size", 32000));
  const int64_t width = r.integer("/hidden_size", 4096);
  const int64_t heads = r.integer("/num_attention_heads", 32);
  r.compare("hidden_size", here.hidden_size, width);
  r.compare("intermediate_size", here.intermediate_size, r.integer("/intermediate_size", 11008));
  r.compare("num_hidden_layers", here.num_hidden_layers, r.integer("/num_hidden_layers", 32));
  r.compare("num_attention_heads", here.num_attention_heads, heads);
  r.compare(
      "num_key_value_heads", here.num_key_value_heads, r.integer("/num_key_value_heads", heads));
  if (r.has("/head_dim")) {
    r.compare("head_dim (hidden_size / num_attention_heads here)",
              here.head_dim,
              r.integer("/head_dim", 0));
  }
  r.compare("rms_norm_eps", here.rms_norm_eps, r.number("/rms_norm_eps", 1e-6));
  r.compare("tie_word_embeddings", here.tie_word_embeddings, r.flag("/tie_word_embeddings", false));
  r.compare("hidden_act", std::string("silu"), r.text("/hidden_act", "silu"));
  r.compare("attention_bias", false, r.flag("/attention_bias", false));
  r.compare("mlp_bias", false, r.flag("/mlp_bias", false));

  // Newer releases have one object; older ones have a theta key and a scaling object.
  const std::string rope = r.has("/rope_parameters") ? "/rope_parameters" : "/rope_scaling";
  const double theta = r.number(rope + "/rope_theta", r.number("/rope_theta", 10000.0));
  r.compare("rope_theta", here.rope_theta, theta);
  const std::string type = r.text(rope + "/rope_type", r.text(rope + "/type", "default"));
  r.compare("rope_scaling.rope_type", here.rope_type, type);
  if (type != here.rope_type || type == "default") {
    return;
  }
  r.compare("rope_scaling.factor", here.factor, r.number(rope + "/factor", 1.0));
  if (type == "llama3") {
    r.compare("rope_scaling.low_freq_factor",
              here.low_freq_factor,
              r.number(rope + "/low_freq_factor", 1.0));
    r.compare("rope_scaling.high_freq_factor",
              here.high_freq_factor,
              r.number(rope + "/high_freq_factor", 4.0));
    r.compare("rope_scaling.original_max_position_embeddings",
              here.original_max_position_embeddings,
              r.integer(rope + "/original_max_position_embeddings",
                        r.integer("/max_position_embeddings", 2048)));
  }
}

#endif
