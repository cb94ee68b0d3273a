// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/run_dataset.hpp"

#include "host/metrics/progress.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/recipe_features.hpp"

#include <cstdio>
#include <utility>

namespace tenon {
namespace {

WhenOneEnds when_of(WhenSourceEnds when) {
  switch (when) {
    case WhenSourceEnds::kRepeat:
      return WhenOneEnds::kRepeat;
    case WhenSourceEnds::kStop:
      return WhenOneEnds::kStop;
    case WhenSourceEnds::kContinue:
      return WhenOneEnds::kContinue;
  }
  return WhenOneEnds::kRepeat;
}

OverLong over_long_of(OverLongSamples what) {
  switch (what) {
    case OverLongSamples::kError:
      return OverLong::kError;
    case OverLongSamples::kDrop:
      return OverLong::kDrop;
    case OverLongSamples::kCut:
      return OverLong::kCut;
    case OverLongSamples::kSplit:
      return OverLong::kSplit;
  }
  return OverLong::kError;
}

PackOptions options_of(const PackingUse& use) {
  return {.length = use.length,
          .strategy = use.strategy == PackingStrategy::kGreedy ? PackStrategy::kGreedy
                                                               : PackStrategy::kBestFit,
          .group = use.group,
          .over_long = over_long_of(use.over_long)};
}

std::string size_text(DataSource& source) {
  const DataSourceInfo& info = source.info();
  if (info.has_windows) {
    return "in windows";
  }
  return info.style == DatasetStyle::kMap ? grouped_digits(source.size(nullptr)) + " samples"
                                          : "a stream";
}

std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g%% of the mix", 100 * share);
  return text;
}

}  // namespace

// The first source of a mix has the same seed as a single dataset, so that a mix of one source
// equals that dataset.
RunDataset::RunDataset(ComponentFactory& factory,
                       const DatasetUse& use,
                       const std::string& role,
                       uint64_t seed,
                       bool shuffle,
                       const StoredFields& stored)
    : use_(use) {
  create_sources(factory, role, seed, shuffle);
  add_features(factory);
  if (!stored.names.empty()) {
    stored_.emplace(without_stored(), stored.names, stored.dtype);
  }
  if (use.packing) {
    packed_.emplace(unpacked(), options_of(*use.packing));
  }
}

void RunDataset::create_sources(ComponentFactory& factory,
                                const std::string& role,
                                uint64_t seed,
                                bool shuffle) {
  const DatasetUse& use = use_;
  if (use.mix.empty()) {
    factory.explain_paths(
        [&] { datasets_.emplace_back(factory.create(use.use, role), &factory.mesh()); });
    return;
  }
  std::vector<MixPart> parts;
  for (std::size_t i = 0; i < use.mix.size(); ++i) {
    const std::string own = i == 0 ? role : formatted("{}/mix/{}", role, i);
    factory.explain_paths(
        [&] { datasets_.emplace_back(factory.create(use.mix[i].use, own), &factory.mesh()); });
    parts.push_back({use.mix[i].name, use.mix[i].weight, &datasets_.back()});
  }
  mix_.emplace(std::move(parts),
               MixOptions{.when = when_of(use.when_one_ends), .seed = seed, .shuffle = shuffle});
}

// Each RunDataset has its own feature instances, since the types of its columns may differ.
void RunDataset::add_features(ComponentFactory& factory) {
  if (factory.recipe().features.empty()) {
    return;
  }
  std::vector<const FeatureUse*> all;
  for (const FeatureUse& feature : factory.recipe().features) {
    all.push_back(&feature);
  }
  const FeaturePlan plan = plan_features(factory, std::move(all));
  const DataSource& source = without_features();
  features_.emplace(plan.definitions, *source.info().schema, source.name(), plan.exec, plan.make);
  with_features_.emplace(without_features(), *features_);
}

std::vector<const ComponentInstance*> RunDataset::instances() const {
  std::vector<const ComponentInstance*> instances;
  for (const DatasetProxy& dataset : datasets_) {
    instances.push_back(&dataset.instance());
  }
  return instances;
}

std::vector<ReportedComponent> RunDataset::reported_features() const {
  std::vector<ReportedComponent> lines;
  if (features_) {
    for (const ComponentInstance* const instance : features_->types()) {
      const PluginContext& plugin = instance->plugin();
      lines.push_back({"feature", instance->type(), plugin.id + " " + plugin.version, ""});
    }
    lines.front().detail = counted(features_->num_steps(), "step") + " in " +
                           counted(features_->num_calls(), "call") + " a batch";
  }
  return lines;
}

std::vector<ReportedComponent> RunDataset::reported(const std::string& role) {
  double sum = 0;
  for (const MixEntry& entry : use_.mix) {
    sum += entry.weight;
  }
  std::vector<ReportedComponent> lines;
  for (std::size_t i = 0; i < datasets_.size(); ++i) {
    const ComponentInstance& instance = datasets_[i].instance();
    const PluginContext& plugin = instance.plugin();
    ReportedComponent line{
        role, instance.type(), plugin.id + " " + plugin.version, size_text(datasets_[i])};
    if (!use_.mix.empty()) {
      line.role += "/" + use_.mix[i].name;
      line.detail += ", " + percent_text(use_.mix[i].weight / sum);
    }
    if (packed_) {
      line.detail +=
          ", packed into rows of " + grouped_digits(packed_->options().length) + " tokens";
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tenon
