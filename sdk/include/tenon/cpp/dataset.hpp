// SPDX-License-Identifier: Apache-2.0
//
// Datasets: MapDataset for numbered samples, StreamDataset for streams. <tenon/dataset.h> defines
// the contract.
#ifndef TENON_CPP_DATASET_HPP
#define TENON_CPP_DATASET_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/ports.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/dataset.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Describes a dataset. Fields are numbered in the order of the calls to `field`, from 0. */
class DatasetInfo {
 public:
  /* Declares a field and returns its number. `dtype` is a dtype, not a class; `pad` is the padding
   * value; `flags` is TENON_FIELD_*. All arguments are copied. */
  uint32_t field(
      std::string name, Axes axes, uint32_t dtype, double pad = 0.0, uint32_t flags = 0) {
    names_.push_back(std::move(name));
    axes_.emplace_back(std::move(axes));
    fields_.push_back({sizeof(tenon_field_spec),
                       names_.back().c_str(),
                       axes_.back().data(),
                       axes_.back().size(),
                       dtype,
                       flags,
                       pad});
    return static_cast<uint32_t>(fields_.size() - 1);
  }
  /* Declares that the dataset has windows (`next_window`). */
  DatasetInfo& windows() {
    has_windows_ = 1;
    return *this;
  }
  /* Sets the number of shards of a stream, at least 1; the default is 1. It must not depend on the
   * number of ranks. */
  DatasetInfo& shards(uint32_t n) {
    num_shards_ = n;
    return *this;
  }
  /* Fills the ABI struct. For the wrapper only. */
  void write(uint32_t style, tenon_dataset_info& out) const {
    out.style = style;
    out.has_windows = has_windows_;
    out.num_shards = num_shards_;
    out.fields_ref = fields_.data();
    out.num_fields = fields_.size();
  }

 private:
  std::deque<std::string> names_;
  std::deque<AxesStorage> axes_;
  std::vector<tenon_field_spec> fields_;
  uint32_t has_windows_ = 0;
  uint32_t num_shards_ = 1;
};

/* Receives the batch of one read: each field once, and the counts once.
 *
 * Errors   TENON_INVALID for a field or shape that contradicts the schema, or a field written twice
 * Threads  those of the read, and only during it */
class BatchWriter {
 public:
  BatchWriter(const Exec& exec, tenon_batch_writer* writer) : exec_(exec), writer_(writer) {}
  /* Allocates field number `field`, contiguous, of shape `shape`, and returns its memory. Fill it
   * before the read returns. T must match the field's dtype.
   *
   * Owner    the memory belongs to the host */
  template <class T>
  T* add(uint32_t field, const std::vector<int64_t>& shape) {
    void* data = nullptr;
    exec_.host().check(
        writer_->add(writer_, field, static_cast<uint32_t>(shape.size()), shape.data(), &data));
    return static_cast<T*>(data);
  }
  /* Sets a field from a CPU tensor of the declared dtype.
   *
   * Owner    `tensor` is borrowed; the host takes a reference */
  void add_tensor(uint32_t field, const tenon_tensor* tensor) {
    exec_.host().check(writer_->add_tensor(writer_, field, tensor));
  }
  /* Sets the number of samples, and of tokens that are not padding (0 if tokens have no meaning).
   * Map style: `samples` equals the number of indices. Stream style: at most `max_samples`. */
  void set_counts(int64_t samples, int64_t tokens) {
    exec_.host().check(writer_->set_counts(writer_, samples, tokens));
  }
  /* Sets the shard's position after this batch, at most 1 MiB; copied. Streams only. */
  void set_position(const std::string& position) {
    exec_.host().check(writer_->set_position(writer_, position.data(), position.size()));
  }
  /* Sets the number of valid entries of each sample along the axis "T", one per sample; the rest is
   * padding. */
  void set_lengths(const std::vector<int64_t>& lengths) {
    if (TENON_HAS(tenon_batch_writer, writer_, set_lengths)) {
      exec_.host().check(writer_->set_lengths(writer_, lengths.data(), lengths.size()));
    }
  }
  /* Returns true if the run is about to end, because it was asked to stop. A read that waits or
   * takes long may then give up with TENON_CANCELLED. */
  bool stop_requested() const { return exec_.stop_requested(); }

 private:
  const Exec& exec_;
  tenon_batch_writer* writer_;
};

/* Result of `next_window`. */
struct Window {
  uint64_t id = 0;   /* the same for the same window in every run */
  std::string label; /* shown to users */
  int64_t size = -1; /* number of samples; -1: unknown, for streams only */
  bool skip = false; /* counted, but not trained on */
  /* Milliseconds; 0 for a window. Any other value: there is no window yet, and the host asks again
   * after this time; `next_window` then returns true. */
  uint32_t wait_ms = 0;
};

/* Base of both styles, called through the ABI table. Derive from MapDataset or StreamDataset. */
class AnyDataset : public Component {
 public:
  using Kind = AnyDataset;
  static constexpr const char* kKind = "dataset";
  static constexpr const char* kInterfaceId = TENON_DATASET_ID;

  /* Describes windows, shards and fields.
   *
   * Errors   TENON_IO, TENON_NOT_FOUND or TENON_INVALID for data that cannot be read
   * Threads  [main], once, before any other call */
  virtual void describe(DatasetInfo& info) = 0;
  /* Fills the next window and returns true, or returns false at the end of the epoch. It must not
   * block until new data arrives: it sets `wait_ms` and returns true instead.
   *
   * Errors   TENON_IO; by default TENON_UNSUPPORTED
   * Threads  [main], while no read is running */
  virtual bool next_window(Window& /*out*/) {
    TENON_FAIL(TENON_UNSUPPORTED, "no_windows", "this dataset has no windows");
  }
  /* Starts an epoch, counted from 0: windows and streams start over.
   *
   * Errors   TENON_IO
   * Threads  [main], while no read is running */
  virtual void reset(uint64_t /*epoch*/) {}

 protected:
  static tenon_status* on_next_window(void* self, tenon_window* out, uint32_t* out_has) noexcept {
    return call_on<AnyDataset>(self, [&](AnyDataset& dataset) {
      TENON_CHECK(out != nullptr && out_has != nullptr, "an argument of next_window is null");
      Window window;
      const bool has = dataset.next_window(window);
      if (has) {
        dataset.window_label_ = std::move(window.label);
        out->id = window.id;
        out->label_ref = dataset.window_label_.c_str();
        out->size = window.size;
        out->skip = window.skip ? 1 : 0;
        out->wait_ms = window.wait_ms;
      }
      *out_has = has ? 1 : 0;
    });
  }
  static tenon_status* on_reset(void* self, uint64_t epoch) noexcept {
    return call_on<AnyDataset>(self, [&](AnyDataset& dataset) { dataset.reset(epoch); });
  }
  template <uint32_t style>
  static tenon_status* on_describe(void* self, tenon_dataset_info* out) noexcept {
    return call_on<AnyDataset>(self, [&](AnyDataset& dataset) {
      TENON_CHECK(out != nullptr, "out is null");
      dataset.info_ = std::make_unique<DatasetInfo>();
      dataset.describe(*dataset.info_);
      dataset.info_->write(style, *out);
    });
  }

 private:
  std::unique_ptr<DatasetInfo> info_;
  std::string window_label_;
};

/* A dataset with numbered samples; the host draws the order. In all calls, `window` is null if the
 * dataset has no windows; it is borrowed until return. */
class MapDataset : public AnyDataset {
 public:
  /* Returns the number of samples.
   *
   * Errors   TENON_IO for data that cannot be read
   * Threads  [main] */
  virtual int64_t size(const tenon_window* window) = 0;
  /* Reads samples `indices[0 .. n)`, each in [0, size), in this order, as one batch.
   *
   * Errors   TENON_IO or TENON_DATA_LOSS, with file and offset; TENON_CANCELLED if
   *          `writer.stop_requested()`
   * Threads  [worker]: several reads run concurrently
   * Owner    all arguments are borrowed until return */
  virtual void read(const tenon_window* window,
                    const int64_t* indices,
                    size_t n,
                    BatchWriter& writer) = 0;
  /* Writes the lengths of samples `first` to `first + n` along the axis "T" to `out`, [n]. It must
   * be cheap. A class that does not override it cannot be packed.
   *
   * Errors   TENON_IO or TENON_DATA_LOSS, with file and offset
   * Threads  [worker], also while reads are running */
  virtual void lengths(const tenon_window* /*window*/,
                       int64_t /*first*/,
                       size_t /*n*/,
                       int64_t* /*out*/) {
    TENON_FAIL(TENON_UNSUPPORTED, "no_lengths", "this dataset has no lengths");
  }

  /* Returns the ABI table of class T. */
  template <class T>
  static const void* table() {
    constexpr bool kHasLengths =
        !std::is_same_v<decltype(&T::lengths), decltype(&MapDataset::lengths)>;
    static const tenon_dataset calls{sizeof(tenon_dataset),
                                     on_describe<TENON_DATASET_MAP>,
                                     on_size,
                                     on_read,
                                     nullptr,
                                     nullptr,
                                     on_next_window,
                                     on_reset,
                                     kHasLengths ? on_lengths : nullptr};
    return &calls;
  }

 private:
  static MapDataset& of(AnyDataset& dataset) { return static_cast<MapDataset&>(dataset); }
  static tenon_status* on_size(void* self, const tenon_window* window, int64_t* out) noexcept {
    return call_on<AnyDataset>(self, [&](AnyDataset& dataset) {
      TENON_CHECK(out != nullptr, "out is null");
      *out = of(dataset).size(window);
    });
  }
  static tenon_status* on_read(void* self,
                               const tenon_exec* raw_exec,
                               const tenon_read_args* args) noexcept {
    return call_on<AnyDataset>(self, [&](AnyDataset& dataset) {
      TENON_CHECK(args != nullptr && (args->indices != nullptr || args->num_indices == 0) &&
                      args->writer != nullptr,
                  "an argument of read is null");
      const Exec exec(dataset.host(), raw_exec);
      BatchWriter writer(exec, args->writer);
      of(dataset).read(args->window, args->indices, args->num_indices, writer);
    });
  }
  static tenon_status* on_lengths(void* self,
                                  const tenon_exec* /*exec*/,
                                  const tenon_lengths_args* args) noexcept {
    return call_on<AnyDataset>(self, [&](AnyDataset& dataset) {
      TENON_CHECK(args != nullptr && (args->out_lengths != nullptr || args->num_samples == 0),
                  "an argument of lengths is null");
      of(dataset).lengths(args->window, args->first, args->num_samples, args->out_lengths);
    });
  }
};

/* A dataset that chooses its own order, with one cursor per shard. In all calls, `window` is null
 * if the dataset has no windows; it is borrowed until return. */
class StreamDataset : public AnyDataset {
 public:
  /* Reads up to `max_samples` samples from a shard, and sets the position after them. Returns true
   * at the end of the shard. A batch that is not the last has at least one sample.
   *
   * Errors   as for MapDataset::read
   * Threads  [worker]: different shards concurrently, one shard never
   * Owner    all arguments are borrowed until return */
  virtual bool next(const tenon_window* window,
                    uint32_t shard,
                    int64_t max_samples,
                    BatchWriter& writer) = 0;
  /* Moves a shard to a position that `set_position` reported. Null means the start of the window or
   * epoch.
   *
   * Errors   TENON_INVALID for a position it cannot read, TENON_IO
   * Threads  [main], while no read is running
   * Owner    `position` is borrowed until return */
  virtual void seek(const tenon_window* window, uint32_t shard, const std::string* position) = 0;

  /* Returns the ABI table of class T. */
  template <class T>
  static const void* table() {
    static const tenon_dataset calls{sizeof(tenon_dataset),
                                     on_describe<TENON_DATASET_STREAM>,
                                     nullptr,
                                     nullptr,
                                     on_next,
                                     on_seek,
                                     on_next_window,
                                     on_reset,
                                     nullptr};
    return &calls;
  }

 private:
  static StreamDataset& of(AnyDataset& dataset) { return static_cast<StreamDataset&>(dataset); }
  static tenon_status* on_next(void* self,
                               const tenon_exec* raw_exec,
                               tenon_next_args* args) noexcept {
    return call_on<AnyDataset>(self, [&](AnyDataset& dataset) {
      TENON_CHECK(args != nullptr && args->writer != nullptr, "an argument of next is null");
      const Exec exec(dataset.host(), raw_exec);
      BatchWriter writer(exec, args->writer);
      args->out_end =
          of(dataset).next(args->window, args->shard, args->max_samples, writer) ? 1 : 0;
    });
  }
  static tenon_status* on_seek(void* self,
                               const tenon_exec* /*exec*/,
                               const tenon_seek_args* args) noexcept {
    return call_on<AnyDataset>(self, [&](AnyDataset& dataset) {
      TENON_CHECK(args != nullptr, "the arguments of seek are null");
      if (args->position == nullptr) {
        of(dataset).seek(args->window, args->shard, nullptr);
      } else {
        const std::string position(static_cast<const char*>(args->position), args->position_size);
        of(dataset).seek(args->window, args->shard, &position);
      }
    });
  }
};

TENON_NAMESPACE_END

#endif
