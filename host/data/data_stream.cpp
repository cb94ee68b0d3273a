// SPDX-License-Identifier: Apache-2.0

#include "host/data/data_stream.hpp"

#include "host/data/packed_source.hpp"
#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/tensor/state/saved_number.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <string_view>
#include <utility>

namespace tenon {
namespace {

constexpr uint32_t kStateVersion = 2;

// Entries of a shard are below "shards/NUMBER/", so that entries of all ranks can be merged.
std::string shard_path(const std::string& prefix, uint32_t shard) {
  return state_path(prefix, formatted("shards/{}", shard));
}

void put_shard(StateTree& tree, const std::string& prefix, const ShardPosition& shard) {
  const std::string path = shard_path(prefix, shard.shard);
  tree.put_int(state_path(path, "batches"), shard.num_batches, TENON_STATE_PER_SHARD);
  tree.put_int(state_path(path, "ended"), shard.has_ended ? 1 : 0, TENON_STATE_PER_SHARD);
  if (shard.position) {
    tree.put_bytes(state_path(path, "position"), *shard.position, TENON_STATE_PER_SHARD);
  }
}

// Returns the shards in the tree. A shard that no rank had opened begins at its start.
std::vector<ShardPosition> get_shards(const StateTree& tree,
                                      const std::string& prefix,
                                      uint32_t num_shards) {
  std::vector<ShardPosition> shards;
  for (uint32_t number = 0; number < num_shards; ++number) {
    const std::string path = shard_path(prefix, number);
    if (!tree.has_subtree(path)) {
      continue;
    }
    ShardPosition shard{.shard = number,
                        .has_ended = tree.get_int(state_path(path, "ended")) != 0,
                        .num_batches = saved_signed_count(tree, state_path(path, "batches"))};
    const std::string position = state_path(path, "position");
    if (tree.find(position) != nullptr) {
      shard.position = tree.get_bytes(position);
    }
    shards.push_back(std::move(shard));
  }
  return shards;
}

// Stores ids bitwise as i64 numbers, in ascending order of ids.
at::Tensor tensor_of(const std::set<uint64_t>& ids) {
  const at::Tensor tensor = at::empty({static_cast<int64_t>(ids.size())}, at::kLong);
  auto* out = tensor.mutable_data_ptr<int64_t>();
  for (const uint64_t id : ids) {
    *out++ = static_cast<int64_t>(id);
  }
  return tensor;
}

std::set<uint64_t> ids_of(const at::Tensor& tensor) {
  std::set<uint64_t> ids;
  const auto* const values = tensor.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    ids.insert(static_cast<uint64_t>(values[i]));
  }
  return ids;
}

// Calls `f` with the name of each count in a state, and the count.
template <class Counts, class F>
void for_each_count(Counts& counts, const F& f) {
  f("rows", counts.rows);
  f("samples", counts.samples);
  f("tokens", counts.tokens);
  f("over_long", counts.over_long);
  f("lost", counts.lost);
}

std::string style_name(DatasetStyle style) {
  return style == DatasetStyle::kMap ? "map style" : "stream style";
}

}  // namespace

DataStream::DataStream(DataSource& source, const LoaderOptions& options, SkipList excluded)
    : source_(source),
      options_(options),
      excluded_(std::move(excluded)),
      parts_before_(source.parts().size(), 0) {}

void DataStream::begin_epoch(uint64_t epoch) {
  close_window();
  epoch_ = epoch;
  ask_again_.reset();
  num_windows_ = 0;
  num_opened_ = 0;
  num_skipped_ = 0;
  num_repeated_ = 0;
  num_batches_before_ = 0;
  packs_before_epoch_ += std::exchange(packs_before_, {});
  seen_.clear();
  expected_.clear();
  source_.reset(epoch);
}

bool DataStream::next_window() {
  TENON_ASSERT(epoch_.has_value(), "begin_epoch() comes first");
  close_window();
  ask_again_.reset();
  if (has_reached_limit()) {
    return false;
  }
  if (!source_.info().has_windows) {
    if (num_windows_ > 0) {
      return false;
    }
    ++num_windows_;
    ++num_opened_;
    open({});
    return true;
  }
  window_ = walk_to_next();
  if (!window_) {
    return false;
  }
  ++num_opened_;
  record_window();
  open({});
  return true;
}

// Called before reads start.
void DataStream::record_window() {
  record_ = recorder_.record && window_ ? recorder_.record(*window_) : "";
}

void DataStream::close_window() {
  if (loader_) {
    if (!has_other_options_) {
      parts_before_ = part_samples();
      num_batches_before_ += loader_->num_batches();
      packs_before_ += loader_->pack_counts();
    }
    loader_.reset();
  }
  has_other_options_ = false;
  window_.reset();
  record_.clear();
}

void DataStream::take_back_window() {
  TENON_ASSERT(loader_.has_value() && loader_->num_batches() == 0, "a window that was read from");
  loader_.reset();
  if (window_) {
    seen_.erase(window_->id());
  }
  window_.reset();
  record_.clear();
  --num_windows_;
  --num_opened_;
}

void DataStream::use_options(const LoaderOptions& options) {
  TENON_ASSERT(loader_.has_value() && loader_->num_batches() == 0, "a window that was read from");
  loader_.reset();
  has_other_options_ = true;
  loader_.emplace(source_, window_, *epoch_, options);
}

void DataStream::resume_options() {
  TENON_ASSERT(loader_.has_value() && has_other_options_, "use_options() comes first");
  loader_.reset();
  has_other_options_ = false;
  open({});
}

void DataStream::rewind_window() {
  TENON_ASSERT(loader_.has_value() && !has_other_options_, "no window is open");
  loader_.reset();
  open({});
}

Loader& DataStream::loader() {
  TENON_ASSERT(loader_.has_value(), "no window is open");
  return *loader_;
}

std::vector<int64_t> DataStream::part_samples() const {
  std::vector<int64_t> samples = parts_before_;
  if (loader_ && !samples.empty()) {
    const std::vector<int64_t> now = loader_->part_samples();
    for (size_t i = 0; i < samples.size(); ++i) {
      samples[i] += now[i];
    }
  }
  return samples;
}

PackCounts DataStream::pack_counts_of_epoch() const {
  PackCounts counts = packs_before_;
  if (loader_ && !has_other_options_) {
    counts += loader_->pack_counts();
  }
  return counts;
}

PackCounts DataStream::pack_counts() const {
  PackCounts counts = packs_before_epoch_;
  return counts += pack_counts_of_epoch();
}

const std::string& DataStream::window_label() const {
  static const std::string kNone;
  return window_ ? window_->label() : kNone;
}

// Returns the next window of the source that is to be read, and counts skipped windows. Returns
// nothing at the end of the epoch, or if it sets ask_again_.
std::optional<Window> DataStream::walk_to_next() {
  while (std::optional<Window> window = source_.next_window()) {
    if (window->is_pending()) {
      ask_again_ = window->ask_again();
      return std::nullopt;
    }
    if (expected_.erase(window->id()) > 0) {
      continue;  // the run was resumed after this window
    }
    if (!seen_.insert(window->id()).second) {
      ++num_repeated_;
      log_warning(
          formatted("{}: the window {} (id {}) appears a second time in this epoch and is skipped",
                    source_.name(),
                    window->label(),
                    window->id()));
      continue;
    }
    ++num_windows_;
    if (!excluded_.matches(*window) && !window->is_skipped()) {
      return window;
    }
    ++num_skipped_;
  }
  return std::nullopt;
}

void DataStream::check_windows() {
  for (const SourceReport::BadWindow& bad : source_.report().bad_windows) {
    tenon_window abi{};
    abi.struct_size = sizeof(abi);
    abi.id = bad.id;
    abi.label_ref = bad.label.c_str();
    const bool is_read = seen_.contains(bad.id) && !(window_ && window_->id() == bad.id);
    if (!is_read && !excluded_.matches(Window(abi))) {
      throw Error("data.bad_window",
                  formatted("{}: window {} cannot be read: {}; repair it, or skip it with "
                            "data.skip_windows",
                            source_.name(),
                            bad.label,
                            bad.why));
    }
  }
}

void DataStream::open(const LoaderPosition& start) {
  LoaderOptions options = options_;
  if (options.max_batches) {
    *options.max_batches -= num_batches_before_;
  }
  loader_.emplace(source_, window_, *epoch_, options, start);
}

bool DataStream::has_reached_limit() const {
  return options_.max_batches && num_batches_before_ >= *options_.max_batches;
}

void DataStream::snapshot(StateTree& tree, const std::string& prefix) const {
  const auto at = [&](std::string_view name) { return state_path(prefix, name); };
  const DataSourceInfo& info = source_.info();
  tree.set_version(prefix, kStateVersion);
  tree.put_int(at("style"),
               info.style == DatasetStyle::kMap ? TENON_DATASET_MAP : TENON_DATASET_STREAM);
  for (size_t i = 0; i < parts_before_.size(); ++i) {
    // The counts of a stream cover only the shards of this rank.
    tree.put_int(at(formatted("parts/{}", i)),
                 parts_before_[i],
                 info.style == DatasetStyle::kMap ? TENON_STATE_REPLICATED : TENON_STATE_PER_RANK);
  }
  if (const std::string order = source_.order_text(); !order.empty()) {
    tree.put_bytes(at("order"), order);
  }
  if (source_.packed() != nullptr) {
    put_packs(tree, state_path(prefix, "packs"));
  }
  tree.put_int(at("has_epoch"), epoch_ ? 1 : 0);
  if (!epoch_) {
    return;
  }
  TENON_ASSERT(!has_other_options_, "a position while the window is read with other options");
  tree.put_int(at("epoch"), static_cast<int64_t>(*epoch_));
  tree.put_int(at("windows"), num_windows_);
  tree.put_int(at("opened"), num_opened_);
  tree.put_int(at("skipped"), num_skipped_);
  tree.put_int(at("repeated"), num_repeated_);
  tree.put_tensor(at("seen"), tensor_of(seen_), StateTree::Copy::kNo);
  tree.put_int(at("batches"),
               num_batches_before_ + (loader_ ? loader_->num_batches() : 0),
               TENON_STATE_PER_RANK);
  tree.put_int(at("has_window"), loader_ ? 1 : 0);
  if (!loader_) {
    return;
  }
  if (window_) {
    tree.put_int(at("window_id"), static_cast<int64_t>(window_->id()));
    tree.put_bytes(at("window_label"), window_->label());
    if (!record_.empty()) {
      tree.put_bytes(at("window_files"), record_);
    }
  }
  if (info.style == DatasetStyle::kMap) {
    tree.put_int(at("cursor"), loader_->position().cursor);
    tree.put_int(at("samples"), *loader_->num_samples());
    if (source_.packed() != nullptr) {
      const PackPosition& packs = loader_->position().packs;
      tree.put_int(at("packs/group"), packs.group);
      tree.put_int(at("packs/row"), packs.row);
      tree.put_int(at("packs/lengths"), static_cast<int64_t>(loader_->lengths_fingerprint()));
    }
    return;
  }
  tree.put_int(at("num_shards"), info.num_shards);
  for (const ShardPosition& shard : loader_->position().shards) {
    put_shard(tree, prefix, shard);
  }
}

void DataStream::put_packs(StateTree& tree, const std::string& prefix) const {
  tree.put_bytes(state_path(prefix, "options"), describe(source_.packed()->options()));
  const auto put = [&](const char* name, const PackCounts& counts) {
    for_each_count(counts, [&](const char* what, int64_t count) {
      tree.put_int(state_path(prefix, formatted("{}/{}", name, what)), count);
    });
  };
  put("before", packs_before_epoch_);
  put("epoch", pack_counts_of_epoch());
}

void DataStream::get_packs(const StateTree& tree, const std::string& prefix) {
  const auto get = [&](const char* name, PackCounts& counts) {
    for_each_count(counts, [&](const char* what, int64_t& count) {
      count = saved_signed_count(tree, state_path(prefix, formatted("{}/{}", name, what)));
    });
  };
  get("before", packs_before_epoch_);
  get("epoch", packs_before_);
}

// Repeats the windows of the epoch up to the window that was open.
void DataStream::walk_back_to(uint64_t id, const std::string& label) {
  while (std::optional<Window> window = source_.next_window()) {
    if (window->is_pending()) {
      break;
    }
    expected_.erase(window->id());
    if (window->id() == id) {
      window_ = std::move(window);
      return;
    }
    skip_late(*window, label);
  }
  throw Error("data.changed",
              formatted("{}: window number {} of epoch {}, {} (id {}), in which the checkpoint was "
                        "taken, no longer exists; resume with the data as it was",
                        source_.name(),
                        window_number(),
                        *epoch_,
                        label,
                        id));
}

// A dataset that skips the window says so itself.
void DataStream::skip_late(const Window& window, const std::string& last) {
  if (seen_.insert(window.id()).second && !window.is_skipped()) {
    log_warning(formatted(
        "{}: the window {} (id {}) did not exist when the run read window {}, which follows it; "
        "it is skipped",
        source_.name(),
        window.label(),
        window.id(),
        last));
  }
}

// Skips unread windows that precede one that was read. The epoch then starts over.
void DataStream::skip_late_windows() {
  std::vector<Window> windows;
  size_t end = 0;  // after the last window that was read
  std::set<uint64_t> left = seen_;
  while (!left.empty()) {
    std::optional<Window> window = source_.next_window();
    if (!window || window->is_pending()) {
      break;
    }
    windows.push_back(std::move(*window));
    end = left.erase(windows.back().id()) > 0 ? windows.size() : end;
  }
  for (size_t i = 0; i < end; ++i) {
    skip_late(windows[i], windows[end - 1].label());
  }
  expected_ = seen_;
  source_.reset(*epoch_);
}

void DataStream::fail_load(const char* id, const std::string& what) const {
  throw Error(id, source_.name() + ": " + what);
}

void DataStream::check_saved(const StateTree& tree, const std::string& prefix) const {
  const auto at = [&](std::string_view name) { return state_path(prefix, name); };
  const DataSourceInfo& info = source_.info();
  if (const uint32_t version = tree.version(prefix); version != kStateVersion) {
    fail_load("data.bad_state",
              formatted("its saved position has version {}, this host knows {}; resume with the "
                        "release that saved it",
                        version,
                        kStateVersion));
  }
  const int64_t style = tree.get_int(at("style"));
  if ((style == TENON_DATASET_MAP) != (info.style == DatasetStyle::kMap)) {
    fail_load("data.bad_state",
              "its saved position is of another style of dataset, this one is " +
                  style_name(info.style) + "; resume with the dataset that was trained on");
  }
  const std::string order = source_.order_text();
  const std::string had = tree.find(at("order")) != nullptr ? tree.get_bytes(at("order")) : "";
  if (order != had) {
    fail_load("data.changed",
              "it is " + (order.empty() ? "no mix" : order) + ", and was " +
                  (had.empty() ? "no mix" : had) +
                  " at the checkpoint; resume with the mix as it was");
  }
  const std::string packing =
      source_.packed() != nullptr ? describe(source_.packed()->options()) : "";
  const std::string entry = at("packs/options");
  const std::string was = tree.find(entry) != nullptr ? tree.get_bytes(entry) : "";
  if (packing != was) {
    const auto text = [](const std::string& options) {
      return options.empty() ? "not packed" : "packed by " + options;
    };
    fail_load("data.changed",
              "it is " + text(packing) + ", and was " + text(was) +
                  " at the checkpoint; resume with \"packing\" as it was");
  }
}

void DataStream::load(const StateTree& tree, const std::string& prefix) {
  const auto at = [&](std::string_view name) { return state_path(prefix, name); };
  const DataSourceInfo& info = source_.info();
  check_saved(tree, prefix);
  close_window();
  for (size_t i = 0; i < parts_before_.size(); ++i) {
    const std::string entry = at(formatted("parts/{}", i));
    const bool is_dropped =
        info.style == DatasetStyle::kStream && tree.find(entry) == nullptr;  // rank count changed
    parts_before_[i] = is_dropped ? 0 : saved_signed_count(tree, entry);
  }
  epoch_.reset();
  num_windows_ = 0;
  packs_before_epoch_ = {};
  packs_before_ = {};
  if (tree.get_int(at("has_epoch")) == 0) {
    return;
  }

  begin_epoch(saved_count(tree, at("epoch")));
  num_windows_ = saved_signed_count(tree, at("windows"));
  num_opened_ = saved_signed_count(tree, at("opened"));
  num_skipped_ = saved_signed_count(tree, at("skipped"));
  num_repeated_ = saved_signed_count(tree, at("repeated"));
  if (tree.find(at("batches")) != nullptr) {  // absent if the rank count changed
    num_batches_before_ = saved_signed_count(tree, at("batches"));
  }
  seen_ = ids_of(tree.get_tensor(at("seen")));
  expected_ = seen_;
  if (source_.packed() != nullptr) {
    get_packs(tree, at("packs"));
  }
  if (tree.get_int(at("has_window")) == 0) {
    if (info.has_windows) {
      skip_late_windows();
    }
    return;
  }
  if (info.has_windows) {
    walk_back_to(static_cast<uint64_t>(tree.get_int(at("window_id"))),
                 tree.get_bytes(at("window_label")));
    record_window();
    // Checkpoints of earlier releases have no record.
    if (const std::string entry = at("window_files");
        tree.find(entry) != nullptr && !record_.empty() && recorder_.compare) {
      recorder_.compare(tree.get_bytes(entry), record_);
    }
  }
  open(saved_position(tree, prefix));
}

LoaderPosition DataStream::saved_position(const StateTree& tree, const std::string& prefix) {
  const auto at = [&](std::string_view name) { return state_path(prefix, name); };
  const DataSourceInfo& info = source_.info();
  LoaderPosition start;
  if (info.style == DatasetStyle::kMap) {
    start.cursor = tree.get_int(at("cursor"));
    const int64_t samples = tree.get_int(at("samples"));
    // With another number of samples the order differs, and the cursor is meaningless.
    const int64_t found = source_.size(window_ ? &*window_ : nullptr);
    if (found != samples) {
      fail_load("data.changed",
                formatted("it has {} samples, and had {} at the checkpoint; resume with the data "
                          "as it was",
                          found,
                          samples));
    }
    const int64_t most = source_.packed() != nullptr ? kMostSamples : samples;
    if (start.cursor < 0 || start.cursor > most) {
      fail_load(
          "data.bad_state",
          formatted("its saved position is {}, expected one from 0 to {}", start.cursor, most));
    }
    if (source_.packed() != nullptr) {
      start.packs = saved_row(tree, prefix);
    }
  } else {
    const int64_t num_shards = tree.get_int(at("num_shards"));
    if (num_shards != info.num_shards) {
      fail_load("data.changed",
                formatted("it has {} shards, and had {} at the checkpoint; resume with the data "
                          "as it was",
                          info.num_shards,
                          num_shards));
    }
    start.shards = get_shards(tree, prefix, info.num_shards);
  }
  return start;
}

// With other lengths, the rows differ, and the position is meaningless.
PackPosition DataStream::saved_row(const StateTree& tree, const std::string& prefix) {
  const auto at = [&](std::string_view name) { return state_path(prefix, name); };
  const LengthSummary lengths = source_.length_summary(window_ ? &*window_ : nullptr);
  if (static_cast<int64_t>(lengths.fingerprint) != tree.get_int(at("packs/lengths"))) {
    fail_load("data.changed",
              "the lengths of its samples differ from those at the checkpoint; resume with the "
              "data as it was");
  }
  return {.group = saved_signed_count(tree, at("packs/group")),
          .row = saved_signed_count(tree, at("packs/row"))};
}

}  // namespace tenon
