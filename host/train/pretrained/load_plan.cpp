// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/load_plan.hpp"

#include <tenon/model.h>

#include "host/embedding/saved_rows.hpp"
#include "host/error/error.hpp"
#include "host/plugin/weights_layout_proxy.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/train/pretrained/load_choice.hpp"
#include "host/train/pretrained/load_differences.hpp"
#include "host/train/run_state/run_state_names.hpp"
#include "host/train/weights/hf_names.hpp"
#include "host/train/weights/peft_layout.hpp"
#include "host/train/weights/resized_source.hpp"

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <set>
#include <utility>

namespace tenon {
namespace {

constexpr char kHf[] = "hf";

int64_t elements_of_row(const std::vector<int64_t>& shape) {
  return shape.empty() ? 0 : c10::multiply_integers(shape.begin() + 1, shape.end());
}

// Returns the names of the entries directly below `prefix`: "user" for "tables/user/ids".
std::vector<std::string> names_below(const StateTree& state, std::string prefix) {
  prefix += "/";
  std::vector<std::string> names;
  for (auto entry = state.entries().lower_bound(prefix);
       entry != state.entries().end() && entry->first.starts_with(prefix);
       ++entry) {
    const std::string name =
        entry->first.substr(prefix.size(), entry->first.find('/', prefix.size()) - prefix.size());
    if (names.empty() || names.back() != name) {
      names.push_back(name);
    }
  }
  return names;
}

// Compares in parts: a file may claim any size.
bool are_equal(const TensorSource& a, const TensorSource& b) {
  constexpr int64_t kChunk = int64_t{1} << 20;
  if (a.shape() != b.shape()) {
    return false;
  }
  for (int64_t first = 0; first < a.numel(); first += kChunk) {
    const int64_t n = std::min(kChunk, a.numel() - first);
    const at::Tensor of_a = at::empty({n}, a.dtype());
    const at::Tensor of_b = at::empty({n}, b.dtype());
    a.read(first, of_a);
    b.read(first, of_b);
    if (!at::equal(of_a.to(at::kDouble), of_b.to(at::kDouble))) {
      return false;
    }
  }
  return true;
}

class LoadPlanning {
 public:
  LoadPlanning(const LoadRecipe& load, const LoadedSource& source, const LoadGoal& goal)
      : load_(load), source_(source), goal_(goal), choice_(load), differences_(load) {}

  LoadPlan make() {
    const LayoutMap map = choose_map();
    plan_.weights = map.weights;
    if (load_.has_parameters) {
      plan_weights(map);
    }
    if (load_.has_tables) {
      plan_tables();
    }
    if (load_.has_optimizer) {
      plan_optimizer();
    }
    if (load_.has_data) {
      plan_data();
    }
    check_patterns(map);
    refuse_what_does_not_fit();
    return std::move(plan_);
  }

 private:
  LoadMisfits misfits() const {
    return {.unfit = plan_.unfit, .kept = plan_.kept, .left = plan_.left};
  }

  [[noreturn]] void refuse(const std::string& lines) const {
    throw Error("load.mismatch",
                source_.address + " does not fit " + load_.pointer + ":" + lines +
                    differences_.advice(misfits()));
  }

  bool is_hf_layout() const {
    return !source_.state.has_value() && !source_.adapter.has_value() &&
           (load_.layout == LoadLayout::kHf ||
            (load_.layout == LoadLayout::kAuto && WeightsLayoutProxy::of(goal_.model).has_value()));
  }

  LayoutMap choose_map() const {
    if (source_.adapter.has_value()) {
      if (goal_.graph.parametrizations.empty()) {
        throw Error("load.mismatch",
                    source_.address + " does not fit " + load_.pointer +
                        ": it has an adapter, and the recipe has no parametrizations; add the "
                        "adapter's to /model/parametrizations");
      }
      std::set<std::string> there;
      for (const auto& [name, tensor] : source_.tensors) {
        there.insert(name);
      }
      return peft_layout_map(goal_.model, goal_.graph, PeftUse::kLoad, there);
    }
    return is_hf_ ? layout_map_of(goal_.model, goal_.graph, kHf, TENON_F32)
                  : own_layout_map(goal_.graph, Unstored::kInclude);
  }

  // Maps names here to names in the source.
  template <class Names>
  std::map<std::string, std::string> by_name_here(const Names& names) {
    std::map<std::string, std::string> there_of;
    for (const std::string& there : names) {
      const std::string here =
          prefix_.has_value() ? prefix_->here(there) : choice_.name_here(there);
      const auto [at, is_new] = there_of.try_emplace(here, there);
      if (!is_new) {
        plan_.unfit.push_back("'" + at->second + "' and '" + there + "' would both be '" + here +
                              "'");
      }
    }
    return there_of;
  }

  void plan_weights(const LayoutMap& map) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : source_.tensors) {
      if (!is_hf_ || !is_computed_in_hf(name, tensor->shape())) {
        names.push_back(name);
      }
    }
    find_prefix(map, names);
    const auto there_of = by_name_here(names);
    find_reals(there_of);
    std::set<std::string> known;
    // If the main name of a weight is missing, its alias is used.
    std::map<size_t, const MappedTensor*> aliases;
    for (const MappedTensor& tensor : map.tensors) {
      known.insert(tensor.name);
      if (tensor.is_alias && there_of.contains(tensor.name)) {
        aliases.emplace(tensor.parts.front().weight, &tensor);
      }
    }
    for (const MappedTensor& tensor : map.tensors) {
      if (tensor.is_alias) {
        continue;
      }
      const auto alias = aliases.find(tensor.parts.front().weight);
      const bool is_there = there_of.contains(tensor.name);
      if (is_there && alias != aliases.end()) {
        compare_alias(tensor, there_of.at(tensor.name), there_of.at(alias->second->name));
      }
      const MappedTensor& named = is_there || alias == aliases.end() ? tensor : *alias->second;
      plan_tensor(tensor, named.name, there_of);
    }
    check_slices();
    for (const auto& [here, there] : there_of) {
      if (!known.contains(here) && choice_.takes(here)) {
        plan_.left.push_back(there);
      }
    }
    compare_config();
    find_started();
  }

  // Folders of Hugging Face may have other prefixes. Rules of the recipe take the place of this.
  void find_prefix(const LayoutMap& map, std::vector<std::string>& names) {
    if (!is_hf_ || !load_.rename.empty()) {
      return;
    }
    std::set<std::string> here;
    for (const MappedTensor& tensor : map.tensors) {
      here.insert(tensor.name);
    }
    prefix_.emplace(std::set<std::string>(names.begin(), names.end()), here);
    std::erase_if(names, [&](const std::string& name) { return prefix_->is_other_part(name); });
  }

  // Finds the parametrizations that have a real parameter or buffer of their own in the source.
  void find_reals(const std::map<std::string, std::string>& there_of) {
    const ModelGraph& graph = goal_.graph;
    for (const ModelParametrization& made : graph.parametrizations) {
      // An adapter has the reals, under other names.
      has_reals_.push_back(source_.adapter.has_value() ||
                           std::ranges::any_of(made.reals,
                                               [&](uint32_t p) {
                                                 return p != made.parameter &&
                                                        there_of.contains(graph.parameters[p].name);
                                               }) ||
                           std::ranges::any_of(made.buffers, [&](uint32_t b) {
                             return there_of.contains(graph.buffers[b].name);
                           }));
    }
  }

  void find_started() {
    for (const LoadPlan::Part& part : plan_.parts) {
      const Weight& weight = plan_.weights[part.mapped.weight];
      const uint32_t k = weight.parametrization;
      if (k != kNoIndex && !has_reals_[k] &&
          weight.parameter == goal_.graph.parametrizations[k].parameter) {
        plan_.started.push_back(k);
      }
    }
  }

  // A source has either the reals of a parametrization, or the effective parameter alone.
  bool is_optional(const Weight& weight) const {
    const uint32_t k = weight.parametrization;
    if (k == kNoIndex) {
      return false;
    }
    const bool is_effective = weight.parameter == goal_.graph.parametrizations[k].parameter;
    return is_effective ? has_reals_[k] && !weight.is_stored : !has_reals_[k];
  }

  void plan_tensor(const MappedTensor& tensor,
                   const std::string& name,
                   const std::map<std::string, std::string>& there_of) {
    const auto found = there_of.find(name);
    for (const MappedWeight& part : tensor.parts) {
      const Weight& weight = plan_.weights[part.weight];
      if (!choice_.takes(weight.name)) {
        continue;
      }
      if (found == there_of.end()) {
        if (!is_optional(weight)) {
          plan_.kept.push_back(part.is_slice() ? formatted("{} (slice {})", weight.name, part.slice)
                                               : weight.name);
        }
        continue;
      }
      const auto& from = source_.tensors.at(found->second);
      const bool has_more_rows =
          tensor.parts.size() == 1 && !part.is_transposed && !part.is_slice() &&
          from->shape().size() == tensor.shape.size() && !tensor.shape.empty() &&
          std::equal(from->shape().begin() + 1, from->shape().end(), tensor.shape.begin() + 1) &&
          from->shape().front() > 0 && from->shape().front() < tensor.shape.front() &&
          c10::isFloatingType(from->dtype()) && is_floating(weight);
      if (has_more_rows && differences_.resizes(weight.name)) {
        differences_.add_resized(from->shape().front(), tensor.shape.front());
        plan_.resized.push_back(weight.name);
        plan_.parts.push_back(
            {.mapped = part,
             .from = std::make_shared<ResizedSource>(from, tensor.shape.front(), weight.name),
             .first_element = 0});
      } else if (from->shape() != tensor.shape) {
        differences_.add_shape(found->second,
                               weight.name,
                               from->shape(),
                               tensor.shape,
                               has_more_rows,
                               source_.config.has_value());
        plan_.unfit.push_back("'" + found->second + "' is " + shape_text(from->shape()) +
                              ", expected " + shape_text(tensor.shape));
      } else if (c10::isFloatingType(from->dtype()) != is_floating(weight)) {
        plan_.unfit.push_back("'" + found->second + "' has the dtype " +
                              c10::toString(from->dtype()));
      } else {
        plan_.parts.push_back({.mapped = part,
                               .from = from,
                               .first_element = part.first * elements_of_row(tensor.shape)});
      }
    }
  }

  // A weight that files store as slices is loaded only if all slices are there and fit.
  void check_slices() {
    std::map<size_t, int64_t> num_slices;  // by weight
    for (const LoadPlan::Part& part : plan_.parts) {
      if (part.mapped.is_slice()) {
        ++num_slices[part.mapped.weight];
      }
    }
    for (const auto& [w, count] : num_slices) {
      const Weight& weight = plan_.weights[w];
      if (count == weight.shape.front()) {
        continue;
      }
      plan_.unfit.push_back(
          formatted("'{}' has {} of its {} slices", weight.name, count, weight.shape.front()));
      std::erase_if(plan_.parts,
                    [w = w](const LoadPlan::Part& part) { return part.mapped.weight == w; });
    }
  }

  bool is_floating(const Weight& weight) const {
    const uint32_t dtype = weight.parameter != kNoIndex
                               ? goal_.graph.parameters[weight.parameter].dtype
                               : goal_.graph.buffers[weight.buffer].dtype;
    return !is_dtype(dtype) || c10::isFloatingType(static_cast<at::ScalarType>(dtype));
  }

  // Tensors that are tied here must have equal values in the source.
  void compare_alias(const MappedTensor& tensor,
                     const std::string& first,
                     const std::string& second) {
    const bool is_wanted = load_.is_strict && tensor.parts.size() == 1 &&
                           choice_.takes(plan_.weights[tensor.parts.front().weight].name);
    if (!is_wanted) {
      return;
    }
    // plan_tensor() reports another shape than the model's.
    const bool is_usable = source_.tensors.at(first)->shape() == tensor.shape ||
                           differences_.resizes(plan_.weights[tensor.parts.front().weight].name);
    if (is_usable && !are_equal(*source_.tensors.at(first), *source_.tensors.at(second))) {
      plan_.unfit.push_back("'" + second + "' has different values than '" + first +
                            "', but the model ties them");
    }
  }

  void compare_config() {
    if (source_.adapter.has_value()) {
      differences_.add_adapter(peft_differences(goal_.model, goal_.graph, *source_.adapter));
    } else if (source_.config.has_value() && load_.layout != LoadLayout::kOwn) {
      differences_.compare_config(
          goal_.model, *source_.config, choice_.takes_all(), plan_.cautions);
    } else if (is_hf_) {
      differences_.add_missing_config(choice_.takes_all(), plan_.cautions);
    }
  }

  void plan_tables() {
    if (!source_.state.has_value()) {
      return;
    }
    const auto there_of = by_name_here(names_below(*source_.state, run_state::kTables));
    std::set<std::string> known;
    for (size_t t = 0; t < goal_.tables.size(); ++t) {
      const std::string& name = goal_.tables[t].name;
      known.insert(name);
      if (!choice_.takes(name)) {
        continue;
      }
      const auto found = there_of.find(name);
      if (found == there_of.end()) {
        kept_anyway_.push_back("table " + name);
        continue;
      }
      const std::string below = state_path(run_state::kTables, found->second);
      TableSpec spec = goal_.tables[t];
      spec.slots.clear();
      const std::string misfit =
          misfit_of_saved_rows(spec, *source_.state, below, RowParts::kValues);
      if (misfit.empty()) {
        plan_.tables.push_back({.table = t, .below = below});
      } else {
        plan_.unfit.push_back("table '" + found->second + "' has " + misfit);
      }
    }
    for (const auto& [here, there] : there_of) {
      if (!known.contains(here) && choice_.takes(here)) {
        plan_.left.push_back("table " + there);
      }
    }
  }

  // Optimizer state belongs to the values of its parameter, so it is loaded only with them.
  void plan_optimizer() {
    const std::string prefix = state_path(run_state::kOptimizer, "updates");
    if (!source_.state.has_value() || !source_.state->has_subtree(run_state::kOptimizer)) {
      refuse(
          "\n  it has no optimizer state; remove \"optimizer\" from parts, or use a full "
          "checkpoint");
    }
    if (!load_.has_parameters) {
      if (!load_.has_tables) {
        throw Error("load.mismatch",
                    load_.pointer +
                        "/parts has \"optimizer\" without \"parameters\": the optimizer state in " +
                        source_.address +
                        " belongs to the parameters there; add \"parameters\", or remove "
                        "\"optimizer\"");
      }
      kept_anyway_.emplace_back("the optimizer state of parameters, which are not loaded");
      return;
    }
    std::set<uint32_t> loaded;  // parameters
    for (const LoadPlan::Part& part : plan_.parts) {
      loaded.insert(plan_.weights[part.mapped.weight].parameter);
    }
    // Parameter names may contain '/'.
    std::vector<std::string> names;
    for (auto entry = source_.state->entries().lower_bound(prefix + "/");
         entry != source_.state->entries().end() && entry->first.starts_with(prefix + "/");
         ++entry) {
      names.push_back(entry->first.substr(prefix.size() + 1));
    }
    const auto there_of = by_name_here(names);
    for (size_t p = 0; p < goal_.graph.parameters.size(); ++p) {
      const ModelParameter& parameter = goal_.graph.parameters[p];
      const bool is_trained = parameter.same_as == kNoIndex &&
                              (parameter.flags & TENON_PARAM_FROZEN) == 0 &&
                              (!is_dtype(parameter.dtype) ||
                               c10::isFloatingType(static_cast<at::ScalarType>(parameter.dtype)));
      if (!is_trained || !choice_.takes(parameter.name)) {
        continue;
      }
      const auto found = there_of.find(parameter.name);
      if (found == there_of.end() || !loaded.contains(static_cast<uint32_t>(p))) {
        plan_.kept.push_back("the optimizer state of " + parameter.name);
      } else {
        plan_.optimized[parameter.name] = found->second;
      }
    }
  }

  void plan_data() {
    if (!source_.state.has_value() || !source_.state->has_subtree(run_state::kTrainData)) {
      refuse("\n  it has no data position; remove \"data\" from parts, or use a full checkpoint");
    }
    plan_.has_data = true;
  }

  void check_patterns(const LayoutMap& map) const {
    if (!load_.has_parameters && !load_.has_tables && !load_.has_optimizer) {
      return;
    }
    std::vector<std::string> here;
    for (const Weight& weight : map.weights) {
      here.push_back(weight.name);
    }
    for (const TableSpec& table : goal_.tables) {
      here.push_back(table.name);
    }
    std::vector<std::string> there;
    for (const auto& [name, tensor] : source_.tensors) {
      there.push_back(name);
    }
    if (source_.state.has_value()) {
      const auto tables = names_below(*source_.state, run_state::kTables);
      there.insert(there.end(), tables.begin(), tables.end());
    }
    if (const std::vector<std::string> idle = choice_.idle(here, there); !idle.empty()) {
      here.resize(std::min<size_t>(here.size(), 4));
      throw Error("load.unmatched",
                  "patterns that match no name, in the model or in " + source_.address + ":" +
                      shown_lines(idle) + "\nnames in the model start with " + joined(here));
    }
  }

  // Throws if a strict load has misfits, if the source's config.json describes another function, or
  // if nothing would be loaded. A table that the source lacks is no misfit: it starts empty.
  void refuse_what_does_not_fit() {
    std::string lines = differences_.lines(misfits());
    if (!load_.is_strict) {
      warn_of_initial_values();
    }
    const bool has_some =
        !plan_.parts.empty() || !plan_.tables.empty() || !plan_.optimized.empty() || plan_.has_data;
    if (!has_some) {
      lines =
          "\n  nothing would be loaded" + lines + (load_.is_strict ? "" : shown_lines(plan_.unfit));
    }
    if (!lines.empty()) {
      refuse(lines);
    }
    plan_.kept.insert(plan_.kept.end(), kept_anyway_.begin(), kept_anyway_.end());
  }

  void warn_of_initial_values() {
    for (const std::string& line : plan_.unfit) {
      plan_.cautions.push_back(line + "; it keeps its initial values");
    }
    for (const std::string& name : plan_.kept) {
      plan_.cautions.push_back("'" + name + "' is missing; it keeps its initial values");
    }
  }

  const LoadRecipe& load_;
  const LoadedSource& source_;
  const LoadGoal& goal_;
  const bool is_hf_ = is_hf_layout();
  const LoadChoice choice_;
  LoadPlan plan_;
  std::vector<std::string> kept_anyway_;  // not loaded, also by a strict load
  std::vector<bool> has_reals_;           // by parametrization
  std::optional<HfPrefix> prefix_;        // of names in the source
  LoadDifferences differences_;
};

}  // namespace

LoadPlan plan_load(const LoadRecipe& load, const LoadedSource& source, const LoadGoal& goal) {
  return LoadPlanning(load, source, goal).make();
}

std::vector<std::shared_ptr<const TensorSource>> planned_sources(const LoadPlan& plan,
                                                                 const LoadedSource& source,
                                                                 uint32_t rank,
                                                                 uint32_t num_ranks) {
  std::set<std::shared_ptr<const TensorSource>> shared;
  std::vector<std::shared_ptr<const TensorSource>> chosen;
  for (const LoadPlan::Part& part : plan.parts) {
    if (shared.insert(part.from).second && shared.size() % num_ranks == rank) {
      chosen.push_back(part.from);
    }
  }
  if (!source.state.has_value()) {
    return chosen;
  }
  std::vector<std::string> prefixes;
  for (const LoadPlan::Rows& rows : plan.tables) {
    prefixes.push_back(rows.below + "/");
  }
  if (plan.has_data) {
    prefixes.emplace_back("data/");
  }
  std::set<std::string> optimized;
  for (const auto& [here, there] : plan.optimized) {
    optimized.insert("/" + there);
  }
  size_t number = 0;
  for (const auto& [name, entry] : source.state->entries()) {
    const auto* const tensor = std::get_if<std::shared_ptr<const TensorSource>>(&entry.value);
    const bool is_slot =
        !optimized.empty() && name.starts_with("optimizer/slots/") &&
        optimized.contains(name.substr(name.find('/', std::string("optimizer/slots/").size())));
    const bool is_wanted = is_slot || std::ranges::any_of(prefixes, [&](const std::string& prefix) {
                             return name.starts_with(prefix);
                           });
    if (tensor == nullptr || !is_wanted) {
      continue;
    }
    const bool is_own = entry.scope == kStateByRow && !source.has_all_rows;
    if (is_own || ++number % num_ranks == rank) {
      chosen.push_back(*tensor);
    }
  }
  return chosen;
}

std::string plan_text(const LoadPlan& plan, int64_t num_rows) {
  std::vector<std::string> taken;
  if (!plan.parts.empty()) {
    std::set<size_t> weights;
    for (const LoadPlan::Part& part : plan.parts) {
      weights.insert(part.mapped.weight);
    }
    taken.push_back(counted(weights.size(), "parameter"));
  }
  if (!plan.tables.empty()) {
    taken.push_back(counted(plan.tables.size(), "table") + " (" +
                    counted(static_cast<size_t>(num_rows), "row") + ")");
  }
  if (!plan.optimized.empty()) {
    taken.push_back("the optimizer state of " + counted(plan.optimized.size(), "parameter"));
  }
  if (plan.has_data) {
    taken.emplace_back("the data position");
  }
  const auto list = [](const std::vector<std::string>& names, size_t shown) {
    std::string text;
    for (size_t i = 0; i < std::min(names.size(), shown); ++i) {
      text += (i > 0 ? ", " : "") + names[i];
    }
    return names.size() > shown ? formatted("{} and {} more", text, names.size() - shown) : text;
  };
  constexpr size_t kShown = 8;
  std::string text = list(taken, taken.size());
  const auto tell = [&](const char* what, const std::vector<std::string>& names) {
    text += names.empty() ? "" : what + list(names, kShown);
  };
  tell("; with rows for new tokens: ", plan.resized);
  tell("; unchanged: ", plan.kept);
  tell("; skipped: ", plan.left);
  tell("; does not fit: ", plan.unfit);
  return text;
}

}  // namespace tenon
