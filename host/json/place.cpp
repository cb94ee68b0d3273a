// SPDX-License-Identifier: Apache-2.0

#include "host/json/place.hpp"

#include "host/json/json_path.hpp"
#include "host/text/formatted.hpp"

namespace tenon {

std::string Place::text() const {
  std::string where;
  switch (origin) {
    case PlaceOrigin::kFile:
      where = formatted("{}:{}", file, number);
      break;
    case PlaceOrigin::kSet:
      where = formatted("--set #{}", number);
      break;
    case PlaceOrigin::kDefault:
      where = "default";
      break;
  }
  return env.empty() ? where : where + " via ${ENV:" + env + "}";
}

void PlaceMap::set(const std::string& pointer, Place place) {
  // All entries below start with "pointer/", so they are adjacent in the map.
  const std::string below = pointer + "/";
  auto first = places_.lower_bound(below);
  auto last = first;
  while (last != places_.end() && last->first.starts_with(below)) {
    ++last;
  }
  places_.erase(first, last);
  places_[pointer] = std::move(place);
}

const Place& PlaceMap::at(std::string_view pointer) const {
  static const Place unknown;
  while (true) {
    const auto found = places_.find(pointer);
    if (found != places_.end()) {
      return found->second;
    }
    if (pointer.empty()) {
      return unknown;
    }
    pointer = parent_pointer(pointer);
  }
}

const Place& PlaceMap::written_at(std::string_view pointer) const {
  while (!pointer.empty() && at(pointer).origin == PlaceOrigin::kDefault) {
    pointer = parent_pointer(pointer);
  }
  return at(pointer);
}

bool PlaceMap::is_default(std::string_view pointer) const {
  const auto found = places_.find(pointer);
  return found != places_.end() && found->second.origin == PlaceOrigin::kDefault;
}

}  // namespace tenon
