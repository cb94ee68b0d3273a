// SPDX-License-Identifier: Apache-2.0
//
// What a section of the recipe states of one key beyond its member, and the JSON Schema that
// follows.
#pragma once

#include "host/recipe/resume_rule.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace tenon {

// With keys in the order in which they are stated.
using KeySchema = nlohmann::ordered_json;

inline constexpr char kTypeDoc[] =
    "type that a plugin registers; PLUGIN-ID/TYPE if several plugins offer it";
inline constexpr char kOptionsDoc[] = "options, as the component's own schema defines them";

// The calls chain.
class RecipeKey {
 public:
  explicit RecipeKey(std::string name) : name_(std::move(name)) {}

  // A noun phrase or an imperative, then unit, meaning of 0 or null, side effect.
  RecipeKey& doc(std::string text);
  // Whether the key may change when a run resumes.
  RecipeKey& resume(ResumeReason reason) { return resume_below("", reason); }
  RecipeKey& resume(ChangeClass change, const char* why) { return resume({change, why}); }
  // The same of keys below this one: "/options", "/*".
  RecipeKey& resume_below(const char* pointer, ResumeReason reason);

  // Limits of a number; of each entry of a list.
  RecipeKey& min(double value);
  RecipeKey& max(double value);
  RecipeKey& above(double value);
  // A number of things: at least 1.
  RecipeKey& count();
  // Repeats every N units; 0 or null is never.
  RecipeKey& every();
  // Limits of a string; of each entry of a list.
  RecipeKey& non_empty();
  RecipeKey& max_length(int characters);
  RecipeKey& pattern(const char* regex);
  // The strings that are allowed.
  RecipeKey& one_of(std::vector<std::string> values);
  RecipeKey& choices(KeySchema values);
  // A file or folder, relative to the folder of the recipe.
  RecipeKey& path();
  RecipeKey& min_items(int n);
  // A single entry may be written without its list.
  RecipeKey& or_one();
  RecipeKey& min_keys(int n);
  // The kind of a ComponentUse.
  RecipeKey& component(const char* kind);

  // The recipe must give it.
  RecipeKey& required();
  // There is no default: without the key the member stays as it is.
  RecipeKey& absent();
  // Null is a value too; it leaves the member as it is.
  RecipeKey& or_null();
  // The default as JSON, if the member cannot say it.
  RecipeKey& preset(const char* json_text);
  // Another way to write a key of the frozen recipe, in which it does not stand.
  RecipeKey& short_form();
  // A name that the key had in an earlier release.
  RecipeKey& formerly(const char* name);
  // A choice that an earlier release had under another name.
  RecipeKey& formerly(const char* old_value, const char* value);
  // Rules for --print-schema alone, as JSON.
  RecipeKey& printed(const char* json_text);
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
  KeySchema keywords_ = KeySchema::object();  // of the key itself, whatever its type
  std::optional<KeySchema> preset_;
  KeySchema unavailable_;
  std::vector<ResumeRule> rules_;  // with pointers from this key
  std::vector<std::string> old_names_;
  bool is_required_ = false;
  bool is_absent_ = false;
  bool is_nullable_ = false;
  bool takes_one_ = false;
};

// The schema of an object, key by key.
class SectionSchema {
 public:
  struct Object {
    std::string doc;
    std::string slot;     // the kind of component that the object is; "" for none
    std::string printed;  // rules for --print-schema, as JSON
    bool is_open = false;
    bool has_text_form = false;
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

// That a key has no default.
KeySchema no_preset();

// Lets null be a value of what `schema` describes.
void make_nullable(KeySchema& schema);

bool has_required(const KeySchema& schema);

// Adds the keywords to the schema.
KeySchema with_keywords(KeySchema schema, const KeySchema& keywords);

// One of the key's choices.
KeySchema choice_schema(const RecipeKey& key);

// A list of what `items` describes, with the key's limits of lists.
KeySchema list_schema(const RecipeKey& key, KeySchema items);

// A string, or null for null.
KeySchema text_or_null(const char* text);

}  // namespace tenon
