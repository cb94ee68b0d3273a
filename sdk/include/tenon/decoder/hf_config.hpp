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
    for (const Rope& rope : ropes_) {
      compare_rope(config, rope, check);
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

  // Values that files may lack, from transformers.
  static HfValue default_of(const std::string& name, const HfValue& here) {
    return name == "factor" || name.find("_freq_factor") != std::string::npos ? HfValue(1.0)
           : name == "beta_fast"                                              ? HfValue(32.0)
           : name == "beta_slow"                                              ? HfValue(1.0)
           : name.find("mscale") == 0 || name == "attention_factor"           ? HfValue(0.0)
                                                                              : here;
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

  template <class Check>
  static void compare_rope(const OptionReader& config, const Rope& rope, const Check& check) {
    // Newer releases have one object, or one for each kind of layer; older ones have a theta key
    // and a scaling object.
    const auto has = [&config](const std::string& pointer) {
      const uint32_t kind = config.kind(pointer);
      return kind != TENON_OPTION_ABSENT && kind != TENON_OPTION_NULL;
    };
    std::string at = has("/rope_parameters") ? "/rope_parameters" : "/rope_scaling";
    const std::string own = "/rope_parameters/" + rope.layers;
    const bool is_local = rope.theta_key != "rope_theta";
    if (!rope.layers.empty() && has(own)) {
      at = own;
    } else if (is_local) {
      at = "/none";  // the old form has only the base of local layers
    }
    const std::string prefix = is_local ? "local " : "";
    const HfValue theta(rope.table.theta);
    check(prefix + "rope_theta",
          theta,
          HfValue::read(config,
                        at + "/rope_theta",
                        theta,
                        HfValue::read(config, "/" + rope.theta_key, theta, rope.theta_default)));
    if (rope.partial.has_value()) {
      const HfValue partial(*rope.partial);
      check("partial_rotary_factor",
            partial,
            HfValue::read(
                config,
                at + "/partial_rotary_factor",
                partial,
                HfValue::read(config, "/partial_rotary_factor", partial, rope.partial_default)));
    }
    const HfValue type(rope_type_name(rope.table.scaling));
    HfValue there = HfValue::read(config,
                                  at + "/rope_type",
                                  type,
                                  HfValue::read(config, at + "/type", type, HfValue("default")));
    check(prefix + "rope_scaling.rope_type", type, there);
    if (!type.equals(there)) {
      return;
    }
    for (const auto& [name, here] : members(rope.table)) {
      HfValue otherwise = default_of(name, here);
      if (std::string(name) == "original_max_position_embeddings") {
        otherwise = HfValue::read(config,
                                  "/original_max_position_embeddings",
                                  here,
                                  HfValue::read(config, "/max_position_embeddings", here, here));
      }
      check(prefix + "rope_scaling." + name,
            here,
            HfValue::read(config, at + "/" + name, here, otherwise));
    }
  }

  std::string model_type_;
  std::string architecture_;
  std::vector<Entry> entries_;
  std::vector<Rope> ropes_;
};

TENON_NAMESPACE_END

#endif
