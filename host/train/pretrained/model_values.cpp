// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/model_values.hpp"

#include "host/error/error.hpp"

#include <utility>

namespace tenon {
namespace {

std::string sources_of(const ModelUse& use) {
  std::string text;
  for (const LoadRecipe& load : use.load) {
    for (const LoadSource& source : load.from) {
      text += (text.empty() ? "" : ", ") + source.path;
    }
  }
  return text;
}

}  // namespace

ModelValues::ModelValues(RunModels& models, ComponentFactory& factory, Group& ranks)
    : models_(models) {
  for (size_t i = 1; i < models.members().size(); ++i) {
    RunModels::Member& member = models.members()[i];
    loads_.emplace_back(member.use.load,
                        factory,
                        LoadGoal{.model = member.proxy.instance(),
                                 .graph = member.graph,
                                 .tables = {},
                                 .model_in_run = static_cast<uint32_t>(i),
                                 .prefix = member.use.name + "/",
                                 .first_parameter = member.first_parameter,
                                 .first_buffer = member.first_buffer,
                                 .first_parametrization = member.first_parametrization},
                        ranks);
  }
}

void ModelValues::add_stored(const ModelUse& use, std::string fingerprint) {
  fingerprints_[use.name] = std::move(fingerprint);
  stored_.push_back(&use);
}

void ModelValues::open() {
  for (Pretrained& load : loads_) {
    load.open();
  }
}

std::vector<std::string> ModelValues::load(const LoadTargets& targets, ShardedParameters& sharded) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < loads_.size(); ++i) {
    const std::string& name = models_.members()[i + 1].use.name;
    for (const Load& load : loads_[i].load_all(targets)) {
      lines.push_back("model '" + name + "': loaded " + load.text + "; from " + load.address);
    }
    fingerprints_[name] = targets.parameters.hash_of_model(
        static_cast<uint32_t>(i + 1),
        [&sharded](FlatGroup& group) { return sharded.gather_stored(group); });
  }
  return lines;
}

void ModelValues::snapshot(StateTree& tree, const std::string& prefix) const {
  for (const auto& [name, fingerprint] : fingerprints_) {
    tree.put_bytes(state_path(prefix, name), fingerprint);
  }
}

// A model that the checkpoint does not know has no earlier values.
void ModelValues::load(const StateTree& tree, const std::string& prefix) {
  std::vector<const ModelUse*> uses = stored_;
  for (size_t i = 1; i < models_.members().size(); ++i) {
    uses.push_back(&models_.members()[i].use);
  }
  for (const ModelUse* const one : uses) {
    const ModelUse& use = *one;
    const std::string entry = state_path(prefix, use.name);
    if (tree.find(entry) == nullptr) {
      continue;
    }
    if (const std::string& before = tree.get_bytes(entry); before != fingerprints_.at(use.name)) {
      throw Error("resume.model_changed",
                  "the model '" + use.name + "' (from " + sources_of(use) +
                      ") has other values than when the checkpoint was made (fingerprint " +
                      before + " then, " + fingerprints_.at(use.name) +
                      " now); restore its files, or start over with --resume none");
    }
  }
}

}  // namespace tenon
