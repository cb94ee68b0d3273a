// SPDX-License-Identifier: Apache-2.0

#include "host/data/feature_graph.hpp"

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"

#include <algorithm>
#include <memory>
#include <optional>

namespace tenon {
namespace {

std::string list_of(const std::vector<std::string>& names) {
  return names.empty() ? "none" : joined(names);
}

std::string label_of(const FeatureDefinition& definition, std::size_t step) {
  return formatted(
      "feature \"{}\", step {} ({})", definition.name, step + 1, definition.steps[step].type);
}

}  // namespace

FeatureGraph::FeatureGraph(const std::vector<FeatureDefinition>& definitions,
                           const std::vector<FieldInfo>& fields,
                           std::string dataset,
                           const ExecBase& exec,
                           const MakeFeature& make)
    : dataset_(std::move(dataset)) {
  for (std::size_t number = 0; number < definitions.size(); ++number) {
    const FeatureDefinition& definition = definitions[number];
    if (find_column(fields, definition.name)) {
      fail("feature \"" + definition.name + "\"",
           "the dataset already has a column of that name; rename the feature");
    }
    Slots columns;
    for (const std::string& name : definition.from) {
      try {
        const Slots more = slots_named(definition, name, fields);
        columns.insert(columns.end(), more.begin(), more.end());
      } catch (const Error& error) {
        if (error.id() != "data.bad_column") {
          throw;
        }
        throw error.with_context(dataset_ + ", feature \"" + definition.name + "\"");
      }
    }
    for (std::size_t step = 0; step < definition.steps.size(); ++step) {
      columns = add_step(definition, step, columns, [&] { return make(number, step); });
    }
    name_outputs(definition, columns);
  }
  std::vector<FieldInfo> all = fields;
  for (const auto& [name, slot] : features_) {
    for (FieldInfo& field : fields_of_column(name, types_[slot])) {
      if (find_field(all, field.name)) {
        fail("feature \"" + name + "\"",
             "the dataset has a field \"" + field.name + "\" already; rename the feature");
      }
      all.push_back(std::move(field));
    }
  }
  schema_ = std::make_shared<const std::vector<FieldInfo>>(std::move(all));
  schedule(exec);
}

void FeatureGraph::fail(const std::string& label, const std::string& problem) const {
  throw Error("data.bad_feature", dataset_ + ", " + label + ": " + problem);
}

// Returns the columns of an earlier feature, or a column of the batch.
FeatureGraph::Slots FeatureGraph::slots_named(const FeatureDefinition& definition,
                                              const std::string& name,
                                              const std::vector<FieldInfo>& fields) {
  Slots slots;
  for (const auto& [feature, slot] : features_) {
    if (feature == name || feature.starts_with(name + ".")) {
      slots.push_back(slot);
    }
  }
  if (!slots.empty()) {
    return slots;
  }
  const auto known = std::ranges::find(given_, name, &Given::name);
  if (known != given_.end()) {
    return {known->slot};
  }
  const std::optional<ColumnFields> column = find_column(fields, name);
  if (!column) {
    fail("feature \"" + definition.name + "\"",
         "it reads \"" + name + "\", which is neither a column of the dataset (" +
             list_of(column_names(fields)) + ") nor an earlier feature (" + list_of(names_) + ")");
  }
  given_.push_back({.name = name, .fields = *column, .slot = types_.size()});
  types_.push_back(column->type);
  return {given_.back().slot};
}

FeatureGraph::Slots FeatureGraph::add_step(const FeatureDefinition& definition,
                                           std::size_t step,
                                           const Slots& inputs,
                                           const std::function<FeatureProxy()>& make) {
  Slots& outputs = known_[{definition.steps[step].identity, inputs}];
  if (!outputs.empty()) {
    return outputs;
  }
  const std::string label = label_of(definition, step);
  std::vector<ColumnType> types;
  std::vector<std::string> found;
  for (const std::size_t slot : inputs) {
    types.push_back(types_[slot]);
    found.push_back(describe(types_[slot]));
  }
  Node node{.feature = make(), .label = label, .inputs = inputs, .first_output = types_.size()};
  std::vector<ColumnType> made;
  try {
    made = node.feature.infer(types);
  } catch (const PluginError& error) {
    if (error.code() != TENON_INVALID) {
      throw error.with_context(dataset_ + ", " + label);
    }
    std::string columns;
    for (const std::string& text : found) {
      columns += (columns.empty() ? "" : "; ") + text;
    }
    fail(label, error.message() + "\nInputs: " + columns);
  }
  for (const ColumnType& type : made) {
    outputs.push_back(types_.size());
    types_.push_back(type);
  }
  nodes_.push_back(std::move(node));
  return outputs;
}

// A single column has the name of the feature; several columns are NAME.0, NAME.1, ...
void FeatureGraph::name_outputs(const FeatureDefinition& definition, const Slots& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string suffix = outputs.size() == 1 ? "" : formatted(".{}", i);
    features_.emplace_back(definition.name + suffix, outputs[i]);
  }
  names_.push_back(definition.name);
}

void FeatureGraph::schedule(const ExecBase& exec) {
  using Type = const tenon_component*;
  const auto type_of = [this](std::size_t node) {
    return &nodes_[node].feature.instance().descriptor();
  };
  std::vector<bool> is_there(types_.size(), false);
  for (const Given& given : given_) {
    is_there[given.slot] = true;
  }
  std::vector<std::size_t> waiting(nodes_.size());
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    waiting[i] = i;
  }
  while (!waiting.empty()) {
    std::vector<std::pair<Type, std::vector<std::size_t>>> ready;  // in the order of the features
    std::map<Type, std::size_t> num_waiting;
    for (const std::size_t node : waiting) {
      ++num_waiting[type_of(node)];
      if (std::ranges::all_of(nodes_[node].inputs,
                              [&](std::size_t slot) { return is_there[slot]; })) {
        auto entry = std::ranges::find(ready, type_of(node), [](const auto& r) { return r.first; });
        if (entry == ready.end()) {
          entry = ready.insert(ready.end(), {type_of(node), {}});
        }
        entry->second.push_back(node);
      }
    }
    // A type of which all waiting steps are ready, or else the type with the most ready steps.
    auto chosen = std::ranges::find_if(
        ready, [&](const auto& entry) { return entry.second.size() == num_waiting[entry.first]; });
    if (chosen == ready.end()) {
      chosen = std::ranges::max_element(
          ready, {}, [](const auto& entry) { return entry.second.size(); });
    }
    for (const std::size_t node : chosen->second) {
      const std::size_t end =
          node + 1 < nodes_.size() ? nodes_[node + 1].first_output : types_.size();
      std::fill(is_there.begin() + static_cast<std::ptrdiff_t>(nodes_[node].first_output),
                is_there.begin() + static_cast<std::ptrdiff_t>(end),
                true);
      std::erase(waiting, node);
    }
    const tenon_host* const host = nodes_[chosen->second.front()].feature.instance().host();
    groups_.push_back({.nodes = chosen->second, .frame = ExecFrame(host, exec)});
  }
}

std::vector<const ComponentInstance*> FeatureGraph::types() const {
  std::vector<const ComponentInstance*> found;
  for (const Node& node : nodes_) {
    const ComponentInstance& instance = node.feature.instance();
    if (std::ranges::none_of(found, [&](const ComponentInstance* other) {
          return &other->descriptor() == &instance.descriptor();
        })) {
      found.push_back(&instance);
    }
  }
  return found;
}

// ---- for each batch ----

std::vector<at::Tensor> FeatureGraph::run(const Batch& batch) const {
  std::vector<Column> slots(types_.size());
  for (const Given& given : given_) {
    slots[given.slot] = column_of(batch, given.fields);
    if (const auto why = why_not_column(slots[given.slot], given.fields.type, batch.samples)) {
      throw Error("data.bad_batch",
                  dataset_ + ": column \"" + given.name + "\", which a feature reads: " + *why);
    }
  }
  for (const Group& group : groups_) {
    run_group(group, slots, batch.samples);
  }
  std::vector<at::Tensor> fields;
  for (const auto& [name, slot] : features_) {
    const std::vector<at::Tensor> more = slots[slot].tensors();
    fields.insert(fields.end(), more.begin(), more.end());
  }
  return fields;
}

void FeatureGraph::run_group(const Group& group,
                             std::vector<Column>& slots,
                             int64_t samples) const {
  std::vector<FeatureCall> calls;
  for (const std::size_t number : group.nodes) {
    FeatureCall& call = calls.emplace_back(
        FeatureCall{.feature = &nodes_[number].feature, .inputs = {}, .outputs = {}});
    for (const std::size_t slot : nodes_[number].inputs) {
      call.inputs.push_back(&slots[slot]);
    }
  }
  try {
    FeatureProxy::run(group.frame.exec(), calls, samples);
  } catch (const Error& error) {
    blame(group, calls, samples, error);
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    std::ranges::move(
        calls[i].outputs,
        slots.begin() + static_cast<std::ptrdiff_t>(nodes_[group.nodes[i]].first_output));
  }
}

// Finds the step that failed, because a call of several steps does not report it.
void FeatureGraph::blame(const Group& group,
                         std::vector<FeatureCall>& calls,
                         int64_t samples,
                         const Error& error) const {
  if (calls.size() == 1) {
    throw error.with_context(dataset_ + ", " + nodes_[group.nodes.front()].label);
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    try {
      FeatureProxy::run(group.frame.exec(), {&calls[i], 1}, samples);
    } catch (const Error& own) {
      throw own.with_context(dataset_ + ", " + nodes_[group.nodes[i]].label);
    }
  }
  std::vector<std::string> labels;
  for (const std::size_t node : group.nodes) {
    labels.push_back(nodes_[node].label);
  }
  throw error.with_context(dataset_ + ", " + list_of(labels) + ", together");
}

}  // namespace tenon
