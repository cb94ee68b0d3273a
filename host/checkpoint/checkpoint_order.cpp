// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/checkpoint_order.hpp"

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

namespace tenon {
namespace {

// A checkpoint that can be read, by what its index says.
struct TakenAt {
  size_t index = 0;  // in the list
  std::string name;
  std::string time;
  uint64_t step = 0;
};

// A checkpoint whose position in the order is unknown.
struct Unreadable {
  std::string name;
  std::string why;
};

std::vector<TakenAt> read_times(const std::shared_ptr<CheckpointStore>& storage,
                                const std::vector<std::string>& names) {
  std::vector<TakenAt> taken;
  for (size_t i = 0; i < names.size(); ++i) {
    try {
      const CheckpointReader reader(storage, names[i]);
      const CheckpointMetadata& metadata = reader.index().metadata;
      taken.push_back({i, names[i], metadata.time, metadata.step});
    } catch (const Error&) {
      // Whoever resumes from it reports the error.
    }
  }
  return taken;
}

// Reorders checkpoints by time if `latest` agrees with the times about the newest. A flipped bit in
// COMMITTED is then outvoted, as is a clock that was set back.
void vote(const std::shared_ptr<CheckpointStore>& storage,
          const std::string& latest,
          CheckpointOrder& order) {
  const std::vector<TakenAt> taken = read_times(storage, order.checkpoints);
  std::vector<TakenAt> by_time = taken;
  std::ranges::stable_sort(
      by_time, {}, [](const TakenAt& one) { return std::tie(one.time, one.step); });
  if (std::ranges::equal(taken, by_time, {}, &TakenAt::name, &TakenAt::name)) {
    return;
  }
  if (latest == by_time.back().name + "\n") {
    for (size_t i = 0; i < taken.size(); ++i) {
      order.checkpoints[taken[i].index] = by_time[i].name;
    }
  }
  order.warnings.push_back(formatted(
      "the order of the checkpoints is uncertain: a COMMITTED of an earlier release has no "
      "checksum, and the numbers in COMMITTED and the times in index.json disagree; the newest is "
      "{} by number, {} by time; using {}",
      storage->address(taken.back().name),
      by_time.back().name,
      order.checkpoints[taken.back().index]));
}

// The checkpoint that `latest` names; "" if it names none.
std::string named_by(const std::string& latest, const std::vector<std::string>& names) {
  const auto named =
      std::ranges::find_if(names, [&](const std::string& name) { return latest == name + "\n"; });
  return named != names.end() ? *named : "";
}

void check_latest(CheckpointStore& storage,
                  const std::string& latest,
                  const std::vector<std::string>& valid,
                  CheckpointOrder& order) {
  const std::string named = named_by(latest, order.checkpoints);
  if (named.empty()) {
    order.warnings.push_back(
        formatted("{} is corrupt or out of date: \"{}\" is not a checkpoint beside it",
                  storage.address("latest"),
                  printable_line(latest.substr(0, std::min<size_t>(latest.find('\n'), 200)))));
  } else if (!valid.empty() && named != valid.back() &&
             std::ranges::find(valid, named) != valid.end()) {
    order.warnings.push_back(formatted("{} names {}, but {} was committed later; using the later",
                                       storage.address("latest"),
                                       named,
                                       valid.back()));
  }
}

// Checkpoints with a corrupt COMMITTED come last, because each may be the newest. If `latest` names
// the newest of the others, they come first instead, as a last resort.
void insert_corrupt(const std::vector<Unreadable>& corrupt,
                    const std::string& latest,
                    const std::vector<std::string>& valid,
                    CheckpointOrder& order) {
  if (corrupt.empty() || valid.empty() || latest != valid.back() + "\n") {
    return;
  }
  order.checkpoints.clear();
  for (const Unreadable& one : corrupt) {
    order.checkpoints.push_back(one.name);
    order.warnings.push_back(one.why + "; `latest` names a newer checkpoint");
  }
  order.checkpoints.insert(order.checkpoints.end(), valid.begin(), valid.end());
}

}  // namespace

CheckpointOrder checkpoint_order(const std::shared_ptr<CheckpointStore>& storage) {
  CheckpointOrder order{.checkpoints = storage->list(), .warnings = {}};
  for (const std::string& name : storage->skipped()) {
    order.warnings.push_back(
        formatted("skipping the checkpoint \"{}\": its name is not valid; rename it to use it",
                  printable_line(storage->address(name))));
  }
  std::optional<std::string> latest;
  try {
    latest = storage->latest();
  } catch (const Error& error) {
    order.warnings.push_back(error.message());
  }
  std::vector<Unreadable> corrupt;
  bool is_sure = true;
  for (const std::string& name : order.checkpoints) {
    try {
      const auto record = storage->commit_record(name);
      is_sure = is_sure && (!record.has_value() || record->has_checksum());
    } catch (const Error& error) {
      corrupt.push_back({name, error.message()});
    }
  }
  if (!is_sure) {
    vote(storage, latest.value_or(""), order);
  }
  if (latest.has_value()) {
    std::vector<std::string> valid = order.checkpoints;
    std::erase_if(valid, [&](const std::string& name) {
      return std::ranges::find(corrupt, name, &Unreadable::name) != corrupt.end();
    });
    check_latest(*storage, *latest, valid, order);
    insert_corrupt(corrupt, *latest, valid, order);
  }
  return order;
}

}  // namespace tenon
