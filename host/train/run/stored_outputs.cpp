// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/stored_outputs.hpp"

#include <tenon/dataset.h>
#include <tenon/model.h>

#include "host/data/batch_builder.hpp"
#include "host/data/stored_source.hpp"
#include "host/distributed/collectives/together.hpp"
#include "host/io/checksum.hpp"
#include "host/log/log.hpp"
#include "host/model/joined_graph.hpp"
#include "host/model/model_fields.hpp"
#include "host/model/program_runner.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/process/signal_watch.hpp"
#include "host/tensor/philox.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/train/pretrained/pretrained.hpp"
#include "host/train/rank_decisions.hpp"
#include "host/train/run/output_files.hpp"
#include "host/train/run/run_context.hpp"
#include "host/train/run_plan/run_plan.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace tenon {
namespace {

constexpr char kOutputFormat[] = "outputs 1";  // changes with the meaning of stored values
constexpr int64_t kHashedSamples = 256;        // read at a time

uint32_t value_named(const ModelGraph& graph, const std::string& name) {
  return static_cast<uint32_t>(std::ranges::find(graph.values, name, &ModelValue::name) -
                               graph.values.begin());
}

// The model's graph without parameters to train, and without blocks that no stored output needs.
ModelGraph graph_of_outputs(ModelGraph graph) {
  for (ModelParameter& parameter : graph.parameters) {
    parameter.flags |= TENON_PARAM_FROZEN;
  }
  std::vector<uint32_t> read;
  for (const std::string& output : storable_outputs(graph)) {
    read.push_back(value_named(graph, output));
  }
  skip_unread_blocks(graph, read);
  return graph;
}

// Samples [first, last) of a source, on the CPU.
Batch read_samples(DataSource& source, int64_t first, int64_t last) {
  std::vector<int64_t> indices(static_cast<size_t>(last - first));
  std::iota(indices.begin(), indices.end(), first);
  BatchBuilder builder(source, last - first);
  source.read(nullptr, indices, builder.writer());
  return builder.finish();
}

// A model with the values that it loads, on this rank alone.
class LoadedModel {
 public:
  LoadedModel(const RunContext& context, RunModels::Member& member)
      : context_(context),
        plugin_(member.proxy.instance().plugin().id + " " +
                member.proxy.instance().plugin().version),
        graph_(graph_of_outputs(member.graph)),
        store_(graph_, context.platform.whole_layout()),
        optimizer_({}, store_.groups(), context.platform.exec()),
        runner_(member.proxy, store_, context.platform.exec()),
        values_(runner_.new_state()) {
    const ExecFrame frame(member.proxy.instance().host(), context.platform.exec().on(at::kCPU));
    store_.initialise(
        member.proxy, frame.exec(), mix_seeds(context.recipe.seed, stream_of("init")));
    Pretrained load(member.use.load,
                    context.factory,
                    {.model = member.proxy.instance(), .graph = member.graph, .tables = {}},
                    context.ranks.all());
    for (const Load& one : load.load_all({.parameters = store_, .optimizer = optimizer_})) {
      log_info("model '" + member.use.name + "': loaded " + one.text + "; from " + one.address);
    }
    store_.publish();
  }

  std::string fingerprint() { return store_.hash(); }
  // The plugin and its version: another release may compute other values.
  const std::string& plugin() const { return plugin_; }

  // Checks that a dataset has the fields that the model reads.
  // Errors  model.field_missing, model.field_mismatch
  void check_fields(const DataSource& source) const {
    check_model_fields(graph_, readable_fields(*source.info().schema), source.name());
  }

  // The fields that the model reads.
  std::set<std::string> fields() const {
    std::set<std::string> fields;
    for (const ModelValue& value : graph_.values) {
      if (value.source_kind == TENON_SOURCE_BATCH && !value.users.empty() && !value.is_unused) {
        fields.insert(value.source);
      }
    }
    return fields;
  }

  // Runs the model forward. Returns an output of each sample, without padding, on the CPU.
  // Shapes  by sample [positions]
  std::vector<at::Tensor> rows(Batch batch, const std::string& output) {
    const int64_t* const lengths =
        batch.lengths.defined() ? batch.lengths.const_data_ptr<int64_t>() : nullptr;
    const std::vector<int64_t> kept(lengths,
                                    lengths == nullptr ? nullptr : lengths + batch.samples);
    move_to_device(batch);
    runner_.forward(values_, batch, {.step = 0, .microbatch = 0, .is_train = false});
    const at::Tensor all_BT = values_.value(value_named(graph_, output)).to(at::kCPU);
    runner_.clear(values_);
    std::vector<at::Tensor> rows;
    for (int64_t b = 0; b < batch.samples; ++b) {
      const at::Tensor row_T = all_BT.select(0, b);
      rows.push_back(
          row_T.narrow(0, 0, kept.empty() ? row_T.size(0) : kept[static_cast<size_t>(b)]));
    }
    return rows;
  }

 private:
  void move_to_device(Batch& batch) const {
    const at::Device device = context_.platform.device();
    for (size_t i = 0; i < batch.fields.size(); ++i) {
      if (((*batch.schema)[i].flags & TENON_FIELD_HOST_ONLY) == 0) {
        batch.fields[i] = batch.fields[i].to(device);
      }
    }
    if (batch.lengths.defined()) {
      batch.lengths = batch.lengths.to(device);
    }
  }

  const RunContext& context_;
  const std::string plugin_;
  ModelGraph graph_;
  ParameterStore store_;
  OptimizerDriver optimizer_;  // of no parameter
  ProgramRunner runner_;
  MicrobatchState values_;
};

// A hash of everything that a model reads of a dataset.
std::string hash_of_samples(DataSource& source, const std::set<std::string>& fields) {
  Checksum sum;
  const auto add = [&sum](const at::Tensor& tensor) {
    const at::Tensor exact = tensor.contiguous();
    const std::vector<int64_t> shape = exact.sizes().vec();
    sum.add(std::as_bytes(std::span(shape)));
    sum.add({static_cast<const std::byte*>(exact.const_data_ptr()), exact.nbytes()});
  };
  const int64_t size = source.size(nullptr);
  for (int64_t first = 0; first < size; first += kHashedSamples) {
    const Batch batch = read_samples(source, first, std::min(first + kHashedSamples, size));
    for (const std::string& field : fields) {
      if (const at::Tensor* const tensor = batch.find(field)) {
        add(*tensor);
      }
    }
    if (batch.lengths.defined()) {
      add(batch.lengths);
    }
  }
  return xxh3_text(sum.value());
}

// Computes the values of one output for one dataset.
class StoredSet {
 public:
  StoredSet(const RunContext& context, LoadedModel& model, const ModelUse& use, std::string output)
      : context_(context), model_(model), use_(use), output_(std::move(output)) {}

  // Returns the values; null if a signal ended the computation.
  std::shared_ptr<const SampleValues> compute(DataSource& source, const SignalWatch& signals) {
    Group& control = context_.ranks.all();
    std::optional<OutputLock> lock;
    std::string key;
    std::string missing;
    together_for_long(control, "search for stored outputs", [&] {
      model_.check_fields(source);
      if (context_.platform.is_first()) {
        key = key_of(source);
        const OutputFiles files = files_of(key, source);
        if (!files.is_complete()) {
          lock.emplace(output_cache_folder(), key);
          wait_for(*lock, signals);
          missing = files.is_complete() ? "" : missing_in(files, source);
        }
      }
    });
    if (any_rank(control, signals.received() != 0)) {
      return nullptr;
    }
    key = control.broadcast_text(key, 0, "key of stored outputs");
    missing = control.broadcast_text(missing, 0, "missing outputs");
    const OutputFiles files = files_of(key, source);
    if (!missing.empty()) {
      if (!fill(files, missing, source, signals)) {
        return nullptr;
      }
      together(control, "end of storing outputs", [&] {
        if (context_.platform.is_first()) {
          files.finish();
        }
      });
    }
    lock.reset();
    std::shared_ptr<const SampleValues> values;
    together_for_long(control, "opening stored outputs", [&] { values = files.open(); });
    if (context_.platform.is_first()) {
      log_info(formatted("model '{}': {} of {} of {} in {}",
                         use_.name,
                         output_,
                         counted(source.size(nullptr), "sample"),
                         source.name(),
                         files.folder()));
    }
    return values;
  }

 private:
  OutputFiles files_of(const std::string& key, DataSource& source) const {
    return {
        output_cache_folder(), key, context_.platform.precision().exact(), source.size(nullptr)};
  }

  // Until the lock is held, or a signal arrives.
  static void wait_for(OutputLock& lock, const SignalWatch& signals) {
    constexpr std::chrono::milliseconds kPause{100};
    while (!lock.try_lock() && signals.received() == 0) {
      std::this_thread::sleep_for(kPause);
    }
  }

  // Everything that decides the values.
  std::string key_of(DataSource& source) {
    std::string text = std::string(kOutputFormat) + "\n" + model_.plugin() + "\n" + use_.use.type +
                       "\n" + use_.use.options;
    for (const auto& [input, target] : use_.inputs) {
      text += "\n" + input + ": " + target;
    }
    return xxh128_text(formatted("{}\n{}\n{}\n{}\n{}\n{}\n{}",
                                 text,
                                 output_,
                                 context_.recipe.train.precision,
                                 context_.platform.device_type(),
                                 model_.fingerprint(),
                                 source.size(nullptr),
                                 hash_of_samples(source, model_.fields())));
  }

  // The missing files as a line of numbers.
  std::string missing_in(const OutputFiles& files, const DataSource& source) const {
    std::string text;
    const std::vector<size_t> missing = files.begin();
    for (const size_t file : missing) {
      text += formatted("{} ", file);
    }
    const size_t num_kept = files.num_files() - missing.size();
    log_info(formatted(
        "model '{}': computing {} for {}{}",
        use_.name,
        output_,
        source.name(),
        num_kept > 0 ? formatted("; {} of {} files exist", num_kept, files.num_files()) : ""));
    return text.empty() ? " " : text;  // all exist: only the rename is missing
  }

  // Each rank makes every n-th of the missing files. All ranks stop together.
  bool fill(const OutputFiles& files,
            const std::string& missing,
            DataSource& source,
            const SignalWatch& signals) {
    Group& control = context_.ranks.all();
    std::vector<size_t> all;
    const char* const end = missing.data() + missing.size();
    for (const char* at = missing.data(); at < end;) {
      size_t file = 0;
      const auto [stop, error] = std::from_chars(at, end, file);
      if (error == std::errc()) {
        all.push_back(file);
      }
      at = std::max(stop, at) + 1;
    }
    for (size_t first = 0; first < all.size(); first += control.size()) {
      if (any_rank(control, signals.received() != 0)) {
        return false;
      }
      together_for_long(control, "computing outputs to store", [&] {
        if (const size_t mine = first + control.rank(); mine < all.size()) {
          const auto samples = files.samples_of(all[mine]);
          const std::vector<at::Tensor> rows = rows_of(samples, source, signals);
          if (static_cast<int64_t>(rows.size()) == samples.second - samples.first) {
            files.write(all[mine], rows);
          }
        }
      });
    }
    return !any_rank(control, signals.received() != 0);
  }

  // Fewer rows if a signal arrives.
  std::vector<at::Tensor> rows_of(std::pair<int64_t, int64_t> samples,
                                  DataSource& source,
                                  const SignalWatch& signals) {
    std::vector<at::Tensor> rows;
    const int64_t batch_size = context_.recipe.data.batch_size;
    for (int64_t first = samples.first; first < samples.second && signals.received() == 0;
         first += batch_size) {
      const int64_t last = std::min(first + batch_size, samples.second);
      for (at::Tensor& row : model_.rows(read_samples(source, first, last), output_)) {
        rows.push_back(std::move(row));
      }
    }
    return rows;
  }

  const RunContext& context_;
  LoadedModel& model_;
  const ModelUse& use_;
  const std::string output_;
};

}  // namespace

std::optional<StoredFingerprints> store_outputs(const RunContext& context,
                                                const RunPlan& plan,
                                                const SignalWatch& signals) {
  StoredFingerprints fingerprints;
  for (RunModels::Member& member : plan.model.models->stored()) {
    LoadedModel model(context, member);
    fingerprints[member.use.name] = model.fingerprint();
    const std::vector<std::string> outputs = storable_outputs(member.graph);
    for (RunDataset* const set : plan.data.all()) {
      StoredSource* const source = set->stored();
      for (size_t i = 0; source != nullptr && i < outputs.size(); ++i) {
        StoredSet stored(context, model, member.use, outputs[i]);
        auto values = stored.compute(source->inner(), signals);
        if (values == nullptr) {
          return std::nullopt;
        }
        source->set_values(member.use.name + "/" + outputs[i], std::move(values));
      }
    }
  }
  return fingerprints;
}

}  // namespace tenon
