// SPDX-License-Identifier: Apache-2.0
//
// The config.json of a Hugging Face folder: written from a model's options, and compared with them.
// A model lists its keys once:
//
//     tenon::HfConfig c("qwen2", "Qwen2ForCausalLM");
//     c.key("vocab_size", o.vocab_size, 151936);
//     c.fixed("hidden_act", "silu");
//
// Threads: any.
#ifndef TENON_DECODER_HF_CONFIG_HPP
#define TENON_DECODER_HF_CONFIG_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/options.hpp>
#include <tenon/cpp/text.hpp>
#include <tenon/cpp/weights_layout.hpp>
#include <tenon/decoder/rotary.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* A value of config.json as JSON text. Numbers round-trip, and floats have a point or an exponent,
 * since some readers require it. */
class HfValue {
 public:
  enum class Type { kBool, kInteger, kNumber, kText, kList };

  HfValue(bool value) : type_(Type::kBool), text_(value ? "true" : "false") {}  // NOLINT: a value
  HfValue(const char* value) : HfValue(std::string(value)) {}                   // NOLINT: a value
  HfValue(const std::string& value) : type_(Type::kText), text_(json_string(value)) {}  // NOLINT
  template <class T, std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>, int> = 0>
  HfValue(T value)  // NOLINT(google-explicit-constructor): a value
      : type_(std::is_integral_v<T> ? Type::kInteger : Type::kNumber) {
    if constexpr (std::is_integral_v<T>) {
      text_ = std::to_string(value);
    } else {
      text_ = number(value);
    }
  }
  template <class T>
  HfValue(const std::vector<T>& values) : type_(Type::kList) {  // NOLINT: a value
    text_ = "[";
    for (const T& value : values) {
      text_ += (text_.size() == 1 ? "" : ", ") + HfValue(value).text();
    }
    text_ += "]";
  }
  /* Null if absent. Null in a file is then a value; otherwise it means that the key is absent. */
  template <class T>
  HfValue(const std::optional<T>& value)  // NOLINT(google-explicit-constructor): a value
      : HfValue(value.has_value() ? HfValue(*value) : HfValue(T{})) {
    text_ = value.has_value() ? text_ : "null";
    is_nullable_ = true;
  }

  Type type() const { return type_; }
  const std::string& text() const { return text_; }
  /* As in messages: strings without quotes. */
  std::string shown() const {
    return type_ == Type::kText && text_ != "null" ? text_.substr(1, text_.size() - 2) : text_;
  }

  /* Returns the value of `config` at `pointer`, read as this type; `otherwise` if there is none.
   *
   * Errors   TENON_INVALID for a value of another type, with its pointer */
  static HfValue read(const OptionReader& config,
                      const std::string& pointer,
                      const HfValue& like,
                      const HfValue& otherwise) {
    const uint32_t kind = config.kind(pointer);
    if (kind == TENON_OPTION_ABSENT || (kind == TENON_OPTION_NULL && !like.is_nullable_)) {
      return otherwise;
    }
    HfValue found = like;
    if (kind == TENON_OPTION_NULL) {
      found.text_ = "null";
      return found;
    }
    switch (like.type_) {
      case Type::kBool:
        return HfValue(config.get_bool(pointer));
      case Type::kInteger:
        return HfValue(config.get_int(pointer));
      case Type::kNumber:
        return HfValue(config.get_double(pointer));
      case Type::kText:
        return HfValue(config.get_string(pointer));
      case Type::kList:
        break;
    }
    found.text_ = "[";
    const bool is_real = like.text_.find('.') != std::string::npos;
    for (size_t i = 0; i < config.get_count(pointer); ++i) {
      const std::string item = pointer + "/" + std::to_string(i);
      const uint32_t item_kind = config.kind(item);
      found.text_ += i == 0 ? "" : ", ";
      found.text_ += item_kind == TENON_OPTION_STRING ? json_string(config.get_string(item))
                     : is_real || item_kind == TENON_OPTION_DOUBLE
                         ? number(config.get_double(item))
                         : std::to_string(config.get_int(item));
    }
    found.text_ += "]";
    return found;
  }

  /* Whether both are the same value; 1 equals 1.0. */
  bool equals(const HfValue& other) const {
    return text_ == other.text_ || text_ + ".0" == other.text_ || text_ == other.text_ + ".0";
  }

 private:
  static std::string number(double value) {
    std::ostringstream out;
    out.imbue(std::locale::classic());
    for (int digits = 6; digits <= std::numeric_limits<double>::max_digits10; ++digits) {
      out.str("");
      out.precision(digits);
      out << value;
      if (std::strtod(out.str().c_str(), nullptr) == value) {
        break;
      }
    }
    const std::string text = out.str();
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }

  Type type_;
  std::string text_;
  bool is_nullable_ = false;
};

/* The keys of a config.json, in the order in which they are written. */
class HfConfig {
 public:
  HfConfig(std::string model_type, std::string architecture)
      : model_type_(std::move(model_type)), architecture_(std::move(architecture)) {}

  /* A key that must equal an option of the model. `otherwise` is its value in a file that lacks it:
   * the default of transformers. `shown` names the option in differences. */
  void key(const std::string& name,
           const HfValue& here,
           const HfValue& otherwise,
           const std::string& shown = {}) {
    entries_.push_back({name, here, otherwise, shown.empty() ? name : shown, Use::kCompared});
  }
  /* A key that this model has with one value only. It is required in files if `otherwise`, the
   * default of transformers, differs. */
  void fixed(const std::string& name, const HfValue& only) { key(name, only, only); }
  void fixed(const std::string& name, const HfValue& only, const HfValue& otherwise) {
    key(name, only, otherwise);
  }
  /* A key that is written and not compared, because it does not affect the function. */
  void note(const std::string& name, const HfValue& here) {
    entries_.push_back({name, here, here, name, Use::kNoted});
  }
  /* A key that is compared if a file has it. */
  void optional(const std::string& name, const HfValue& here, const std::string& shown = {}) {
    entries_.push_back({name, here, here, shown.empty() ? name : shown, Use::kCompared});
  }

  /* The rotary table of all layers, in the old form (`rope_theta`, `rope_scaling`) and the new one
   * (`rope_parameters`), so that all releases of transformers read it. `theta` is the default of
   * the base, `partial` the rotated part of a head if it is an option, and `partial_default` its
   * default. */
  void rope(const RotaryTable& table,
            double theta = 10000.0,
            std::optional<double> partial = std::nullopt,
            double partial_default = 1.0) {
    ropes_ = {{"", "rope_theta", table, theta, partial, partial_default}};
  }
  /* The same for two kinds of layers. The old form has no scaling of local layers. */
  void rope(const RotaryTable& full, double theta, const RotaryTable& local, double local_theta) {
    ropes_ = {{"full_attention", "rope_theta", full, theta, std::nullopt, 1.0},
              {"sliding_attention", "rope_local_base_freq", local, local_theta, std::nullopt, 1.0}};
  }

  /* The value of `original_max_position_embeddings` in a file that lacks it, if the model's
   * configuration in transformers has a default. */
  void original_positions(int64_t otherwise) { original_default_ = otherwise; }

  const std::string& model_type() const { return model_type_; }

  /* The text of the file, for tensors of this dtype. */
  std::string text(uint32_t dtype) const {
    const std::string type = dtype == TENON_BF16  ? "bfloat16"
                             : dtype == TENON_F16 ? "float16"
                             : dtype == TENON_F64 ? "float64"
                                                  : "float32";
    std::string out = "{\n  \"architectures\": [" + json_string(architecture_) +
                      "],\n  \"model_type\": " + json_string(model_type_);
    for (const Entry& e : entries_) {
      out += ",\n  " + json_string(e.name) + ": " + e.here.text();
    }
    for (const Rope& rope : ropes_) {
      out += ",\n  " + json_string(rope.theta_key) + ": " + HfValue(rope.table.theta).text();
      if (rope.partial.has_value()) {
        out += ",\n  \"partial_rotary_factor\": " + HfValue(*rope.partial).text();
      }
    }
    if (!ropes_.empty()) {
      const RotaryTable& first = ropes_.front().table;
      out += ",\n  \"rope_scaling\": ";
      out += first.scaling.has_value() ? "{\n" + scaling_text(first, "    ") + "\n  }" : "null";
      out += ",\n  \"rope_parameters\": {\n";
      if (ropes_.size() == 1) {
        out += parameters_text(ropes_.front(), "    ");
      } else {
        for (size_t i = 0; i < ropes_.size(); ++i) {
          out += (i == 0 ? "    " : ",\n    ") + json_string(ropes_[i].layers) + ": {\n" +
                 parameters_text(ropes_[i], "      ") + "\n    }";
        }
      }
      out += "\n  }";
    }
    for (const char* const id : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
      out += ",\n  " + json_string(id) + ": null";
    }
    return out + ",\n  \"torch_dtype\": " + json_string(type) +
           ",\n  \"dtype\": " + json_string(type) + "\n}\n";
  }

  /* Reports each key of a file that contradicts the model.
   *
   * Errors   TENON_INVALID for a value of an unexpected type */
  void compare(const OptionReader& config, LayoutDifferences& differences) const {
    const auto check = [&](const std::string& shown, const HfValue& here, const HfValue& there) {
      if (!here.equals(there)) {
        differences.add(shown, here.shown(), there.shown());
      }
    };
    check("model_type",
          model_type_,
          HfValue::read(config, "/model_type", model_type_, HfValue(model_type_)));
    for (const Entry& e : entries_) {
      if (e.use == Use::kCompared) {
        check(e.shown, e.here, HfValue::read(config, "/" + e.name, e.here, e.otherwise));
      }
    }
    check_foreign(config, differences);
    for (const Rope& rope : ropes_) {
      compare_rope(config, rope, check);
      check_rope_keys(config, pointer_of(config, rope), differences);
    }
  }

 private:
  enum class Use { kCompared, kNoted };
  struct Entry {
    std::string name;
    HfValue here;
    HfValue otherwise;
    std::string shown;
    Use use;
  };
  struct Rope {
    std::string layers;     // key in rope_parameters; "" if there is one table
    std::string theta_key;  // of the old form
    RotaryTable table;
    double theta_default;
    std::optional<double> partial;
    double partial_default;
  };
  using Member = std::pair<const char*, HfValue>;

  // What defines a scaling, besides its type.
  static std::vector<Member> members(const RotaryTable& table) {
    std::vector<Member> out;
    if (!table.scaling.has_value()) {
      return out;
    }
    const RopeScaling& s = *table.scaling;
    const auto add = [&out](const char* name, const HfValue& value) {
      out.emplace_back(name, value);
    };
    if (s.rope_type != RopeType::kLongRope) {
      add("factor", s.factor);
    }
    if (s.rope_type == RopeType::kLlama3) {
      add("low_freq_factor", s.low_freq_factor);
      add("high_freq_factor", s.high_freq_factor);
    }
    if (s.rope_type != RopeType::kLinear) {
      add("original_max_position_embeddings", s.original_max_position_embeddings);
    }
    if (s.rope_type == RopeType::kYarn) {
      add("beta_fast", s.beta_fast);
      add("beta_slow", s.beta_slow);
      if (s.mscale.has_value()) {
        add("mscale", *s.mscale);
      }
      if (s.mscale_all_dim.has_value()) {
        add("mscale_all_dim", *s.mscale_all_dim);
      }
      if (!s.truncate) {
        add("truncate", s.truncate);
      }
    }
    if (s.rope_type == RopeType::kLongRope) {
      add("short_factor", s.short_factor);
      add("long_factor", s.long_factor);
    }
    if (s.attention_factor.has_value()) {
      add("attention_factor", *s.attention_factor);
    }
    return out;
  }

  static std::string scaling_text(const RotaryTable& table, const std::string& indent) {
    std::string out = indent + "\"rope_type\": " + json_string(rope_type_name(table.scaling));
    for (const auto& [name, value] : members(table)) {
      out += ",\n" + indent + json_string(name) + ": " + value.text();
    }
    return out;
  }

  static std::string parameters_text(const Rope& rope, const std::string& indent) {
    std::string out = indent + "\"rope_theta\": " + HfValue(rope.table.theta).text() + ",\n";
    if (rope.partial.has_value()) {
      out += indent + "\"partial_rotary_factor\": " + HfValue(*rope.partial).text() + ",\n";
    }
    return out + scaling_text(rope.table, indent);
  }

  // Reports keys that change the function of other models, unless they have the value that does
  // not. A model that has one of them lists it.
  void check_foreign(const OptionReader& config, LayoutDifferences& differences) const {
    static const std::vector<std::pair<const char*, const char*>> neutral = {
        {"alibi", "false"},
        {"attention_chunk_size", "null"},
        {"attn_logit_softcapping", "null"},
        {"clip_qkv", "null"},
        {"embedding_multiplier", "1.0"},
        {"final_logit_softcapping", "null"},
        {"logit_scale", "1.0"},
        {"logits_scaling", "1.0"},
        {"mlp_bias", "false"},
        {"n_routed_experts", "null"},
        {"num_experts", "null"},
        {"num_local_experts", "null"},
        {"parallel_attn", "false"},
        {"qk_layernorm", "false"},
        {"residual_multiplier", "1.0"},
        {"routed_scaling_factor", "1.0"},
        {"scale_emb", "1.0"},
        {"use_alibi", "false"},
        {"use_bidirectional_attention", "false"},
        {"use_parallel_residual", "false"},
        {"use_qk_norm", "false"}};
    for (const auto& [name, value] : neutral) {
      const std::string key = name;
      const auto counts_experts = [](const std::string& some) {
        return some.size() > 8 && some.compare(some.size() - 8, 8, "_experts") == 0;
      };
      const bool is_listed = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) {
        return e.name == key || (counts_experts(key) && counts_experts(e.name));
      });
      if (is_listed || !has(config, "/" + key)) {
        continue;
      }
      const std::string there = config.get_json("/" + key);
      if (there != value && there + ".0" != value) {
        differences.add(key, value, there);
      }
    }
  }

  static bool has(const OptionReader& config, const std::string& pointer) {
    const uint32_t kind = config.kind(pointer);
    return kind != TENON_OPTION_ABSENT && kind != TENON_OPTION_NULL;
  }
  static double number_at(const OptionReader& config,
                          const std::string& pointer,
                          double otherwise) {
    return has(config, pointer) ? config.get_double(pointer) : otherwise;
  }

  // Returns the pointer of the object that describes a table. Newer releases have one object, or
  // one for each kind of layer; older ones have a scaling object and a key for the base. In
  // transformers, a scaling object of the old form comes first.
  static std::string pointer_of(const OptionReader& config, const Rope& rope) {
    const std::string own = "/rope_parameters/" + rope.layers;
    if (!rope.layers.empty() && has(config, own)) {
      return own;
    }
    if (rope.theta_key != "rope_theta") {
      return "/none";  // the old form has only the base of local layers
    }
    const bool is_old = config.kind("/rope_scaling") == TENON_OPTION_OBJECT &&
                        config.get_count("/rope_scaling") > 0;
    return is_old ? "/rope_scaling" : "/rope_parameters";
  }

  // Reports an object with a key that is neither read nor known to have no influence.
  void check_rope_keys(const OptionReader& config,
                       const std::string& at,
                       LayoutDifferences& differences) const {
    if (config.kind(at) != TENON_OPTION_OBJECT) {
      return;
    }
    size_t num_known = 0;
    for (const char* const key : {"rope_type",
                                  "type",
                                  "rope_theta",
                                  "partial_rotary_factor",
                                  "factor",
                                  "original_max_position_embeddings",
                                  "attention_factor",
                                  "low_freq_factor",
                                  "high_freq_factor",
                                  "beta_fast",
                                  "beta_slow",
                                  "mscale",
                                  "mscale_all_dim",
                                  "truncate",
                                  "short_factor",
                                  "long_factor",
                                  "finetuned",  // of YaRN's first release
                                  "full_attention",
                                  "sliding_attention"}) {
      const bool is_of_layers = std::string(key).find("_attention") != std::string::npos;
      const bool is_known = !is_of_layers || ropes_.size() > 1;
      num_known += is_known && config.kind(at + "/" + key) != TENON_OPTION_ABSENT ? 1 : 0;
    }
    if (num_known < config.get_count(at)) {
      differences.add(at.substr(1), "without unknown keys", config.get_json(at));
    }
  }

  template <class Check>
  void compare_rope(const OptionReader& config, const Rope& rope, const Check& check) const {
    const std::string at = pointer_of(config, rope);
    const std::string prefix = rope.theta_key != "rope_theta" ? "local " : "";
    const HfValue theta(rope.table.theta);
    check(prefix + "rope_theta",
          theta,
          HfValue::read(config,
                        at + "/rope_theta",
                        theta,
                        HfValue::read(config, "/" + rope.theta_key, theta, rope.theta_default)));
    const HfValue partial(rope.partial.value_or(1.0));
    check(prefix + "partial_rotary_factor",
          partial,
          HfValue::read(config,
                        at + "/partial_rotary_factor",
                        partial,
                        HfValue::read(config,
                                      "/partial_rotary_factor",
                                      partial,
                                      rope.partial.has_value() ? rope.partial_default : 1.0)));
    const HfValue type(rope_type_name(rope.table.scaling));
    HfValue there = HfValue::read(config,
                                  at + "/rope_type",
                                  type,
                                  HfValue::read(config, at + "/type", type, HfValue("default")));
    if (there.equals(HfValue("su"))) {
      there = HfValue("longrope");  // its name in the first files
    }
    check(prefix + "rope_scaling.rope_type", type, there);
    if (type.equals(there) && rope.table.scaling.has_value()) {
      compare_scaling(config, at, prefix + "rope_scaling.", rope.table, check);
    }
  }

  // Compares what defines a scaling, with the values that transformers takes for missing keys.
  template <class Check>
  void compare_scaling(const OptionReader& config,
                       const std::string& at,
                       const std::string& prefix,
                       const RotaryTable& table,
                       const Check& check) const {
    const RopeScaling& here = *table.scaling;
    const double positions =
        number_at(config, "/max_position_embeddings", static_cast<double>(table.max_positions));
    // The key of the file itself comes before that of the scaling.
    const double original =
        number_at(config,
                  "/original_max_position_embeddings",
                  original_default_.has_value()
                      ? static_cast<double>(*original_default_)
                      : number_at(config, at + "/original_max_position_embeddings", positions));
    const auto same = [&](const char* name, double mine, double otherwise) {
      const double theirs = number_at(config, at + "/" + name, otherwise);
      check(prefix + name, HfValue(mine), HfValue(theirs));
      return theirs;
    };
    const auto nonzero = [&](const char* name, double mine, double otherwise) {
      const double theirs = number_at(config, at + "/" + name, 0.0);
      check(prefix + name, HfValue(mine), HfValue(theirs == 0.0 ? otherwise : theirs));
    };
    if (here.rope_type != RopeType::kLinear) {
      check(prefix + "original_max_position_embeddings",
            HfValue(here.original_max_position_embeddings),
            HfValue(static_cast<int64_t>(original)));
    }
    RotaryTable there = table;
    there.scaling->original_max_position_embeddings = static_cast<int64_t>(original);
    switch (here.rope_type) {
      case RopeType::kLinear:
        same("factor", here.factor, 1.0);
        return;
      case RopeType::kLlama3:
        same("factor", here.factor, 1.0);
        same("low_freq_factor", here.low_freq_factor, 1.0);
        same("high_freq_factor", here.high_freq_factor, 1.0);
        return;
      case RopeType::kYarn:
        there.scaling->factor = same("factor", here.factor, positions / original);
        nonzero("beta_fast", here.beta_fast, 32.0);
        nonzero("beta_slow", here.beta_slow, 1.0);
        check(prefix + "truncate",
              HfValue(here.truncate),
              HfValue::read(config, at + "/truncate", HfValue(true), HfValue(true)));
        there.scaling->mscale = number_at(config, at + "/mscale", 0.0);
        // Some models read it for more than the factor of queries and keys.
        there.scaling->mscale_all_dim =
            same("mscale_all_dim", here.mscale_all_dim.value_or(0.0), 0.0);
        break;
      case RopeType::kLongRope:
        for (const char* const name : {"short_factor", "long_factor"}) {
          const HfValue mine(std::string(name) == "short_factor" ? here.short_factor
                                                                 : here.long_factor);
          check(prefix + name,
                mine,
                HfValue::read(config, at + "/" + name, mine, HfValue(std::vector<double>())));
        }
        break;
    }
    const bool has_own = has(config, at + "/attention_factor");
    there.scaling->attention_factor =
        has_own ? std::optional(config.get_double(at + "/attention_factor")) : std::nullopt;
    double of_there = there.attention_factor();
    if (!has_own && here.rope_type == RopeType::kLongRope) {
      of_there = RotaryTable::long_attention_factor(
          number_at(config, at + "/factor", positions / original), original);
    }
    const double of_here = table.attention_factor();
    if (std::abs(of_here - of_there) <= 1e-9 * std::abs(of_there)) {
      return;
    }
    const double mscale = here.mscale.value_or(0.0);
    const bool is_mscale = here.rope_type == RopeType::kYarn && mscale != *there.scaling->mscale;
    if (is_mscale) {
      check(prefix + "mscale", HfValue(mscale), HfValue(*there.scaling->mscale));
    }
    if (!is_mscale || has_own || here.attention_factor.has_value()) {
      check(prefix + "attention_factor", HfValue(of_here), HfValue(of_there));
    }
  }

  std::string model_type_;
  std::string architecture_;
  std::vector<Entry> entries_;
  std::vector<Rope> ropes_;
  std::optional<int64_t> original_default_;
};

TENON_NAMESPACE_END

#endif
