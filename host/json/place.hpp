// SPDX-License-Identifier: Apache-2.0
//
// Where the user wrote a value of the recipe, for messages: a line of the file, a --set option, or
// nowhere (a default).

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace tenon {

enum class PlaceOrigin { kFile, kSet, kDefault };

struct Place {
  PlaceOrigin origin = PlaceOrigin::kDefault;
  std::string file = {};  // as the user named it; only for kFile
  int number = 0;         // line of the file, or number of the --set, from 1; 0 for kDefault
  std::string env = {};   // variable name, if the text contained ${ENV:NAME}; else ""

  // "recipes/a.json:12", "--set #2", "--set #2 via ${ENV:NAME}", "default".
  std::string text() const;

  // Sorts messages: first the file, then the command line, then the defaults.
  std::tuple<PlaceOrigin, int> sort_key() const { return {origin, number}; }
};

// Maps JSON pointers to places.
// Invariant: a value without an entry has the place of its nearest ancestor with an entry.
class PlaceMap {
 public:
  // Sets the place of a new value at `pointer`, and removes all entries below it.
  void set(const std::string& pointer, Place place);

  // Like set(), but keeps the entries below `pointer`.
  void set_shallow(const std::string& pointer, Place place) { places_[pointer] = std::move(place); }

  // Returns the place of a value, or of its nearest ancestor with an entry, or "default".
  const Place& at(std::string_view pointer) const;

  // Like at(), but skips defaults, up to the nearest ancestor that the user wrote. For keys that
  // are missing in a default value.
  const Place& written_at(std::string_view pointer) const;

  // True if the value itself has an entry.
  bool has(std::string_view pointer) const { return places_.find(pointer) != places_.end(); }

  // True if the value itself, not an ancestor, is a default.
  bool is_default(std::string_view pointer) const;

 private:
  std::map<std::string, Place, std::less<>> places_;
};

}  // namespace tenon
