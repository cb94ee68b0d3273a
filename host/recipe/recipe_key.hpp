// SPDX-License-Identifier: Apache-2.0
//
// The properties of a recipe key that its member does not define, and the JSON Schema derived from
// them.
#pragma once

#include "host/recipe/resume_rule.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace tenon {

// JSON that keeps the order of its keys.
using KeySchema = nlohmann::ordered_json;

inline constexpr char kTypeDoc[] =
    "type that a plugin registers; PLUGIN-ID/TYPE if several plugins offer it";
inline constexpr char kOptionsDoc[] = "options, as the component's own schema defines them";

// What names must be that become parts of file names and metric names.
struct NameForm {
  const char* what;     // "name"; "table name"
  const char* pattern;  // regular expression
  const char* words;    // the same in words
};

// Returns the form as a schema of names.
KeySchema name_schema(const NameForm& form);

// A key of a recipe section. Setters return the key, so that calls chain.
class RecipeKey {
 public:
  explicit RecipeKey(std::string name) : name_(std::move(name)) {}

  // Documentation: a noun phrase or an imperative, then unit, meaning of 0 or null, side effect.
  RecipeKey& doc(std::string text);
  // Whether the key may change when a run resumes.
  RecipeKey& resume(ResumeReason reason) { return resume_below("", reason); }
  RecipeKey& resume(ChangeClass change, const char* why) { return resume({change, why}); }
  // Whether keys below this key may change; `pointer` starts at this key: "/options", "/*".
  RecipeKey& resume_below(const char* pointer, ResumeReason reason);

  // Limits of a number, or of each entry of a list.
  RecipeKey& min(double value);
  RecipeKey& max(double value);
  RecipeKey& above(double value);
  // An integer of at least 1.
  RecipeKey& count();
  // An interval of N units; 0 or null: never.
  RecipeKey& every();
  // Limits of a string, or of each entry of a list.
  RecipeKey& non_empty();
  RecipeKey& max_length(int characters);
  RecipeKey& pattern(const char* regex);
  // The allowed strings.
  RecipeKey& one_of(std::vector<std::string> values);
  RecipeKey& choices(KeySchema values);
  // A file or folder, relative to the folder of the recipe.
  RecipeKey& path();
  RecipeKey& min_items(int n);
  // Allows a single entry without a list around it.
  RecipeKey& or_one();
  RecipeKey& min_keys(int n);
  // What the names of an object's entries must be.
  RecipeKey& names(const NameForm& form);
  // The kind of a ComponentUse.
  RecipeKey& component(const char* kind);

  // The key is required.
  RecipeKey& required();
  // The key has no default. If it is missing, the member keeps its value.
  RecipeKey& absent();
  // Allows null, which leaves the member unchanged.
  RecipeKey& or_null();
  // The default as JSON, if the member cannot express it.
  RecipeKey& preset(const char* json_text);
  // A short form of another key. Frozen recipes contain only the other key.
  RecipeKey& short_form();
  // A name that the key had in an earlier release.
  RecipeKey& formerly(const char* name);
  // A name that a choice had in an earlier release.
  RecipeKey& formerly(const char* old_value, const char* value);
  RecipeKey& not_yet(const char* what, const char* unless, const char* instead);

  const std::string& name() const { return name_; }
  const std::string& kind() const { return kind_; }
  bool is_nullable() const { return is_nullable_; }
  bool is_optional() const { return !is_required_ && !is_absent_; }
  bool is_unavailable() const { return !unavailable_.is_null(); }
  bool takes_one() const { return takes_one_; }
  const KeySchema& item_keywords() const { return item_keywords_; }
  const KeySchema& list_keywords() const { return list_keywords_; }

 private:
  friend class SectionSchema;

  std::string name_;
  std::string doc_;
  std::string kind_;
  KeySchema item_keywords_ = KeySchema::object();
  KeySchema list_keywords_ = KeySchema::object();
  KeySchema keywords_ = KeySchema::object();  // of the key itself, for any type
  std::optional<KeySchema> preset_;
  KeySchema unavailable_;
  std::vector<ResumeRule> rules_;  // pointers start at this key
  std::vector<std::string> old_names_;
  bool is_required_ = false;
  bool is_absent_ = false;
  bool is_nullable_ = false;
  bool takes_one_ = false;
};

// Builds the schema of an object, key by key.
class SectionSchema {
 public:
  struct Object {
    std::string doc;
    std::string slot;  // kind of the component that the object is; "" if it is none
    KeySchema rules;   // rules across keys, for --print-schema; null if there are none
    bool is_open = false;
    bool has_text_form = false;
    std::string_view word_pattern = "";  // of the text form, if that is no path
  };
  explicit SectionSchema(const Object& object);

  // `preset` is the member's default, or no_preset().
  void add(const RecipeKey& key, KeySchema schema, KeySchema preset);
  void add_unavailable(const RecipeKey& key);

  KeySchema take();

 private:
  KeySchema schema_;
  KeySchema required_ = KeySchema::array();
  KeySchema properties_ = KeySchema::object();
  KeySchema renamed_ = KeySchema::object();
};

// Returns the value that means "no default".
KeySchema no_preset();

// Adds null to the values that `schema` allows.
void make_nullable(KeySchema& schema);

bool has_required(const KeySchema& schema);

// Returns the schema with the keywords added.
KeySchema with_keywords(KeySchema schema, const KeySchema& keywords);

// Returns the schema of one of the key's choices.
KeySchema choice_schema(const RecipeKey& key);

// Returns the schema of a list of `items`, with the key's limits of lists.
KeySchema list_schema(const RecipeKey& key, KeySchema items);

// Returns a JSON string; JSON's null for a null pointer.
KeySchema text_or_null(const char* text);

}  // namespace tenon
