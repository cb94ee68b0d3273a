// SPDX-License-Identifier: Apache-2.0
//
// Readings of simulated sensors: `x` holds the last readings of a sensor, `y` its next one. Each
// sensor is a noisy oscillation with its own frequency,
//
//     r(t) = 2 d cos(w) r(t - 1) - d^2 r(t - 2) + noise * normal
//
// Stream style: a reading depends on those before it, so samples cannot be read by number. Each
// sensor is a shard. A checkpoint stores the position of each shard: here the time and the last
// readings.
// Threads: calls for different shards run concurrently and change only the cursor of their shard.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr double kDamping = 0.95;

// Position of a shard. `readings` has the newest one at its end.
struct Cursor {
  int64_t time = 0;
  std::vector<float> readings;
};

class MyPlugin : public tenon::StreamDataset {
 public:
  static constexpr const char* kType = "my_plugin";
  static constexpr const char* kSummary = "streams of readings of simulated sensors";

  struct Options {
    int64_t sensors = 4;
    int64_t samples = 1000;
    int64_t history = 8;
    double noise = 0.1;
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("sensors", &Options::sensors).min(1).max(65536).doc("number of sensors");
    binder.field("samples", &Options::samples)
        .min(1)
        .max(1e12)
        .doc("samples per sensor in an epoch");
    binder.field("history", &Options::history).min(2).max(4096).doc("readings in `x`");
    binder.field("noise", &Options::noise).min(0).doc("standard deviation of the noise");
  }

  MyPlugin(const Options& options, const tenon::CreateContext& context)
      : options_(options),
        random_(context.host, context.seed, "my_plugin"),
        cursors_(static_cast<size_t>(options.sensors), start()) {}

  void describe(tenon::DatasetInfo& info) override {
    x_ = info.field("x", {"B", tenon::Axis(options_.history)}, TENON_F32);
    y_ = info.field("y", {"B"}, TENON_F32);
    info.shards(static_cast<uint32_t>(options_.sensors));
  }

  bool next(const tenon_window*,
            uint32_t shard,
            int64_t max_samples,
            tenon::BatchWriter& writer) override {
    Cursor cursor = cursors_.at(shard);
    const int64_t n = std::min(max_samples, options_.samples - cursor.time);
    auto* x = writer.add<float>(x_, {n, options_.history});
    auto* y = writer.add<float>(y_, {n});
    for (int64_t i = 0; i < n; ++i) {
      x = std::copy(cursor.readings.begin(), cursor.readings.end(), x);
      advance(shard, cursor);
      y[i] = cursor.readings.back();
    }
    writer.set_counts(n, 0);
    writer.set_position(to_bytes(cursor));
    const bool is_end = cursor.time == options_.samples;
    cursors_[shard] = std::move(cursor);
    return is_end;
  }

  void seek(const tenon_window*, uint32_t shard, const std::string* position) override {
    cursors_.at(shard) = position == nullptr ? start() : from_bytes(*position);
  }

  void reset(uint64_t) override { std::fill(cursors_.begin(), cursors_.end(), start()); }

 private:
  Cursor start() const {
    return {0, std::vector<float>(static_cast<size_t>(options_.history), 1.0F)};
  }

  void advance(uint32_t shard, Cursor& cursor) const {
    double normal = 0;
    const int64_t number = static_cast<int64_t>(shard) * options_.samples + cursor.time;
    random_.fill_normal(static_cast<uint64_t>(number), 1, &normal);
    const double frequency = 0.1 + 0.4 * (shard + 1) / static_cast<double>(options_.sensors);
    const size_t last = cursor.readings.size() - 1;
    const double next = 2 * kDamping * std::cos(frequency) * cursor.readings[last] -
                        kDamping * kDamping * cursor.readings[last - 1] + options_.noise * normal;
    cursor.readings.erase(cursor.readings.begin());
    cursor.readings.push_back(static_cast<float>(next));
    ++cursor.time;
  }

  std::string to_bytes(const Cursor& cursor) const {
    std::string out(reinterpret_cast<const char*>(&cursor.time), sizeof cursor.time);
    out.append(reinterpret_cast<const char*>(cursor.readings.data()), readings_size());
    return out;
  }
  Cursor from_bytes(const std::string& bytes) const {
    Cursor cursor = start();
    if (bytes.size() == sizeof cursor.time + readings_size()) {
      std::memcpy(&cursor.time, bytes.data(), sizeof cursor.time);
      std::memcpy(cursor.readings.data(), bytes.data() + sizeof cursor.time, readings_size());
    }
    if (bytes.size() != sizeof cursor.time + readings_size() || cursor.time < 0 ||
        cursor.time > options_.samples) {
      TENON_FAIL(TENON_INVALID,
                 "my_plugin.position",
                 "the saved position does not fit the options `samples` and `history`");
    }
    return cursor;
  }
  size_t readings_size() const { return static_cast<size_t>(options_.history) * sizeof(float); }

  Options options_;
  tenon::RandomStream random_;
  std::vector<Cursor> cursors_;
  uint32_t x_ = 0;
  uint32_t y_ = 0;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
