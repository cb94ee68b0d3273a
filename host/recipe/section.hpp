// SPDX-License-Identifier: Apache-2.0
//
// A section of the recipe: a struct whose `bind` states each key once, with its type, default,
// meaning, limits and resume rule. The JSON Schema, the reader, the key order of frozen recipes,
// the resume rules and the reference are derived from `bind`:
//
//     struct EvalRecipe {
//       bool at_start = false;
//
//       template <class Section>
//       static void bind(Section& s) {
//         s.key("at_start", &EvalRecipe::at_start)
//             .doc("evaluate before the first step")
//             .resume(resume::kFree);
//       }
//     };
//
// A key's default is the initial value of its member. `bind` is a template, so that the headers of
// sections need no JSON.
#pragma once

#include "host/json/json_path.hpp"
#include "host/recipe/component_use.hpp"
#include "host/recipe/key_type.hpp"
#include "host/recipe/recipe_key.hpp"
#include "host/recipe/schedule.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenon {

// The rules across the keys of a section, as a JSON Schema for --print-schema; null if there are
// none. recipe_sections.cpp has those of sections with rules.
template <class S>
struct SectionRules {
  static KeySchema printed() { return nullptr; }
};

template <class S>
class Section {
 public:
  // Returns the keys that `S::bind` states.
  static const Section& of() {
    static const Section section = [] {
      Section made;
      made.is_whole_ = true;
      S::bind(made);
      return made;
    }();
    return section;
  }

  // ---- for bind(); each returned reference is valid until the next call ----

  // `Owner` is S or a base of it.
  template <class T, class Owner>
  RecipeKey& key(const char* name, T Owner::*member) {
    return add(
        name,
        {.schema = [](const RecipeKey& key) { return KeyType<T>::schema(key); },
         .preset = [member](const RecipeKey& key,
                            const S& s) { return KeyType<T>::json(key, s.*member); },
         .read = [member](const RecipeKey& key,
                          const KeyValue& at,
                          S& s) { KeyType<T>::read(key, at, s.*member); },
         .visit = [member](S& s, const ComponentFill& f) { KeyType<T>::visit(s.*member, f); }});
  }

  // A member whose values are written by name; a null name is JSON's null.
  template <class M>
  RecipeKey& choice(const char* name,
                    M S::*member,
                    std::initializer_list<std::pair<const char*, ChosenType<M>>> values) {
    const std::vector<std::pair<const char*, ChosenType<M>>> table(values);
    RecipeKey& key = add(name,
                         {.schema = [](const RecipeKey& at) { return choice_schema(at); },
                          .preset =
                              [member, table](const RecipeKey&, const S& s) {
                                for (const auto& [text, value] : table) {
                                  if (M(value) == s.*member) {
                                    return text_or_null(text);
                                  }
                                }
                                return no_preset();
                              },
                          .read =
                              [member, table](const RecipeKey&, const KeyValue& at, S& s) {
                                for (const auto& [text, value] : table) {
                                  if (at.value == text_or_null(text)) {
                                    s.*member = value;
                                  }
                                }
                              },
                          .visit = {}});
    KeySchema names = KeySchema::array();
    for (const auto& [text, value] : table) {
      names.push_back(text_or_null(text));
    }
    return key.choices(std::move(names));
  }

  // A list of names, each of which sets a boolean member.
  RecipeKey& flags(const char* name,
                   std::initializer_list<std::pair<const char*, bool S::*>> members) {
    const std::vector<std::pair<const char*, bool S::*>> table(members);
    RecipeKey& key =
        add(name,
            {.schema = [](const RecipeKey& at) { return list_schema(at, choice_schema(at)); },
             .preset =
                 [table](const RecipeKey&, const S& s) {
                   KeySchema set = KeySchema::array();
                   for (const auto& [text, member] : table) {
                     if (s.*member) {
                       set.push_back(text);
                     }
                   }
                   return set;
                 },
             .read =
                 [table](const RecipeKey&, const KeyValue& at, S& s) {
                   for (const auto& [text, member] : table) {
                     s.*member = has_text(at.value, text);
                   }
                 },
             .visit = {}});
    KeySchema names = KeySchema::array();
    for (const auto& [text, member] : table) {
      names.push_back(text);
    }
    return key.choices(std::move(names));
  }

  // The keys every_steps, every_windows and every_epochs.
  struct ScheduleDocs {
    const char* steps;
    const char* windows;
    const char* epochs;
  };
  void schedule(Schedule S::*member, const ScheduleDocs& docs) {
    const auto every = [&](const char* name, std::int64_t Schedule::*part, const char* doc) {
      add(name,
          {.schema = [](const RecipeKey& key) { return KeyType<std::int64_t>::schema(key); },
           .preset = [member, part](const RecipeKey&,
                                    const S& s) { return KeySchema((s.*member).*part); },
           .read =
               [member, part](const RecipeKey& key, const KeyValue& at, S& s) {
                 KeyType<std::int64_t>::read(key, at, (s.*member).*part);
               },
           .visit = {}})
          .every()
          .doc(doc);
    };
    every("every_steps", &Schedule::steps, docs.steps);
    every("every_windows", &Schedule::windows, docs.windows);
    every("every_epochs", &Schedule::epochs, docs.epochs);
  }

  // The keys "type" and "options" of an object that is a component, unless it has the key `other`.
  // Returns the key "type".
  RecipeKey& component(const char* kind, ComponentUse S::*member, const char* other = "") {
    slot_ = kind;
    add_part(kind, other, member).non_empty().required();
    add("options",
        {.schema =
             [](const RecipeKey&) {
               return KeySchema{{"type", "object"}};
             },
         .preset = [](const RecipeKey&, const S&) { return KeySchema::object(); },
         .read = {},
         .visit = {}})
        .doc(kOptionsDoc);
    return entries_[entries_.size() - 2].key;
  }

  // The key "type" of an object that inherits its other keys from a component of this kind.
  RecipeKey& inherited(const char* kind, ComponentUse S::*member) {
    is_open_ = true;
    return add_part(kind, "", member).non_empty().absent();
  }

  // An object whose keys also set members of S.
  template <class Bind>
  RecipeKey& object(const char* name, Bind bind) {
    auto inner = std::make_shared<Section>();
    bind(*inner);
    return add(name,
               {.schema = [inner](const RecipeKey&) { return inner->schema(); },
                .preset = [](const RecipeKey&, const S&) { return KeySchema::object(); },
                .read = [inner](const RecipeKey&, const KeyValue& at, S& s) { inner->read(at, s); },
                .visit = {}});
  }

  // An object whose values have names chosen by the recipe. A value's name goes into its `name`.
  // The member is a list of values, or a single value.
  template <class T>
  RecipeKey& named(const char* name, T S::*member) {
    using Value = EntryType<T>;
    return add(
        name,
        {.schema =
             [](const RecipeKey&) {
               return KeySchema{{"type", "object"},
                                {"additionalProperties", Section<Value>::of().schema()}};
             },
         .preset = [](const RecipeKey&, const S&) { return KeySchema::object(); },
         .read =
             [member](const RecipeKey&, const KeyValue& at, S& s) {
               for (const auto& [text, value] : at.value.items()) {
                 Value& one = entry_to_fill(s.*member);
                 one.name = text;
                 const std::string pointer = join_pointer(at.pointer, text);
                 at.keys.add(pointer, value);
                 if (value.is_object()) {
                   Section<Value>::of().read({value, pointer, at.keys}, one);
                 }
               }
             },
         .visit = is_list<T>
                      ? [member](S& s, const ComponentFill& f) { KeyType<T>::visit(s.*member, f); }
                      : Visit{}});
  }

  // A separate key that adds one entry to a list.
  template <class T>
  RecipeKey& single(const char* name, std::vector<T> S::*member) {
    return add(name,
               {.schema = [](const RecipeKey&) { return Section<T>::of().schema(); },
                .preset = [](const RecipeKey&, const S&) { return no_preset(); },
                .read = [member](const RecipeKey&,
                                 const KeyValue& at,
                                 S& s) { Section<T>::of().read(at, (s.*member).emplace_back()); },
                .visit = {}});
  }

  // A number of bytes, or a size such as "8GiB".
  RecipeKey& size(const char* name, std::optional<std::int64_t> S::*member) {
    return add(name,
               {.schema = [](const RecipeKey&) { return size_schema(); },
                .preset = [](const RecipeKey&, const S&) { return no_preset(); },
                .read = [member](const RecipeKey&,
                                 const KeyValue& at,
                                 S& s) { s.*member = bytes_of(at.value); },
                .visit = {}});
  }

  // A key for editors or for comparisons, which does not change the run.
  template <class T>
  RecipeKey& unread(const char* name) {
    return add(name,
               {.schema = [](const RecipeKey& key) { return KeyType<T>::schema(key); },
                .preset = [](const RecipeKey&, const S&) { return no_preset(); },
                .read = {},
                .visit = {}})
        .absent();
  }

  // A key that this release does not support. `what` names the missing feature. `unless` is a JSON
  // list of values that are accepted, because they have no effect. `instead` is advice for the
  // message; "" for the default advice.
  void not_yet(const char* name, const char* what, const char* unless, const char* instead = "") {
    add(name, {.schema = {}, .preset = {}, .read = {}, .visit = {}}).not_yet(what, unless, instead);
  }

  // Describes the object. The doc of a key of this type takes precedence.
  Section& doc(const char* text) {
    doc_ = text;
    return *this;
  }
  // Accepts a path in place of the object, and stores it in this member.
  Section& text_form(std::string S::*member) {
    text_form_ = member;
    return *this;
  }
  // Accepts a word in place of the object: one that matches `pattern`. Stores it in this member.
  Section& word_form(std::string S::*member, const char* pattern) {
    text_form_ = member;
    word_pattern_ = pattern;
    return *this;
  }
  // Stores the object's JSON pointer in this member: "/load/0".
  void place(std::string S::*member) {
    add("", {.schema = {}, .preset = {}, .read = {}, .visit = {}});
    entries_.back().take = [member](const KeyValue& object, S& s) { s.*member = object.pointer; };
  }
  // ---- derived from bind() ----

  KeySchema schema() const {
    SectionSchema made({.doc = doc_,
                        .slot = slot_,
                        .rules = is_whole_ ? SectionRules<S>::printed() : nullptr,
                        .is_open = is_open_,
                        .has_text_form = text_form_ != nullptr,
                        .word_pattern = word_pattern_});
    const S presets{};
    for (const Entry& entry : entries_) {
      if (entry.key.is_unavailable()) {
        made.add_unavailable(entry.key);
      } else if (!entry.key.name().empty()) {
        made.add(entry.key, entry.schema(entry.key), entry.preset(entry.key, presets));
      }
    }
    return made.take();
  }

  // Sets the members of `out` from a complete object, except those whose value has a problem.
  void read(const KeyValue& from, S& out) const {
    if (text_form_ != nullptr && from.value.is_string()) {
      out.*text_form_ = from.value.template get<std::string>();
      return;
    }
    for (const Entry& entry : entries_) {
      if (entry.take) {
        entry.take(from, out);
      }
      const auto found = from.value.find(entry.key.name());
      if (found == from.value.end()) {
        continue;
      }
      const std::string pointer = join_pointer(from.pointer, entry.key.name());
      from.keys.add(pointer, *found);
      if (entry.read && !from.keys.has_problem(pointer)) {
        entry.read(entry.key, {*found, pointer, from.keys}, out);
      }
    }
  }

  // Calls `f` for each component of the section, in the order of its keys.
  void visit(S& section, const ComponentFill& f) const {
    for (const Entry& entry : entries_) {
      if (entry.visit) {
        entry.visit(section, f);
      }
    }
  }

 private:
  using Visit = std::function<void(S&, const ComponentFill&)>;
  struct Uses {
    std::function<KeySchema(const RecipeKey&)> schema;
    std::function<KeySchema(const RecipeKey&, const S&)> preset;
    std::function<void(const RecipeKey&, const KeyValue&, S&)> read;
    Visit visit;
  };
  struct Entry : Uses {
    RecipeKey key;
    std::function<void(const KeyValue&, S&)> take = {};  // from the whole object
  };

  RecipeKey& add(const char* name, Uses uses) {
    entries_.push_back({std::move(uses), RecipeKey(name)});
    return entries_.back().key;
  }

  // The key "type" of a component's object. Also stores the component itself in `member`.
  RecipeKey& add_part(const char* kind, const char* other, ComponentUse S::*member) {
    add("type",
        {.schema = [](const RecipeKey& key) { return KeyType<std::string>::schema(key); },
         .preset = [](const RecipeKey&, const S&) { return no_preset(); },
         .read = {},
         .visit = [member](S& s, const ComponentFill& f) { visit_use(s.*member, f); }});
    entries_.back().take = [kind, other, member](const KeyValue& object, S& s) {
      if (*other == '\0' || !object.value.contains(other)) {
        read_use(kind, object, s.*member);
      }
    };
    return entries_.back().key.doc(kTypeDoc);
  }

  std::vector<Entry> entries_;
  const char* doc_ = "";
  const char* slot_ = "";
  std::string S::*text_form_ = nullptr;
  const char* word_pattern_ = "";
  bool is_open_ = false;
  bool is_whole_ = false;  // not an object inside the section
};

// ---- a section as a key of another section ----

template <class T>
requires requires(Section<T>& s) {
  T::bind(s);
}
struct KeyType<T> {
  static KeySchema schema(const RecipeKey&) { return Section<T>::of().schema(); }
  static KeySchema json(const RecipeKey&, const T&) {
    return has_required(Section<T>::of().schema()) ? no_preset() : KeySchema::object();
  }
  static void read(const RecipeKey&, const KeyValue& at, T& out) { Section<T>::of().read(at, out); }
  static void visit(T& value, const ComponentFill& f) { Section<T>::of().visit(value, f); }
};

}  // namespace tenon
