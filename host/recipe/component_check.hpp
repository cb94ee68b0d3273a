// SPDX-License-Identifier: Apache-2.0
//
// Checks the components that a recipe names: looks them up in the catalog, checks their options
// against their schemas, adds defaults, and resolves references.

#pragma once

#include "host/json/place.hpp"
#include "host/json/problem.hpp"
#include "host/recipe/absolute_paths.hpp"
#include "host/recipe/component_catalog.hpp"
#include "host/recipe/recipe.hpp"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// A reference inside options: the pointers of the {"ref": ...} and of its target.
struct ComponentRef {
  std::string kind;
  std::string pointer;
  std::string target;
};

// A group of the optimizer: {"match", optional "type", own options}.
struct CheckedGroup {
  ComponentUse use;
  std::unique_ptr<nlohmann::json> frozen;  // the group's options in the frozen recipe

  CheckedGroup();
  CheckedGroup(CheckedGroup&&) noexcept;
  CheckedGroup& operator=(CheckedGroup&&) noexcept;
  CheckedGroup(const CheckedGroup&) = delete;
  CheckedGroup& operator=(const CheckedGroup&) = delete;
  ~CheckedGroup();
};

class ComponentChecker {
 public:
  // Problems are added to `problems`.
  //
  // Owner    all arguments are borrowed for the life of this object
  ComponentChecker(const ComponentCatalog& catalog,
                   AbsolutePaths& paths,
                   PlaceMap& places,
                   ProblemList& problems);
  ~ComponentChecker();
  ComponentChecker(const ComponentChecker&) = delete;
  ComponentChecker& operator=(const ComponentChecker&) = delete;
  ComponentChecker(ComponentChecker&&) = delete;
  ComponentChecker& operator=(ComponentChecker&&) = delete;

  // Checks the component {"type", "options", ...} at `pointer`. Completes `node`: its "options" get
  // their defaults and absolute paths. Skips a malformed node, which the host's schema has
  // reported.
  //
  // Errors   plugin.bad_schema; errors of the catalog
  ComponentUse check(const std::string& kind, nlohmann::json& node, const std::string& pointer);

  // Checks a group of the optimizer `base`. `base_node`, the optimizer's JSON, is complete.
  CheckedGroup check_group(const nlohmann::json& group,
                           const std::string& pointer,
                           const ComponentUse& base,
                           const nlohmann::json& base_node);

  // Checks all references that check() found. Each must lead to a component of its kind that
  // check() also found, and none may be circular. Call this last.
  void check_refs();

  const std::vector<ComponentRef>& refs() const { return refs_; }

 private:
  struct OptionSchema;

  std::optional<CatalogEntry> look_up(const std::string& kind,
                                      const std::string& name,
                                      const std::string& pointer);
  void unknown_type(const std::string& kind, const std::string& name, const std::string& pointer);
  const OptionSchema& schema_of(const std::string& kind,
                                const std::string& type,
                                const CatalogEntry& entry);
  void check_options(const OptionSchema& schema,
                     nlohmann::json& options,
                     const std::string& pointer,
                     ComponentUse& use);
  ComponentUse check_nested(const std::string& kind,
                            nlohmann::json& node,
                            const std::string& pointer);
  bool comes_back(const ComponentRef& ref) const;

  const ComponentCatalog& catalog_;
  AbsolutePaths& paths_;
  PlaceMap& places_;
  ProblemList& problems_;
  std::map<std::string, std::unique_ptr<OptionSchema>> schemas_;
  std::map<std::string, std::string> kinds_;  // kinds of the checked components, by pointer
  std::vector<ComponentRef> refs_;
};

}  // namespace tenon
