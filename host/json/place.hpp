// SPDX-License-Identifier: Apache-2.0
//
// Where a value of the recipe was written, so that a message can send the reader there: a line of
// the file, a --set of the command line, or nowhere (a default).

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
  std::string file = {};  // as the user named it; kFile alone
  int number = 0;         // the line of the file, or which --set; both count from 1
  std::string env = {};   // the variable, where the text came through ${ENV:NAME}

  // "recipes/a.json:12", "--set #2", "--set #2 via ${ENV:NAME}", "default".
  std::string text() const;

  // Messages are sorted in the order of reading: the file, the command line, the defaults.
  std::tuple<PlaceOrigin, int> sort_key() const { return {origin, number}; }
};

// From JSON pointer to place.
// Invariant: a value without an entry of its own has the place of its nearest ancestor that has
// one.
class PlaceMap {
 public:
  // Notes the place of the value at `pointer`; what was noted below it is forgotten, since
  // that value is a new one.
  void set(const std::string& pointer, Place place);

  // As set(), but keeps the entries below.
  void set_shallow(const std::string& pointer, Place place) { places_[pointer] = std::move(place); }

  // The place of a value, or of its nearest ancestor; "default" where nothing is known.
  const Place& at(std::string_view pointer) const;

  // The place of the value, or of its nearest ancestor, that somebody wrote: not a default. For
  // what is missing in a value that a default made.
  const Place& written_at(std::string_view pointer) const;

  // True where the value itself has an entry.
  bool has(std::string_view pointer) const { return places_.find(pointer) != places_.end(); }

  // True where the value itself, not an ancestor, was filled in as a default.
  bool is_default(std::string_view pointer) const;

 private:
  std::map<std::string, Place, std::less<>> places_;
};

}  // namespace tenon
