// SPDX-License-Identifier: Apache-2.0
//
// What the samples of the test datasets hold: formulas of a sample's number, so that a test knows
// every batch.
#ifndef TENON_TESTS_SAMPLE_VALUES_HPP
#define TENON_TESTS_SAMPLE_VALUES_HPP

#include <tenon/cpp/dataset.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

// Fields of both datasets: x [B, D] f32, y [B] f32, labels [B] i64, sample_id [B] i64.
class SampleFields {
 public:
  SampleFields(int64_t dim, int64_t num_classes) : dim_(dim), num_classes_(num_classes) {}

  void declare(tenon::DatasetInfo& info) {
    x_ = info.field("x", {"B", tenon::Axis("D", dim_)}, TENON_F32);
    y_ = info.field("y", {"B"}, TENON_F32);
    labels_ = info.field("labels", {"B"}, TENON_I64, -100);
    sample_id_ = info.field("sample_id", {"B"}, TENON_I64, -1, TENON_FIELD_HOST_ONLY);
  }

  // x of these samples is multiplied by `factor`.
  void spoil(int64_t first, int64_t last, double factor) {
    spoilt_first_ = first;
    spoilt_last_ = last;
    spoilt_by_ = factor;
  }

  // x[d] = sin(0.1 (id + 1) (d + 1)), y = mean of x, label = id mod classes.
  void write(const std::vector<int64_t>& ids,
             tenon::BatchWriter& writer,
             int64_t tokens_per_sample = 0) const {
    const auto batch = static_cast<int64_t>(ids.size());
    auto* x = writer.add<float>(x_, {batch, dim_});
    auto* y = writer.add<float>(y_, {batch});
    auto* labels = writer.add<int64_t>(labels_, {batch});
    auto* sample_id = writer.add<int64_t>(sample_id_, {batch});
    for (const int64_t id : ids) {
      double sum = 0.0;
      for (int64_t d = 0; d < dim_; ++d) {
        double value = std::sin(0.1 * static_cast<double>(id + 1) * static_cast<double>(d + 1));
        if (id >= spoilt_first_ && id <= spoilt_last_) {
          value *= spoilt_by_;
        }
        *x++ = static_cast<float>(value);
        sum += value;
      }
      *y++ = static_cast<float>(sum / static_cast<double>(dim_));
      *labels++ = id % num_classes_;
      *sample_id++ = id;
    }
    writer.set_counts(batch, batch * tokens_per_sample);
  }

 private:
  int64_t dim_;
  int64_t num_classes_;
  int64_t spoilt_first_ = 0;
  int64_t spoilt_last_ = -1;
  double spoilt_by_ = 1;
  uint32_t x_ = 0;
  uint32_t y_ = 0;
  uint32_t labels_ = 0;
  uint32_t sample_id_ = 0;
};

#endif
