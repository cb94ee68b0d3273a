// SPDX-License-Identifier: Apache-2.0
#include "host/data/dataset_proxy.hpp"
#include "host/plugin/vet_components.hpp"
#include "host/tensor/column.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/at_once.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/sample_columns.hpp"
#include "host/tools/check/source_reader.hpp"
#include "host/tools/check/subject.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr int64_t kBatch = 8;
constexpr int kNumBatches = 6;  // to read of a map, or of each shard of a stream

// A dataset, and a reader at the start of its first epoch.
class DatasetTrial {
 public:
  DatasetTrial(Subject& subject, const CheckedComponent& checked, ComponentInstance instance)
      : checked_(checked),
        source_(std::move(instance), &lone_mesh()),
        reader_(subject, checked.name(), source_) {}

  const CheckedComponent& checked() const { return checked_; }
  std::string name() const { return checked_.name(); }
  SourceReader& reader() { return reader_; }
  bool is_map() const { return reader_.is_map(); }
  bool has_lengths() const { return source_.info().has_lengths; }
  const std::vector<FieldInfo>& schema() const { return *source_.info().schema; }

  // Reads the first batches: of a map in order of index, of a stream shard by shard.
  std::vector<ReadBatch> read_all() {
    std::vector<ReadBatch> batches;
    if (is_map()) {
      const int64_t samples = reader_.size();
      for (int64_t at = 0; at < samples && std::ssize(batches) < kNumBatches; at += kBatch) {
        batches.push_back(reader_.read(range(at, std::min(at + kBatch, samples))));
      }
      if (samples > 0) {
        batches.push_back(reader_.read({samples - 1, 0}));
      }
      return batches;
    }
    for (uint32_t shard = 0; shard < reader_.num_shards(); ++shard) {
      for (ReadBatch& batch : read_shard(shard)) {
        batches.push_back(std::move(batch));
      }
    }
    return batches;
  }

  // Reads the first batches of a shard of a stream.
  std::vector<ReadBatch> read_shard(uint32_t shard) {
    std::vector<ReadBatch> batches;
    reader_.seek(shard, std::nullopt);
    while (std::ssize(batches) < kNumBatches && (batches.empty() || !batches.back().is_end)) {
      batches.push_back(reader_.next(shard, kBatch));
    }
    return batches;
  }

  static std::vector<int64_t> range(int64_t begin, int64_t end) {
    std::vector<int64_t> indices(static_cast<std::size_t>(end - begin));
    std::iota(indices.begin(), indices.end(), begin);
    return indices;
  }

 private:
  const CheckedComponent& checked_;
  DatasetProxy source_;
  SourceReader reader_;
};

// Returns the first batch that differs, or the smaller number of batches; null if all are equal.
std::optional<std::size_t> first_difference(const std::vector<ReadBatch>& a,
                                            const std::vector<ReadBatch>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!is_same_batch(a[i].batch, b[i].batch) || a[i].is_end != b[i].is_end) {
      return i;
    }
  }
  return a.size() != b.size() ? std::optional(std::min(a.size(), b.size())) : std::nullopt;
}

using DatasetBody = std::function<void(DatasetTrial& trial, Findings& findings)>;

CheckResult for_each_dataset(Subject& subject, const DatasetBody& body) {
  return subject.for_each_instance(
      "dataset",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        DatasetTrial trial(subject, checked, std::move(instance));
        if (!trial.reader().can_read()) {
          findings.add_skipped(checked.name() + " has no window with samples yet");
          return;
        }
        findings.add_examined();
        body(trial, findings);
      });
}

// True if both reads give the same samples and end at the same place.
bool is_same_read(const ReadBatch& a, const ReadBatch& b) {
  return is_same_batch(a.batch, b.batch) && a.is_end == b.is_end;
}

// Continues a shard from each of its positions, in a new instance and in the one that read on.
void compare_positions(Subject& subject,
                       DatasetTrial& trial,
                       uint32_t shard,
                       const std::vector<ReadBatch>& reads,
                       Findings& findings) {
  DatasetTrial resumed(subject, trial.checked(), subject.create(trial.checked()));
  for (DatasetTrial* const from : {&resumed, &trial}) {
    // From the last position to the first, so that none follows the one before.
    for (std::size_t cut = reads.size() - 1; cut-- > 0;) {
      from->reader().seek(shard, reads[cut].position);
      const ReadBatch again = from->reader().next(shard, kBatch);
      if (!is_same_read(reads[cut + 1], again)) {
        findings.add_problem(formatted(
            "shard {} of {} continues with another batch after seek to the position of batch {}{}",
            shard,
            trial.name(),
            cut,
            from == &trial ? ", in the instance that has read it" : ""));
        return;
      }
    }
  }
}

// The numbers of a row without the padding at its end.
std::string without_padding(const at::Tensor& row, double pad) {
  const at::Tensor numbers = row.to(at::kDouble).contiguous();
  const auto* const values = numbers.const_data_ptr<double>();
  int64_t length = numbers.numel();
  while (length > 0 && values[length - 1] == pad) {
    --length;
  }
  return std::string(reinterpret_cast<const char*>(values),
                     static_cast<std::size_t>(length) * sizeof(double));
}

// The schema with entries of ragged columns as numbers: those that are vectors, [entries, n], are
// compared as a whole.
std::vector<FieldInfo> with_plain_entries(std::vector<FieldInfo> schema) {
  for (FieldInfo& field : schema) {
    const bool is_of_vectors = field.name.ends_with(".values") && field.axes.size() > 1 &&
                               field.axes.front().name != "B" &&
                               std::ranges::all_of(field.axes.begin() + 1,
                                                   field.axes.end(),
                                                   [](const Axis& axis) { return axis.size >= 0; });
    if (is_of_vectors) {
      field.axes.resize(1);
    }
  }
  return schema;
}

// The content of each sample of a batch: fields with an entry per sample, and ragged columns.
std::vector<std::string> samples_of(const Batch& batch, const std::vector<FieldInfo>& given) {
  const std::vector<FieldInfo> schema = with_plain_entries(given);
  std::vector<std::string> samples(static_cast<std::size_t>(batch.samples));
  for (const std::string& name : column_names(schema)) {
    const std::optional<ColumnFields> fields = find_column(schema, name);
    if (!fields) {
      continue;
    }
    const Column column = column_of(batch, *fields);
    const bool is_padded = fields->type.width < 0;  // to the longest sample of the batch
    for (std::size_t i = 0; i < samples.size(); ++i) {
      samples[i] += is_padded ? without_padding(column.values[static_cast<int64_t>(i)],
                                                schema[fields->values].pad)
                              : bytes_of_sample(column, i);
      samples[i] += ";";
    }
  }
  return samples;
}

// Reads a shard in batches of `size`, up to `most` samples. Notes wrong counts as problems.
std::vector<std::string> samples_of_shard(
    DatasetTrial& trial, uint32_t shard, int64_t size, std::size_t most, Findings& findings) {
  std::vector<std::string> samples;
  trial.reader().seek(shard, std::nullopt);
  while (samples.size() < most) {
    const ReadBatch read = trial.reader().next(shard, size);
    for (std::string& sample : samples_of(read.batch, trial.schema())) {
      samples.push_back(std::move(sample));
    }
    if (read.is_end) {
      break;
    }
    if (read.batch.samples == 0) {
      findings.add_problem(
          formatted("next of {} gave no sample of shard {} before its end", trial.name(), shard));
      break;
    }
  }
  samples.resize(std::min(samples.size(), most));
  return samples;
}

// Compares the lengths of the first samples with those that a read sets.
void compare_lengths(DatasetTrial& trial, Findings& findings) {
  const auto indices = DatasetTrial::range(0, std::min(kBatch, trial.reader().size()));
  if (indices.empty()) {
    return;
  }
  const std::vector<int32_t> lengths = trial.reader().lengths(indices);
  const Batch batch = trial.reader().read(indices).batch;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const int64_t read =
        batch.lengths.defined() ? batch.lengths.const_data_ptr<int64_t>()[i] : int64_t{-1};
    if (read != lengths[i]) {
      findings.add_problem(formatted("lengths of {} returned {} for sample {}, but its read {}",
                                     trial.name(),
                                     lengths[i],
                                     i,
                                     read < 0 ? "set no lengths" : formatted("gave it {}", read)));
      return;
    }
  }
}

}  // namespace

CheckResult check_dataset_reads(Subject& subject) {
  return for_each_dataset(subject, [](DatasetTrial& trial, Findings& findings) {
    int64_t samples = 0;
    for (const ReadBatch& read : trial.read_all()) {
      samples += read.batch.samples;
    }
    if (samples == 0) {
      findings.add_problem(trial.name() + " gave no samples");
    }
    if (trial.has_lengths()) {
      compare_lengths(trial, findings);
    }
  });
}

CheckResult check_dataset_order(Subject& subject) {
  return for_each_dataset(subject, [&](DatasetTrial& trial, Findings& findings) {
    const std::vector<ReadBatch> first = trial.read_all();
    if (const auto at = first_difference(first, trial.read_all())) {
      findings.add_problem(
          formatted("batch {} of {} differs if it is read again", *at, trial.name()));
    }
    DatasetTrial other(subject, trial.checked(), subject.create(trial.checked()));
    if (const auto at = first_difference(first, other.read_all())) {
      findings.add_problem(
          formatted("batch {} of {} differs in another instance", *at, trial.name()));
    }
  });
}

CheckResult check_dataset_resume(Subject& subject) {
  return for_each_dataset(subject, [&](DatasetTrial& trial, Findings& findings) {
    if (trial.is_map()) {
      findings.add_remark(trial.name() + " is map-style: the host keeps its position");
      return;
    }
    for (uint32_t shard = 0; shard < trial.reader().num_shards(); ++shard) {
      const std::vector<ReadBatch> reads = trial.read_shard(shard);
      for (const ReadBatch& read : reads) {
        if (!read.is_end && !read.position) {
          findings.add_problem("next of " + trial.name() + " set no position");
          return;
        }
      }
      compare_positions(subject, trial, shard, reads, findings);
    }
  });
}

CheckResult check_dataset_positions(Subject& subject) {
  return for_each_dataset(subject, [&](DatasetTrial& trial, Findings& findings) {
    if (trial.is_map()) {
      findings.add_remark(trial.name() + " is map-style: the host keeps its position");
      return;
    }
    const std::vector<ReadBatch> reads = trial.read_shard(0);
    const std::string position = reads.front().position.value_or("");
    const std::vector<std::pair<std::string, std::string>> corrupt = {
        {"that lost its last byte", position.substr(0, position.empty() ? 0 : position.size() - 1)},
        {"of 0 bytes", ""},
        {"of 3 random bytes", "\xf3\x01\x9e"},
        {"of 1000 random bytes", std::string(1000, '\xf3')}};
    for (const auto& [what, bytes] : corrupt) {
      if (bytes == position) {
        continue;
      }
      DatasetTrial other(subject, trial.checked(), subject.create(trial.checked()));
      try {
        other.reader().seek(0, bytes);
        findings.add_problem("seek of " + trial.name() + " accepts a position " + what);
      } catch (const PluginError&) {  // the right answer
      }
    }
  });
}

CheckResult check_dataset_batches(Subject& subject) {
  return for_each_dataset(subject, [&](DatasetTrial& trial, Findings& findings) {
    constexpr std::size_t kMost = 40;
    if (trial.is_map()) {
      const int64_t size = trial.reader().size();
      const int64_t count = std::min<int64_t>(size, kMost);
      const std::vector<std::string> whole =
          samples_of(trial.reader().read(DatasetTrial::range(0, count)).batch, trial.schema());
      for (int64_t i = 0; i < count; i += 3) {
        // In another order, with a sample twice, and with the last one.
        const Batch batch = trial.reader().read({size - 1, i, i}).batch;
        const std::vector<std::string> samples = samples_of(batch, trial.schema());
        if (samples[1] != whole[static_cast<std::size_t>(i)] || samples[2] != samples[1]) {
          findings.add_problem(
              formatted("sample {} of {} differs in another batch", i, trial.name()));
          return;
        }
      }
      return;
    }
    for (uint32_t shard = 0; shard < trial.reader().num_shards(); ++shard) {
      const std::vector<std::string> whole =
          samples_of_shard(trial, shard, kBatch, kMost, findings);
      for (const int64_t size : {int64_t{1}, int64_t{3}}) {
        if (samples_of_shard(trial, shard, size, kMost, findings) != whole) {
          findings.add_problem(
              formatted("shard {} of {} has other samples if it is read in batches of {} in place "
                        "of {}",
                        shard,
                        trial.name(),
                        size,
                        kBatch));
        }
      }
    }
  });
}

CheckResult check_dataset_shards(Subject& subject) {
  return for_each_dataset(subject, [&](DatasetTrial& trial, Findings& findings) {
    constexpr std::size_t kMost = 200;
    constexpr std::size_t kLeast = 4;  // different samples that are no coincidence
    if (trial.is_map() || trial.reader().num_shards() < 2) {
      findings.add_remark(trial.name() + (trial.is_map() ? " is map-style: the host deals samples"
                                                         : " has one shard"));
      return;
    }
    std::vector<std::vector<std::string>> shards;
    for (uint32_t shard = 0; shard < trial.reader().num_shards(); ++shard) {
      shards.push_back(samples_of_shard(trial, shard, kBatch, kMost, findings));
      for (uint32_t other = 0; other < shard; ++other) {
        const std::set<std::string> a(shards[shard].begin(), shards[shard].end());
        const std::set<std::string> b(shards[other].begin(), shards[other].end());
        if (a.size() >= kLeast && std::ranges::includes(b, a)) {
          findings.add_problem(formatted(
              "all samples of shard {} of {} are in shard {} too", shard, trial.name(), other));
          return;
        }
      }
    }
    // In turns, as one rank reads several shards.
    DatasetTrial turns(subject, trial.checked(), subject.create(trial.checked()));
    for (uint32_t shard = 0; shard < trial.reader().num_shards(); ++shard) {
      turns.reader().seek(shard, std::nullopt);
    }
    std::vector<std::size_t> num_read(shards.size(), 0);
    std::vector<bool> is_over(shards.size(), false);
    for (int round = 0; round < kNumBatches; ++round) {
      for (uint32_t shard = 0; shard < shards.size(); ++shard) {
        if (is_over[shard]) {
          continue;
        }
        const ReadBatch read = turns.reader().next(shard, kBatch);
        is_over[shard] = read.is_end;
        for (const std::string& sample : samples_of(read.batch, trial.schema())) {
          const std::size_t at = num_read[shard]++;
          if (at < kMost && (at >= shards[shard].size() || shards[shard][at] != sample)) {
            findings.add_problem(
                formatted("shard {} of {} has other samples if shards are read in turns",
                          shard,
                          trial.name()));
            return;
          }
        }
      }
    }
  });
}

CheckResult check_dataset_at_once(Subject& subject) {
  return for_each_dataset(subject, [&](DatasetTrial& trial, Findings& findings) {
    constexpr std::size_t kNumThreads = 4;
    SourceReader& reader = trial.reader();
    std::vector<std::vector<ReadBatch>> expected;
    std::vector<std::vector<ReadBatch>> found(kNumThreads);
    if (trial.is_map()) {
      const int64_t size = reader.size();
      std::vector<std::vector<std::vector<int64_t>>> batches(kNumThreads);
      for (std::size_t i = 0; i < kNumThreads; ++i) {
        expected.emplace_back();
        for (int k = 0; k < kNumBatches; ++k) {
          const int64_t begin = (static_cast<int64_t>(i) * 5 + k * 3) % std::max<int64_t>(1, size);
          batches[i].push_back(DatasetTrial::range(begin, std::min(size, begin + kBatch)));
          expected[i].push_back(reader.read(batches[i].back()));
        }
      }
      reader.begin_calls("read by several threads at once");
      run_at_once(kNumThreads, [&](std::size_t i) {
        for (const std::vector<int64_t>& indices : batches[i]) {
          found[i].push_back(reader.read_at_once(indices));
        }
      });
    } else {
      const uint32_t num_shards = reader.num_shards();
      found.resize(num_shards);
      for (uint32_t shard = 0; shard < num_shards; ++shard) {
        expected.push_back(trial.read_shard(shard));
      }
      for (uint32_t shard = 0; shard < num_shards; ++shard) {
        reader.seek(shard, std::nullopt);
      }
      reader.begin_calls("next by several threads at once");
      run_at_once(num_shards, [&](std::size_t shard) {
        while (found[shard].size() < expected[shard].size()) {
          found[shard].push_back(reader.next_at_once(static_cast<uint32_t>(shard), kBatch));
        }
      });
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (first_difference(expected[i], found[i])) {
        findings.add_problem(trial.name() + " reads other batches if several threads read at once");
        return;
      }
    }
  });
}

}  // namespace tenon
