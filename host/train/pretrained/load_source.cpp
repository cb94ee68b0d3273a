// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/load_source.hpp"

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/checkpoint/local_storage.hpp"
#include "host/checkpoint/named_checkpoint.hpp"
#include "host/checkpoint/plugin_storage.hpp"
#include "host/checkpoint/weights_folder.hpp"
#include "host/json/bounded_json.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"
#include "host/train/pretrained/saved_model.hpp"
#include "host/train/resume/resume_candidates.hpp"
#include "host/train/run_state/run_state_names.hpp"
#include "host/train/weights/peft_layout.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

constexpr char kConfigFile[] = "config.json";

// Returns the parameters and buffers of a checkpoint's state, by name.
std::map<std::string, std::shared_ptr<const TensorSource>> tensors_of(const StateTree& state) {
  std::map<std::string, std::shared_ptr<const TensorSource>> tensors;
  for (const char* const part : {"values", "buffers"}) {
    const std::string prefix = state_path(run_state::kParameters, part) + "/";
    for (auto entry = state.entries().lower_bound(prefix);
         entry != state.entries().end() && entry->first.starts_with(prefix);
         ++entry) {
      if (const auto* const source =
              std::get_if<std::shared_ptr<const TensorSource>>(&entry->second.value)) {
        tensors[entry->first.substr(prefix.size())] = *source;
      }
    }
  }
  return tensors;
}

// Returns the hash of the base in the file that Tenon writes beside an adapter; none without the
// file.
std::optional<std::string> base_hash_in(const WeightsFolder& folder) {
  const auto text = folder.text(kAdapterBase);
  if (!text.has_value()) {
    return std::nullopt;
  }
  try {
    return parse_bounded_json(*text).at("base_hash").get<std::string>();
  } catch (const std::exception& error) {
    throw Error("weights.bad_folder",
                folder.path() + "/" + kAdapterBase + " cannot be read: " + error.what());
  }
}

// As find_checkpoints. Of a folder of another program, the error says why it cannot be read.
NamedCheckpoints checkpoints_in(const std::string& path) {
  try {
    return find_checkpoints(path);
  } catch (const Error&) {
    if (const std::string other = other_weights_in(path); !other.empty()) {
      throw Error("weights.bad_folder", other);
    }
    throw;
  }
}

}  // namespace

bool is_lost_source(const Error& error) {
  return is_damage(error) || error.id() == "weights.bad_folder" ||
         error.id() == "checkpoint.too_new" || error.id() == "state.bad_version";
}

LoadSearch::LoadSearch(const LoadRecipe& load,
                       ComponentFactory& factory,
                       Group& ranks,
                       LoadStorages& storages)
    : load_(load), factory_(factory), ranks_(ranks), storages_(storages) {}

// Only rank 0 searches, so that all ranks see the same checkpoints even if one appears meanwhile.
std::vector<LoadSearch::Candidate> LoadSearch::look(size_t source) {
  const LoadSource& from = load_.from[source];
  std::string text;
  if (ranks_.rank() == 0) {
    json told = json::array();
    try {
      if (from.storage.has_value()) {
        for (const Candidate& candidate : candidates_in_storage(source)) {
          told.push_back({candidate.path, candidate.checkpoint});
        }
      } else if (is_weights_folder(from.path)) {
        told.push_back({from.path, ""});
      } else {
        const NamedCheckpoints found = checkpoints_in(from.path);
        std::ranges::for_each(found.warnings, log_warning);
        for (auto checkpoint = found.checkpoints.rbegin(); checkpoint != found.checkpoints.rend();
             ++checkpoint) {
          told.push_back({found.root, *checkpoint});
        }
      }
      text = told.dump();
    } catch (const Error& error) {
      if (!is_lost_source(error)) {
        throw;
      }
      text = json(error.message()).dump();
    }
  }
  const json told = json::parse(ranks_.broadcast_text(text, 0, "candidates of " + load_.pointer));
  if (told.is_string()) {
    tried_.push_back(told.get<std::string>());
    if (ranks_.rank() == 0) {
      log_info(load_.pointer + ": " + tried_.back());
    }
    return {};
  }
  std::vector<Candidate> candidates;
  for (const json& candidate : told) {
    candidates.push_back({.source = source,
                          .path = candidate[0].get<std::string>(),
                          .checkpoint = candidate[1].get<std::string>()});
  }
  return candidates;
}

// Does the same as find_checkpoints() does in local folders.
std::vector<LoadSearch::Candidate> LoadSearch::candidates_in_storage(size_t source) {
  std::string path = load_.from[source].path;
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  std::vector<Candidate> candidates;
  for (const std::string& root : {path + "/checkpoints", path}) {
    Candidate candidate = {.source = source, .path = root, .checkpoint = ""};
    std::vector<std::string> checkpoints = storage_at(candidate)->list();
    for (; !checkpoints.empty(); checkpoints.pop_back()) {
      candidate.checkpoint = checkpoints.back();
      candidates.push_back(candidate);
    }
    if (!candidates.empty()) {
      return candidates;
    }
  }
  if (const size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0) {
    const Candidate candidate = {
        .source = source, .path = path.substr(0, slash), .checkpoint = path.substr(slash + 1)};
    if (is_checkpoint_name(candidate.checkpoint) &&
        std::ranges::count(storage_at(candidate)->list(), candidate.checkpoint) > 0) {
      return {candidate};
    }
  }
  throw Error("storage.not_found",
              "no finished checkpoint is named " + path + " in the storage '" +
                  load_.from[source].storage->type +
                  "'; use RUN for its newest checkpoint, or RUN/checkpoints/NAME");
}

std::shared_ptr<CheckpointStore> LoadSearch::storage_at(const Candidate& candidate) {
  const LoadSource& from = load_.from[candidate.source];
  auto& storage = storages_[formatted("{} {} {}", load_.pointer, candidate.source, candidate.path)];
  if (storage == nullptr && from.storage.has_value()) {
    storage = std::make_shared<PluginStorage>(
        factory_.create(*from.storage, "storage" + load_.pointer), candidate.path);
  } else if (storage == nullptr) {
    storage = std::make_shared<LocalStorage>(candidate.path);
  }
  return storage;
}

std::string LoadSearch::name_of(const Candidate& candidate) const {
  return candidate.checkpoint.empty() ? candidate.path
                                      : candidate.path + "/" + candidate.checkpoint;
}

LoadedSource LoadSearch::open(const Candidate& candidate) {
  LoadedSource source;
  if (candidate.checkpoint.empty()) {
    const WeightsFolder folder(candidate.path);
    source.address = folder.path();
    for (const auto& [name, tensor] : folder.tensors()) {
      source.tensors[name] = folder.source(name);
    }
    source.config = folder.text(kConfigFile);
    source.adapter = folder.text(kAdapterConfig);
    if (source.adapter.has_value()) {
      source.base_hash = base_hash_in(folder);
    }
    return source;
  }
  const CheckpointReader reader(storage_at(candidate), candidate.checkpoint);
  source.address = reader.address();
  source.state = reader.state(ranks_.rank(), ranks_.size(), nullptr);
  source.has_all_rows = reader.index().num_ranks() != int64_t{ranks_.size()};
  if (const uint32_t version = source.state->version(""); version != kRunStateVersion) {
    throw Error("state.bad_version",
                formatted("{} has a state of version {}, but this host supports {}",
                          source.address,
                          version,
                          kRunStateVersion));
  }
  const bool goes_on = load_.has_optimizer || load_.has_data;
  const bool is_auto = load_.which == WhichParameters::kAuto;
  SavedModel model = saved_model(
      reader, *std::move(source.state), is_auto && goes_on ? WhichParameters::kLast : load_.which);
  source.state = std::move(model.state);
  if (model.best.has_value()) {
    source.note = formatted("step {}, the best so far", model.step);
  }
  source.tensors = tensors_of(*source.state);
  return source;
}

LoadedSource LoadSearch::next() {
  for (;;) {
    while (candidates_.empty() && num_looked_ < load_.from.size()) {
      const std::vector<Candidate> found = look(num_looked_++);
      candidates_.assign(found.begin(), found.end());
    }
    if (candidates_.empty()) {
      break;
    }
    const Candidate candidate = candidates_.front();
    candidates_.pop_front();
    last_ = name_of(candidate);
    std::optional<LoadedSource> source;
    std::optional<Error> error;
    try {
      source = open(candidate);
    } catch (const Error& failure) {
      if (!is_lost_source(failure)) {
        throw;
      }
      error = failure;
    }
    if (!is_rejected(error)) {
      last_ = source->address;
      return *std::move(source);
    }
  }
  std::string lines;
  for (const std::string& line : tried_) {
    lines += "\n  " + line;
  }
  const bool has_pickle = std::ranges::any_of(load_.from, [](const LoadSource& from) {
    return from.path.ends_with(".pt") || from.path.ends_with(".pth") || from.path.ends_with(".bin");
  });
  throw Error(
      "load.no_source",
      load_.pointer + ": no source can be loaded:" + lines +
          "\nset \"from\" to an existing run folder, checkpoint or folder of safetensors" +
          (has_pickle ? "; convert a file of torch.save with safetensors.torch.save_file" : ""));
}

bool LoadSearch::is_rejected(const std::optional<Error>& mine) {
  const std::vector<std::string> all =
      ranks_.gather_texts(mine.has_value() ? mine->message() : "", "soundness of what is loaded");
  const auto told =
      std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  if (told == all.end()) {
    return false;
  }
  tried_.push_back(told->find(last_) == std::string::npos ? last_ + ": " + *told : *told);
  if (ranks_.rank() == 0) {
    log_warning(load_.pointer + " skips " + tried_.back());
  }
  return true;
}

}  // namespace tenon
