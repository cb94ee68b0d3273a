// SPDX-License-Identifier: Apache-2.0
//
// Binds options to a struct, and derives their JSON Schema:
//
//     struct Options {
//       double gamma = 2.0;
//       std::vector<double> alpha;
//     };
//     static void bind(tenon::OptionBinder<Options>& b) {
//       b.field("gamma", &Options::gamma).min(0).doc("focusing exponent");
//       b.field("alpha", &Options::alpha).doc("weight of each class; empty: all 1");
//     }
//
// A field is a bool, an integer, a floating-point number, std::string, an enum (with `choice`),
// std::optional, std::vector, a struct with its own `bind`, or a ComponentOption. Its default is
// its value in a default-constructed struct. The host validates a recipe against the schema before
// it creates anything, and passes options with all defaults filled in. Constraints that the schema
// cannot express are checked by the component's constructor.
#ifndef TENON_CPP_OPTIONS_HPP
#define TENON_CPP_OPTIONS_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/services.hpp>
#include <tenon/options.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* ---- JSON text ---- */

/* Returns a string as JSON, with quotes. Bytes above 0x7f are copied, because strings are UTF-8. */
inline std::string json_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (byte < 0x20 || byte == 0x7f) {
          char buffer[8];
          std::snprintf(buffer, sizeof(buffer), "\\u%04x", byte);
          out += buffer;
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

/* Returns a number as JSON: the shortest text that reads back as the same double.
 *
 * Errors   TENON_INVALID for NaN and infinity, which JSON does not have */
inline std::string json_number(double value) {
  TENON_CHECK(std::isfinite(value), "a default or limit of an option is non-finite");
  char buffer[32];
  for (int digits = 15; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof(buffer), "%.*g", digits, value);
    if (std::strtod(buffer, nullptr) == value) {
      break;
    }
  }
  std::string out = buffer;
  for (char& c : out) {
    c = c == ',' ? '.' : c;  // some locales use a comma
  }
  return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}

/* ---- one field ---- */

/* A component that the recipe names inside the options. The host creates it, and it outlives the
 * component whose option it is. `ref.table` is null if the option is null. */
struct ComponentOption {
  tenon_component_ref ref{sizeof(tenon_component_ref), nullptr, nullptr, nullptr};
  explicit operator bool() const { return ref.table != nullptr; }
};

/* Properties of a field beyond its type; the calls chain. */
class OptionField {
 public:
  explicit OptionField(std::string name) : name_(std::move(name)) {}

  /* Limits of a number, or of each element of a list. */
  OptionField& min(double value) { return keyword("minimum", value); }
  OptionField& max(double value) { return keyword("maximum", value); }
  OptionField& exclusive_min(double value) { return keyword("exclusiveMinimum", value); }
  OptionField& exclusive_max(double value) { return keyword("exclusiveMaximum", value); }
  /* The permitted strings, or the permitted elements of a list. */
  OptionField& choices(std::vector<std::string> values) {
    choices_ = std::move(values);
    return *this;
  }
  /* Limits of the length of a list. */
  OptionField& min_items(size_t n) {
    list_keywords_.emplace_back("minItems", std::to_string(n));
    return *this;
  }
  OptionField& max_items(size_t n) {
    list_keywords_.emplace_back("maxItems", std::to_string(n));
    return *this;
  }
  /* Rejects the empty string. */
  OptionField& non_empty() {
    item_keywords_.emplace_back("minLength", "1");
    return *this;
  }
  /* A one-line description, shown to users. */
  OptionField& doc(std::string text) {
    doc_ = std::move(text);
    return *this;
  }
  /* Makes the option required; it then has no default. */
  OptionField& required() {
    required_ = true;
    return *this;
  }
  /* Marks a path: the host resolves it relative to the recipe's directory. */
  OptionField& path() {
    item_keywords_.emplace_back("x-tenon-path", "true");
    return *this;
  }
  /* For a ComponentOption: its kind, and its default as JSON (R"({"type": "byte"})", or "null" for
   * none). Without a default, the option is required. */
  OptionField& component(std::string kind, std::string default_json = {}) {
    component_ = std::move(kind);
    component_default_ = std::move(default_json);
    required_ = component_default_.empty();
    return *this;
  }

  const std::string& name() const { return name_; }
  const std::string& doc() const { return doc_; }
  bool is_required() const { return required_; }
  const std::vector<std::string>& choices() const { return choices_; }
  const std::string& component_kind() const { return component_; }
  const std::string& component_default() const { return component_default_; }

  /* `, "minimum": 0` and so on, for the schema of an element or of a list. */
  std::string item_keywords() const { return join(item_keywords_); }
  std::string list_keywords() const { return join(list_keywords_); }

 private:
  OptionField& keyword(const char* name, double value) {
    // 0 rather than 0.0, so that the limit of an integer looks like one.
    const bool is_whole = std::abs(value) < 1e15 && value == std::floor(value);
    item_keywords_.emplace_back(
        name, is_whole ? std::to_string(static_cast<int64_t>(value)) : json_number(value));
    return *this;
  }
  using Keywords = std::vector<std::pair<std::string, std::string>>;
  static std::string join(const Keywords& keywords) {
    std::string out;
    for (const auto& [name, value] : keywords) {
      out.append(", \"").append(name).append("\": ").append(value);
    }
    return out;
  }

  std::string name_;
  std::string doc_;
  bool required_ = false;
  std::vector<std::string> choices_;
  std::string component_;
  std::string component_default_;
  Keywords item_keywords_;
  Keywords list_keywords_;
};

template <class O>
class OptionBinder;

/* ---- reading ---- */

/* Reads the options of one instance by JSON pointer.
 *
 * Errors   TENON_NOT_FOUND if there is no value at `pointer`, TENON_INVALID if it has another type
 * Threads  [any], until `create` returns */
class OptionReader {
 public:
  OptionReader(const Host& host, const tenon_options* options)
      : host_(host), options_(options), api_(&host.require<tenon_options_api>(TENON_OPTIONS_ID)) {}

  /* Type of a value, TENON_OPTION_*; TENON_OPTION_ABSENT if there is none. */
  uint32_t kind(const std::string& pointer) const { return api_->kind(options_, pointer.c_str()); }
  bool get_bool(const std::string& pointer) const {
    return get<uint32_t>(api_->get_bool, pointer) != 0;
  }
  int64_t get_int(const std::string& pointer) const { return get<int64_t>(api_->get_int, pointer); }
  double get_double(const std::string& pointer) const {
    return get<double>(api_->get_double, pointer);
  }
  std::string get_string(const std::string& pointer) const {
    return get<const char*>(api_->get_string, pointer);
  }
  size_t get_count(const std::string& pointer) const {
    return get<size_t>(api_->get_count, pointer);
  }
  /* The value as JSON text. */
  std::string get_json(const std::string& pointer) const {
    return get<const char*>(api_->get_json, pointer);
  }
  tenon_component_ref get_component(const std::string& pointer) const {
    tenon_component_ref out{sizeof(tenon_component_ref), nullptr, nullptr, nullptr};
    host_.check(api_->get_component(options_, pointer.c_str(), &out));
    return out;
  }

 private:
  template <class T>
  T get(tenon_status* (*call)(const tenon_options*, const char*, T*),
        const std::string& pointer) const {
    T out{};
    host_.check(call(options_, pointer.c_str(), &out));
    return out;
  }

  Host host_;
  const tenon_options* options_;
  const tenon_options_api* api_;
};

/* ---- types: how each is described, written and read ---- */

template <class T, class = void>
struct OptionType {
  // A struct with its own fields.
  static std::string schema(const OptionField&) { return OptionBinder<T>::of().schema_body(); }
  static std::string json(const OptionField&, const T& value) {
    return OptionBinder<T>::of().json(value);
  }
  static bool has_default(const OptionField&) { return !OptionBinder<T>::of().has_required(); }
  static void read(const OptionReader& r, const std::string& pointer, const OptionField&, T& out) {
    OptionBinder<T>::of().read(r, pointer, out);
  }
};

/* Whether null is a valid value. */
enum class Nullable { kNo, kYes };

/* Common base of types with one JSON type name that always have a default. */
struct ScalarOption {
  static bool has_default(const OptionField&) { return true; }
  static std::string schema_of(const char* type, const OptionField& f, Nullable nullable) {
    const std::string name = json_string(type);
    return "\"type\": " + (nullable == Nullable::kYes ? "[" + name + ", \"null\"]" : name) +
           f.item_keywords();
  }
};

template <>
struct OptionType<bool> : ScalarOption {
  static std::string schema(const OptionField& f, Nullable nullable = Nullable::kNo) {
    return schema_of("boolean", f, nullable);
  }
  static std::string json(const OptionField&, bool value) { return value ? "true" : "false"; }
  static void read(const OptionReader& r, const std::string& p, const OptionField&, bool& out) {
    out = r.get_bool(p);
  }
};

template <class T>
struct OptionType<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>
    : ScalarOption {
  static std::string schema(const OptionField& f, Nullable nullable = Nullable::kNo) {
    return schema_of("integer", f, nullable);
  }
  static std::string json(const OptionField&, T value) { return std::to_string(value); }
  static void read(const OptionReader& r, const std::string& p, const OptionField&, T& out) {
    const int64_t value = r.get_int(p);
    bool fits = true;
    if constexpr (std::is_unsigned_v<T>) {
      fits = value >= 0 && static_cast<uint64_t>(value) <= std::numeric_limits<T>::max();
    } else {
      fits = value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max();
    }
    TENON_CHECK(fits, "option ", p, ": ", value, " does not fit its type");
    out = static_cast<T>(value);
  }
};

template <class T>
struct OptionType<T, std::enable_if_t<std::is_floating_point_v<T>>> : ScalarOption {
  static std::string schema(const OptionField& f, Nullable nullable = Nullable::kNo) {
    return schema_of("number", f, nullable);
  }
  static std::string json(const OptionField&, T value) { return json_number(value); }
  static void read(const OptionReader& r, const std::string& p, const OptionField&, T& out) {
    out = static_cast<T>(r.get_double(p));
  }
};

template <>
struct OptionType<std::string> : ScalarOption {
  static std::string schema(const OptionField& f, Nullable nullable = Nullable::kNo) {
    std::string out = schema_of("string", f, nullable);
    if (!f.choices().empty()) {
      out += ", \"enum\": [";
      for (size_t i = 0; i < f.choices().size(); ++i) {
        out += (i == 0 ? "" : ", ") + json_string(f.choices()[i]);
      }
      out += nullable == Nullable::kYes ? ", null]" : "]";
    }
    return out;
  }
  static std::string json(const OptionField&, const std::string& value) {
    return json_string(value);
  }
  static void read(const OptionReader& r,
                   const std::string& p,
                   const OptionField&,
                   std::string& out) {
    out = r.get_string(p);
  }
};

template <class T>
struct OptionType<std::optional<T>> {
  static std::string schema(const OptionField& f) {
    if constexpr (std::is_base_of_v<ScalarOption, OptionType<T>>) {
      return OptionType<T>::schema(f, Nullable::kYes);
    } else {
      return "\"anyOf\": [{\"type\": \"null\"}, {" + OptionType<T>::schema(f) + "}]";
    }
  }
  static std::string json(const OptionField& f, const std::optional<T>& value) {
    return value ? OptionType<T>::json(f, *value) : "null";
  }
  static bool has_default(const OptionField&) { return true; }
  static void read(const OptionReader& r,
                   const std::string& p,
                   const OptionField& f,
                   std::optional<T>& out) {
    if (r.kind(p) == TENON_OPTION_NULL) {
      out.reset();
    } else {
      T value{};
      OptionType<T>::read(r, p, f, value);
      out = std::move(value);
    }
  }
};

template <class T>
struct OptionType<std::vector<T>> {
  static std::string schema(const OptionField& f) {
    return "\"type\": \"array\", \"items\": {" + OptionType<T>::schema(f) + "}" + f.list_keywords();
  }
  static std::string json(const OptionField& f, const std::vector<T>& values) {
    std::string out = "[";
    for (size_t i = 0; i < values.size(); ++i) {
      out += (i == 0 ? "" : ", ") + OptionType<T>::json(f, values[i]);
    }
    return out + "]";
  }
  static bool has_default(const OptionField&) { return true; }
  static void read(const OptionReader& r,
                   const std::string& p,
                   const OptionField& f,
                   std::vector<T>& out) {
    const size_t n = r.get_count(p);
    out.clear();
    out.reserve(n);
    for (size_t i = 0; i < n; ++i) {
      T value{};
      OptionType<T>::read(r, p + "/" + std::to_string(i), f, value);
      out.push_back(std::move(value));
    }
  }
};

template <>
struct OptionType<ComponentOption> {
  static std::string schema(const OptionField& f) {
    TENON_CHECK(
        !f.component_kind().empty(), "option ", f.name(), " names a component without a kind");
    const bool may_be_null = f.component_default() == "null";
    return "\"x-tenon-component\": " + json_string(f.component_kind()) +
           ", \"type\": " + (may_be_null ? "[\"object\", \"null\"]" : "\"object\"");
  }
  static std::string json(const OptionField& f, const ComponentOption&) {
    return f.component_default();
  }
  static bool has_default(const OptionField& f) { return !f.component_default().empty(); }
  static void read(const OptionReader& r,
                   const std::string& p,
                   const OptionField&,
                   ComponentOption& out) {
    out = {};
    if (r.kind(p) != TENON_OPTION_NULL) {
      out.ref = r.get_component(p);
    }
  }
};

/* ---- the binder ---- */

/* The fields of one options struct. */
template <class O>
class OptionBinder {
 public:
  /* Returns a binder with the fields that `O::bind` declares. */
  static OptionBinder of() {
    OptionBinder binder;
    O::bind(binder);
    return binder;
  }

  /* Binds a field of O, or of a base class of O. The reference is valid until the next call. */
  template <class T, class Owner>
  OptionField& field(std::string name, T Owner::*member) {
    Entry entry{std::make_unique<OptionField>(std::move(name)), {}, {}, {}, {}};
    entry.schema = [](const OptionField& f) { return OptionType<T>::schema(f); };
    entry.json = [member](const OptionField& f, const O& o) {
      return OptionType<T>::json(f, o.*member);
    };
    entry.has_default = [](const OptionField& f) { return OptionType<T>::has_default(f); };
    entry.read = [member](const OptionReader& r, const std::string& p, const OptionField& f, O& o) {
      OptionType<T>::read(r, p, f, o.*member);
    };
    return add(std::move(entry));
  }

  /* Binds an enum by the names of its values. */
  template <class E, class Owner>
  OptionField& choice(std::string name,
                      E Owner::*member,
                      std::initializer_list<std::pair<const char*, E>> values) {
    std::vector<std::pair<std::string, E>> table(values.begin(), values.end());
    Entry entry{std::make_unique<OptionField>(std::move(name)), {}, {}, {}, {}};
    std::vector<std::string> names;
    names.reserve(table.size());
    for (const auto& [text, value] : table) {
      names.push_back(text);
    }
    entry.field->choices(std::move(names));
    entry.schema = [](const OptionField& f) { return OptionType<std::string>::schema(f); };
    entry.json = [member, table](const OptionField& f, const O& o) {
      for (const auto& [text, value] : table) {
        if (value == o.*member) {
          return json_string(text);
        }
      }
      TENON_FAIL(TENON_INTERNAL, "internal", "option ", f.name(), ": its default has no name");
    };
    entry.has_default = [](const OptionField&) { return true; };
    entry.read = [member, table](
                     const OptionReader& r, const std::string& p, const OptionField&, O& o) {
      const std::string given = r.get_string(p);
      for (const auto& [text, value] : table) {
        if (text == given) {
          o.*member = value;
          return;
        }
      }
      TENON_FAIL(
          TENON_INVALID, "invalid", "option ", p, ": \"", given, "\" is not one of its choices");
    };
    return add(std::move(entry));
  }

  /* Returns the complete schema, as registered with the component. */
  std::string schema() const {
    std::string out = "{";
    out += schema_body();
    return out += "}";
  }

  /* Returns the schema without the enclosing braces. */
  std::string schema_body() const {
    const O defaults{};
    std::string properties;
    std::string required;
    for (const Entry& e : entries_) {
      const OptionField& f = *e.field;
      std::string one = e.schema(f);
      if (!f.doc().empty()) {
        one += ", \"description\": " + json_string(f.doc());
      }
      if (is_required(e)) {
        required += (required.empty() ? "" : ", ") + json_string(f.name());
      } else {
        one += ", \"default\": " + e.json(f, defaults);
      }
      properties += (properties.empty() ? "" : ", ") + json_string(f.name()) + ": {" + one + "}";
    }
    std::string out = "\"type\": \"object\", \"properties\": {" + properties + "}";
    if (!required.empty()) {
      out += ", \"required\": [" + required + "]";
    }
    return out + ", \"additionalProperties\": false";
  }

  /* Returns a struct as JSON. */
  std::string json(const O& value) const {
    std::string out = "{";
    for (const Entry& e : entries_) {
      out += (out.size() == 1 ? "" : ", ") + json_string(e.field->name()) + ": ";
      out += e.json(*e.field, value);
    }
    return out += "}";
  }

  /* True if any field has no default. */
  bool has_required() const {
    for (const Entry& e : entries_) {
      if (is_required(e)) {
        return true;
      }
    }
    return false;
  }

  /* Reads the options into `out`; fields that are not bound keep their defaults. `prefix` is "" at
   * the root.
   *
   * Errors   TENON_NOT_FOUND for a missing required field, TENON_INVALID for a value that does not
   *          fit */
  void read(const OptionReader& r, const std::string& prefix, O& out) const {
    for (const Entry& e : entries_) {
      const std::string pointer = prefix + "/" + escaped(e.field->name());
      if (r.kind(pointer) == TENON_OPTION_ABSENT) {
        if (is_required(e)) {
          TENON_FAIL(TENON_NOT_FOUND, "option_missing", "option ", pointer, " is required");
        }
        continue;
      }
      e.read(r, pointer, *e.field, out);
    }
  }

 private:
  struct Entry {
    std::unique_ptr<OptionField> field;
    std::function<std::string(const OptionField&)> schema;
    std::function<std::string(const OptionField&, const O&)> json;
    std::function<bool(const OptionField&)> has_default;
    std::function<void(const OptionReader&, const std::string&, const OptionField&, O&)> read;
  };

  OptionField& add(Entry entry) {
    entries_.push_back(std::move(entry));
    return *entries_.back().field;
  }

  static bool is_required(const Entry& e) {
    return e.field->is_required() || !e.has_default(*e.field);
  }

  // Escapes a name for a JSON pointer.
  static std::string escaped(const std::string& name) {
    std::string out;
    for (const char c : name) {
      out += c == '~' ? std::string("~0") : c == '/' ? std::string("~1") : std::string(1, c);
    }
    return out;
  }

  std::vector<Entry> entries_;
};

TENON_NAMESPACE_END

#endif
