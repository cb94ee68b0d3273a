// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/pretrained.hpp"

#include "host/embedding/saved_rows.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"
#include "host/train/run_state/run_state_names.hpp"
#include "host/train/weights/base_hash.hpp"
#include "host/train/weights/converted_source.hpp"
#include "host/train/weights/weight_sources.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace tenon {
namespace {

// Bytes of a tensor that are read at once for verification.
constexpr int64_t kLookedAt = int64_t{16} << 20;

std::vector<int64_t> whole_shape(const StateEntry& entry) {
  return entry.piece.has_value() ? entry.piece->shape()
                                 : std::get<at::Tensor>(entry.value).sizes().vec();
}

// Returns the entries of `own`, with some replaced by `tensors` and `numbers`.
StateTree replaced(const StateTree& own,
                   const std::map<std::string, std::shared_ptr<const TensorSource>>& tensors,
                   const std::map<std::string, int64_t>& numbers) {
  StateTree tree;
  for (const auto& [name, version] : own.versions()) {
    tree.set_version(name, version);
  }
  for (const auto& [name, entry] : own.entries()) {
    if (const auto tensor = tensors.find(name); tensor != tensors.end()) {
      tree.put_source(name, tensor->second, entry.scope);
    } else if (const auto number = numbers.find(name); number != numbers.end()) {
      tree.put_int(name, number->second, entry.scope);
    } else {
      tree.put_entry(name, entry);
    }
  }
  return tree;
}

std::string optimizer_entry(const std::string& part, const std::string& name) {
  return state_path(run_state::kOptimizer, part + "/" + name);
}

// Returns the names of the slots that this rank stores for a parameter.
std::vector<std::string> slots_of(const StateTree& own, const std::string& parameter) {
  const std::string prefix = state_path(run_state::kOptimizer, "slots/");
  std::vector<std::string> slots;
  for (auto entry = own.entries().lower_bound(prefix);
       entry != own.entries().end() && entry->first.starts_with(prefix);
       ++entry) {
    const size_t slash = entry->first.find('/', prefix.size());
    if (entry->first.compare(slash + 1, std::string::npos, parameter) == 0) {
      slots.push_back(entry->first.substr(prefix.size(), slash - prefix.size()));
    }
  }
  return slots;
}

std::string every_of(const LoadRecipe& load, ReloadPoint point, uint64_t count) {
  const ScheduleUnit unit = point == ReloadPoint::kStep     ? ScheduleUnit::kStep
                            : point == ReloadPoint::kWindow ? ScheduleUnit::kWindow
                                                            : ScheduleUnit::kEpoch;
  return load.every.is_due(unit, count) ? formatted("after {} {}", unit_name(unit), count) : "";
}

}  // namespace

Pretrained::Pretrained(const std::vector<LoadRecipe>& loads,
                       ComponentFactory& factory,
                       LoadGoal goal,
                       Group& ranks)
    : loads_(loads), factory_(factory), goal_(std::move(goal)), ranks_(ranks) {}

LoadSearch Pretrained::search(const LoadRecipe& load) {
  return {load, factory_, ranks_, storages_};
}

void Pretrained::open() {
  for (const LoadRecipe& load : loads_) {
    choose(load, opened_.emplace_back(Opened{.search = search(load)}));
  }
}

void Pretrained::choose(const LoadRecipe& load, Opened& opened) {
  std::optional<Error> damage;
  do {
    damage.reset();
    opened.source = opened.search.next();
    opened.plan = plan_load(load, opened.source, goal_);
    try {
      verify(opened);
    } catch (const Error& error) {
      if (!is_lost_source(error)) {
        throw;
      }
      damage = error;
    }
  } while (opened.search.is_rejected(damage));
}

// Reads the tensors of the plan, each rank its share, so that corrupt ones throw.
void Pretrained::verify(const Opened& opened) const {
  if (!opened.source.state.has_value()) {
    return;  // safetensors have no checksums
  }
  for (const auto& tensor :
       planned_sources(opened.plan, opened.source, ranks_.rank(), ranks_.size())) {
    const auto element = static_cast<int64_t>(c10::elementSize(tensor->dtype()));
    const at::Tensor buffer =
        at::empty({std::min(kLookedAt / element, tensor->numel())}, tensor->dtype());
    for (int64_t first = 0; first < tensor->numel(); first += buffer.numel()) {
      tensor->read(first, buffer.narrow(0, 0, std::min(buffer.numel(), tensor->numel() - first)));
    }
  }
}

std::vector<Load> Pretrained::load_all(const LoadTargets& targets) {
  if (opened_.empty()) {
    open();
  }
  std::vector<Load> made;
  for (size_t i = 0; i < loads_.size(); ++i) {
    made.push_back(make(loads_[i], opened_.at(i), targets));
  }
  opened_.clear();
  return made;
}

std::vector<Load> Pretrained::reload(ReloadPoint point,
                                     uint64_t count,
                                     const LoadTargets& targets) {
  std::vector<Load> made;
  for (const LoadRecipe& load : loads_) {
    const std::string when = every_of(load, point, count);
    if (when.empty()) {
      continue;
    }
    Opened opened{.search = search(load)};
    try {
      choose(load, opened);
    } catch (const Error& error) {
      if (error.id() != "load.no_source") {
        throw;
      }
      if (ranks_.rank() == 0) {
        log_warning(when + " nothing is reloaded: " + error.message());
      }
      continue;
    }
    made.push_back(make(load, opened, targets));
    made.back().text += ", " + when;
  }
  return made;
}

Load Pretrained::make(const LoadRecipe& load, Opened& opened, const LoadTargets& targets) {
  int64_t num_rows = 0;
  for (;;) {
    std::optional<Error> damage;
    try {
      num_rows = apply(load, opened, targets);
    } catch (const Error& error) {
      if (!is_lost_source(error)) {
        throw;
      }
      damage = error;
    }
    if (!opened.search.is_rejected(damage)) {
      break;
    }
    choose(load, opened);
  }
  ranks_.all_reduce(std::span(&num_rows, 1), Reduce::kSum, "rows that were loaded");
  if (!opened.plan.cautions.empty() && ranks_.rank() == 0) {
    std::string lines;
    for (const std::string& line : opened.plan.cautions) {
      lines += "\n  " + line;
    }
    log_warning(opened.source.address +
                " does not fit the model; loading the parts that fit:" + lines);
  }
  return {.address = opened.source.address,
          .text = plan_text(opened.plan, num_rows) +
                  (opened.source.note.empty() ? "" : " of " + opened.source.note),
          .position = opened.plan.has_data ? std::move(opened.source.state) : std::nullopt};
}

int64_t Pretrained::apply(const LoadRecipe& load, Opened& opened, const LoadTargets& targets) {
  resolve_slots(load, opened, targets);
  check_base(load, opened, targets.parameters);
  std::optional<StateTree> optimizer;
  if (!opened.plan.optimized.empty()) {
    optimizer = with_optimizer(load, opened, targets);
  }
  if (!opened.plan.parts.empty()) {
    targets.parameters.load_model(
        goal_.model_in_run, with_parameters(opened, targets.parameters), run_state::kParameters);
    start_parametrizations(opened, targets);
  }
  if (optimizer.has_value()) {
    targets.optimizer.load(*optimizer, run_state::kOptimizer);
  }
  int64_t num_rows = 0;
  for (const LoadPlan::Rows& rows : opened.plan.tables) {
    num_rows += targets.tables->take_rows(rows.table,
                                          *opened.source.state,
                                          rows.below,
                                          rows.has_slots ? RowParts::kAll : RowParts::kValues,
                                          static_cast<int64_t>(targets.step));
  }
  return num_rows;
}

void Pretrained::resolve_slots(const LoadRecipe& load,
                               Opened& opened,
                               const LoadTargets& targets) const {
  for (LoadPlan::Rows& rows : opened.plan.tables) {
    rows.has_slots = load.has_optimizer;
    if (!rows.has_slots) {
      continue;
    }
    const TableSpec& spec = targets.tables->table(rows.table).spec();
    const std::string misfit =
        misfit_of_saved_rows(spec, *opened.source.state, rows.below, RowParts::kAll);
    if (misfit.empty()) {
      continue;
    }
    if (load.is_strict) {
      throw Error(
          "load.mismatch",
          opened.source.address + " does not fit " + load.pointer + ": table '" + spec.name +
              "' has " + misfit +
              "; remove \"optimizer\" from parts, or set \"strict\": false to start these states "
              "from zero");
    }
    rows.has_slots = false;
    opened.plan.unfit.push_back("the optimizer state of table " + spec.name);
  }
}

// Returns a weight of the goal's model by its indices and names in the run.
Weight Pretrained::weight_in_run(Weight weight) const {
  const bool is_parameter = weight.parameter != kNoIndex;
  weight.parameter += is_parameter ? goal_.first_parameter : 0;
  weight.buffer += is_parameter ? 0 : goal_.first_buffer;
  weight.entry = state_path(run_state::kParameters,
                            (is_parameter ? "values/" : "buffers/") + goal_.prefix + weight.name);
  return weight;
}

StateTree Pretrained::with_parameters(const Opened& opened, ParameterStore& store) const {
  StateTree own(StateTree::Copies::kNone);
  store.snapshot_model(goal_.model_in_run, own, run_state::kParameters);
  WeightSources sources;
  for (const LoadPlan::Part& part : opened.plan.parts) {
    if (!opened.plan.weights[part.mapped.weight].is_stored) {
      continue;  // start_parametrizations() reads it
    }
    const Weight weight = weight_in_run(opened.plan.weights[part.mapped.weight]);
    const at::ScalarType dtype =
        weight.parameter != kNoIndex
            ? store.groups()[store.position(weight.parameter).group].dtype()
            : store.buffer(weight.buffer).scalar_type();
    sources.add(weight, part.mapped, dtype, part.from, part.first_element);
  }
  return replaced(own, sources.by_entry(), {});
}

void Pretrained::check_base(const LoadRecipe& load,
                            const Opened& opened,
                            ParameterStore& store) const {
  const ModelGraph& graph = goal_.graph;
  const bool is_stored =
      std::ranges::all_of(graph.parametrizations, [](const auto& made) { return made.has_base; });
  if (!opened.source.base_hash.has_value() || !is_stored) {
    return;
  }
  uint64_t hash = 0;
  for (const ModelParametrization& made : graph.parametrizations) {
    const ParameterStore::Position& position =
        store.position(goal_.first_parameter + made.parameter);
    const FlatGroup& group = store.groups()[position.group];
    const FlatPart& part = group.part(position.entry);
    if (group.sharing().is_counted && part.length() > 0) {
      hash += base_hash_of(graph.parameters[made.parameter].name,
                           part.piece,
                           group.data().narrow(0, part.in_slice, part.length()).cpu());
    }
  }
  uint64_t sum = 0;
  for (const std::string& one : ranks_.gather_texts(formatted("{}", hash), "hash of the base")) {
    sum += std::stoull(one);
  }
  if (const std::string here = base_hash_text(sum); here != *opened.source.base_hash) {
    throw Error("load.mismatch",
                formatted("{} does not fit {}: the adapter was trained on another base (hash {}, "
                          "expected {}); load its base before it",
                          opened.source.address,
                          load.pointer,
                          here,
                          *opened.source.base_hash));
  }
}

void Pretrained::start_parametrizations(const Opened& opened, const LoadTargets& targets) const {
  if (opened.plan.started.empty()) {
    return;
  }
  std::vector<uint32_t> in_run;
  for (const uint32_t k : opened.plan.started) {
    in_run.push_back(goal_.first_parametrization + k);
  }
  targets.start(in_run, [&](uint32_t k) {
    const ModelParametrization& made =
        goal_.graph.parametrizations[k - goal_.first_parametrization];
    ParameterSource source(made.parameter, targets.parameters.stored_dtype(made.dtype));
    for (const LoadPlan::Part& part : opened.plan.parts) {
      const Weight& weight = opened.plan.weights[part.mapped.weight];
      if (source.takes(weight)) {
        source.add(weight, part.mapped, part.from, part.first_element);
      }
    }
    return source.whole();
  });
}

// What a load takes of the optimizer state of another run.
struct Pretrained::TakenState {
  std::map<std::string, std::shared_ptr<const TensorSource>> slots;  // by entry
  std::map<std::string, int64_t> numbers;                            // by entry
  std::set<std::string> fitting;
  std::set<std::string> with_scalars;  // parameters with slots that a piece shares
  std::string misfits;
};

// Takes the slots of the parameters whose slots all fit.
Pretrained::TakenState Pretrained::take_slots(const StateTree& own, Opened& opened) const {
  const StateTree& there = *opened.source.state;
  TakenState taken;
  for (const auto& [name, name_there] : opened.plan.optimized) {
    if (own.find(optimizer_entry("updates", name)) == nullptr) {
      continue;  // belongs to another rank
    }
    std::map<std::string, std::shared_ptr<const TensorSource>> slots;
    std::string misfit;
    for (const std::string& slot : slots_of(own, name)) {
      const std::string entry = optimizer_entry("slots/" + slot, name);
      const std::string from = optimizer_entry("slots/" + slot, name_there);
      const auto* const saved = there.find(from);
      const std::vector<int64_t> shape = whole_shape(*own.find(entry));
      if (saved == nullptr || there.shape_of(from) != shape) {
        misfit =
            "\n  '" + name_there + "' has " +
            (saved == nullptr ? "no slot '" + slot + "'"
                              : "the slot '" + slot + "' as " + shape_text(there.shape_of(from)) +
                                    ", expected " + shape_text(shape));
        break;
      }
      if (shape.empty()) {
        taken.with_scalars.insert(name);
      }
      slots[entry] = std::make_shared<ConvertedSource>(
          std::get<at::Tensor>(own.find(entry)->value).scalar_type(),
          shape,
          std::get<std::shared_ptr<const TensorSource>>(saved->value),
          0,
          false);
    }
    if (misfit.empty()) {
      taken.fitting.insert(name);
      taken.slots.merge(slots);
      taken.numbers[optimizer_entry("updates", name)] =
          there.get_int(optimizer_entry("updates", name_there));
    } else {
      taken.misfits += misfit;
      opened.plan.unfit.push_back("the optimizer state of " + name);
    }
  }
  return taken;
}

// Starts a new piece wherever loaded and other parameters, or different numbers of updates, meet.
void Pretrained::start_pieces(const FlatGroup& group,
                              const StateTree& own,
                              const Opened& opened,
                              TakenState& taken) {
  const StateTree& there = *opened.source.state;
  bool was_taken = false;
  int64_t updates_before = 0;
  for (const FlatEntry& entry : group.entries()) {
    const std::string& name = entry.parameter.name;
    const std::string start = optimizer_entry("starts", name);
    if (own.find(start) == nullptr) {
      continue;
    }
    const bool is_taken = taken.fitting.contains(name);
    const bool starts_there =
        is_taken && there.get_int(optimizer_entry("starts", opened.plan.optimized.at(name))) != 0;
    const std::string counter = optimizer_entry("updates", name);
    const int64_t updates = is_taken ? taken.numbers.at(counter) : own.get_int(counter);
    if (is_taken != was_taken || updates != updates_before || starts_there ||
        own.get_int(start) != 0 || taken.with_scalars.contains(name)) {
      taken.numbers[start] = 1;
    }
    was_taken = is_taken;
    updates_before = updates;
  }
}

// Returns the optimizer state of this run with the entries of loaded parameters replaced.
StateTree Pretrained::with_optimizer(const LoadRecipe& load,
                                     Opened& opened,
                                     const LoadTargets& targets) const {
  StateTree own(StateTree::Copies::kNone);
  targets.optimizer.snapshot(own, run_state::kOptimizer);
  TakenState taken = take_slots(own, opened);
  // The state of one rank may fit while that of another rank does not.
  const std::vector<std::string> all =
      ranks_.gather_texts(load.is_strict ? taken.misfits : "", "slots that do not fit");
  if (const auto told =
          std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
      told != all.end()) {
    throw Error("load.mismatch",
                opened.source.address + " does not fit " + load.pointer +
                    ": the optimizer states differ:" + *told +
                    "\nremove \"optimizer\" from parts, or set \"strict\": false to start these "
                    "states from "
                    "zero");
  }
  for (const FlatGroup& group : targets.parameters.groups()) {
    start_pieces(group, own, opened, taken);
  }
  return replaced(own, taken.slots, taken.numbers);
}

}  // namespace tenon
