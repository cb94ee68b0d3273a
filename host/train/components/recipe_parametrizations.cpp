// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/recipe_parametrizations.hpp"

#include "host/error/error.hpp"
#include "host/model/parametrized_graph.hpp"
#include "host/text/formatted.hpp"
#include "host/text/name_pattern.hpp"
#include "host/text/nearest_name.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace tenon {
namespace {

[[noreturn]] void fail_unmatched(const ParametrizationUse& use,
                                 const std::string& pattern,
                                 const ModelGraph& graph) {
  std::vector<std::string> names;
  std::set<std::string> ends;  // "q_proj.weight" of "model.layers.0.self_attn.q_proj.weight"
  for (const ModelParameter& parameter : graph.parameters) {
    names.push_back(parameter.name);
    const size_t last = parameter.name.rfind('.');
    const size_t before = last == std::string::npos || last == 0
                              ? std::string::npos
                              : parameter.name.rfind('.', last - 1);
    ends.insert(before == std::string::npos ? parameter.name : parameter.name.substr(before + 1));
  }
  std::string plain = pattern;
  std::erase(plain, '*');
  plain.erase(0, std::min(plain.find_first_not_of('.'), plain.size()));
  std::vector<std::string> candidates(ends.begin(), ends.end());
  candidates.insert(candidates.end(), names.begin(), names.end());
  std::vector<std::string> near = nearest_names(plain, candidates);
  if (near.empty()) {
    near.assign(names.begin(), names.begin() + std::min<std::ptrdiff_t>(4, std::ssize(names)));
  }
  std::string list;
  for (const std::string& name : near) {
    list += (list.empty() ? "'" : ", '") + name + "'";
  }
  throw Error("parametrization.unmatched",
              formatted("{}: {}: the pattern '{}' matches no parameter; the nearest names are {}",
                        use.use.place,
                        use.use.pointer,
                        pattern,
                        list));
}

}  // namespace

void add_parametrizations(ComponentFactory& factory, const ModelUse& use, ModelGraph& graph) {
  const size_t num_parameters = graph.parameters.size();  // reals are not matched
  size_t number = 0;
  for (const ParametrizationUse& one : use.parametrizations) {
    for (const std::string& pattern : one.match) {
      bool is_matched = false;
      for (uint32_t q = 0; q < num_parameters; ++q) {
        if (!matches_pattern(pattern, graph.parameters[q].name)) {
          continue;
        }
        is_matched = true;
        const uint32_t same_as = graph.parameters[q].same_as;
        const uint32_t p = same_as == kNoIndex ? q : same_as;
        if (graph.parameters[p].parametrization != kNoIndex) {
          continue;  // an earlier entry or pattern applies
        }
        if (const std::string why = unparametrizable(graph, p); !why.empty()) {
          throw Error("parametrization.unsupported",
                      formatted("{}: {}: the pattern '{}' matches '{}', which no parametrization "
                                "can replace: {}; let \"match\" leave it out",
                                one.use.place,
                                one.use.pointer,
                                pattern,
                                graph.parameters[q].name,
                                why));
        }
        parametrize(graph, p, factory.create(one.use, formatted("parametrizations/{}", number++)));
      }
      if (!is_matched) {
        fail_unmatched(one, pattern, graph);
      }
    }
  }
}

}  // namespace tenon
