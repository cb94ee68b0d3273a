// SPDX-License-Identifier: Apache-2.0
//
// The second phase of reading a recipe, which needs the plugins.

#pragma once

#include "host/plugin/registry.hpp"
#include "host/recipe/recipe_loader.hpp"

namespace tenon {

// Checks all that can be checked before components are created: options against the schemas of
// their plugins, and "plugins.need". Loads the plugins that the recipe names.
//
// Errors   RecipeErrors with all problems; the plugin.* error of a required plugin that was
//          rejected
Recipe check_recipe(RecipeDraft draft, PluginRegistry& registry);

}  // namespace tenon
