// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_sources.hpp"

#include "host/error/error.hpp"
#include "host/io/checksum.hpp"
#include "host/io/sampled_hash.hpp"
#include "host/log/log.hpp"
#include "host/plugin/source_files_proxy.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

constexpr std::string_view kVersionForm = "version:";

// A local path is not read if the component knows a version of its content.
ListedSource listed(const std::string& place, const std::vector<SourceFile>& files) {
  ListedSource source{.record = {.place = place, .files = {}}};
  for (const SourceFile& file : files) {
    const bool is_known = !file.version.empty();
    source.record.files.push_back({.name = file.name,
                                   .bytes = file.size,
                                   .hash = is_known ? std::string(kVersionForm) + file.version : "",
                                   .name_counts = file.name_counts});
    source.paths.push_back(file.path);
  }
  const std::vector<int64_t> sizes = file_sizes(source.paths);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (!source.paths[i].empty() && source.record.files[i].bytes < 0) {
      source.record.files[i].bytes = sizes[i];
    }
    if (!source.record.files[i].hash.empty()) {
      source.paths[i].clear();
    }
  }
  return source;
}

SourceRecord hashed(const ListedSource& source) {
  SourceRecord record = source.record;
  std::vector<std::string> paths;
  std::vector<std::size_t> files;
  for (std::size_t i = 0; i < source.paths.size(); ++i) {
    if (!source.paths[i].empty()) {
      paths.push_back(source.paths[i]);
      files.push_back(i);
    }
  }
  const std::vector<SampledHash> hashes = sampled_hashes(paths);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    record.files[files[i]].bytes = hashes[i].bytes;
    record.files[files[i]].hash = hashes[i].hash;
  }
  shorten(record);
  return record;
}

// True if the names are equal, or one is the end of the other: names are below the common folder,
// which depends on the other files.
bool is_same_name(const std::string& a, const std::string& b) {
  const auto is_end = [](const std::string& whole, const std::string& end) {
    return whole.size() > end.size() && whole.ends_with(end) &&
           whole[whole.size() - end.size() - 1] == '/';
  };
  return a == b || is_end(a, b) || is_end(b, a);
}

// Keeps the files of a window that both records have. A dataset has its own policy for files that
// arrive for a window, or disappear from it.
void keep_common(SourceRecord& then, SourceRecord& now) {
  SourceRecord both_then{.place = then.place, .files = {}};
  SourceRecord both_now{.place = now.place, .files = {}};
  for (RecordedFile& file : now.files) {
    const auto found = std::ranges::find_if(
        then.files, [&](const RecordedFile& was) { return is_same_name(was.name, file.name); });
    if (found != then.files.end()) {
      both_then.files.push_back(*found);
      both_now.files.push_back(std::move(file));
      both_now.files.back().name_counts = false;
    }
  }
  then = std::move(both_then);
  now = std::move(both_now);
}

// One record a line; names and sizes only. Texts of JSON have no line breaks.
std::string listing_text(const std::vector<ListedSource>& sources) {
  std::string text;
  for (const ListedSource& source : sources) {
    SourceRecord record = source.record;
    shorten(record);
    text += record_text(record) + "\n";
  }
  return text;
}

std::vector<SourceRecord> records_in(std::string_view text) {
  std::vector<SourceRecord> records;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    records.push_back(record_of(std::string(text.substr(0, end))));
    text.remove_prefix(end + 1);
  }
  return records;
}

void check_same_listing(const std::vector<ListedSource>& sources, Group& ranks) {
  const std::string mine = listing_text(sources);
  const auto digests = ranks.gather_texts(xxh128_text(mine), "files of the data");
  if (std::ranges::count(digests, digests.front()) == std::ssize(digests)) {
    return;
  }
  const auto all = ranks.gather_texts(mine, "names of the data's files");
  const std::vector<SourceRecord> first = records_in(all.front());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    for (const SourceChange& change : source_changes(first, records_in(all[rank]))) {
      throw Error("data.differs",
                  formatted("{} is not the same on all ranks: on rank {}, {}, as on rank 0; give "
                            "all ranks the same files and options",
                            change.place,
                            rank,
                            change.what));
    }
  }
}

}  // namespace

std::vector<ListedSource> list_sources(const RunPlan& plan) {
  std::vector<const ComponentInstance*> instances;
  const auto add_set = [&](RunDataset& set, bool has_recorder) {
    if (!has_recorder || !set.source().info().has_windows) {
      const auto of_set = set.instances();
      instances.insert(instances.end(), of_set.begin(), of_set.end());
    }
  };
  // The recorder of a stream covers windows of training, and those of evaluations beside them.
  RunDataset& train = *plan.data.train;
  const bool is_paired =
      train.source().info().has_windows && plan.recipe().eval.with_window != WithWindow::kNever;
  add_set(train, true);
  for (const std::unique_ptr<RunDataset>& set : plan.data.eval) {
    add_set(*set, is_paired);
  }
  for (const ComponentInstance* const instance : plan.context.factory.nested_instances()) {
    if (!instance->place().starts_with("/data/test")) {
      instances.push_back(instance);
    }
  }
  for (const RunModels::Member& member : plan.model.models->members()) {
    instances.push_back(&member.proxy.instance());
  }
  std::vector<ListedSource> sources;
  for (const ComponentInstance* const instance : instances) {
    if (const auto files = source_files_of(*instance)) {
      sources.push_back(listed(instance->place(), *files));
    }
  }
  return sources;
}

std::vector<SourceRecord> agree_on_sources(const std::vector<ListedSource>& listed, Group& ranks) {
  check_same_listing(listed, ranks);
  std::string text;
  if (ranks.rank() == 0) {
    for (const ListedSource& source : listed) {
      text += record_text(hashed(source)) + "\n";
    }
  }
  std::vector<SourceRecord> records =
      records_in(ranks.broadcast_text(text, 0, "hashes of the data's files"));
  for (std::size_t i = 0; i < std::min(records.size(), listed.size()); ++i) {
    SourceRecord here = listed[i].record;
    shorten(here);
    for (std::size_t f = 0; f < std::min(here.files.size(), records[i].files.size()); ++f) {
      records[i].files[f].name_counts = here.files[f].name_counts;
    }
  }
  return records;
}

std::vector<SourceChange> source_changes(const std::vector<SourceRecord>& then,
                                         const std::vector<SourceRecord>& now) {
  std::vector<SourceChange> changes;
  for (const SourceRecord& is : now) {
    const auto was = std::ranges::find(then, is.place, &SourceRecord::place);
    if (was == then.end()) {
      continue;  // the rules of the recipe decide about a new component
    }
    if (std::string what = record_difference(*was, is); !what.empty()) {
      changes.push_back({is.place, std::move(what)});
    }
  }
  return changes;
}

void judge_changes(const std::vector<SourceChange>& changes,
                   const std::string& where,
                   OnDataChange on_change,
                   bool is_first) {
  if (changes.empty()) {
    return;
  }
  std::string text = "the run reads other files than at " + where + ": ";
  for (const SourceChange& change : changes) {
    text += change.place + ": " + change.what + "; ";
  }
  if (on_change == OnDataChange::kStop) {
    throw Error("data.changed",
                text +
                    "restore the files, or set data.on_change to \"continue\" to train on with the "
                    "files as they are now: samples may then be missed or repeated");
  }
  if (is_first) {
    log_warning(text + "the run continues with the files as they are now");
  }
}

WindowRecorder window_recorder(const RunDataset& set, OnDataChange on_change, bool is_first) {
  const ComponentInstance* const instance = set.instances().front();
  return {.record =
              [instance](const Window& window) {
                const auto files = source_files_of(*instance, window.abi());
                return files && !files->empty()
                           ? record_text(hashed(listed(instance->place(), *files)))
                           : "";
              },
          .compare =
              [on_change, is_first](const std::string& then_text, const std::string& now_text) {
                SourceRecord then = record_of(then_text);
                SourceRecord now = record_of(now_text);
                keep_common(then, now);
                judge_changes(source_changes({then}, {now}),
                              "the checkpoint, in the window in which it was taken",
                              on_change,
                              is_first);
              }};
}

}  // namespace tenon
