// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints in S3 or S3-compatible object storage. A checkpoint directory is the objects below
// PREFIX/PLACE/NAME/: its files, and COMMITTED. COMMITTED is a small object, written last and
// deleted first, with a sequence number that defines the listing order (commit_record.hpp).
// COMMITTED.tmp marks a checkpoint that is being written or removed. It distinguishes leftovers of
// a killed process from unrelated objects.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/storage.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "commit_record.hpp"
#include "object_store.hpp"

namespace {

using tenon::ObjectStore;
using tenon::ObjectStoreOptions;
using tenon::ObjectWriter;

constexpr const char* kCommitted = "COMMITTED";
constexpr const char* kNotYet = "COMMITTED.tmp";

class S3File : public tenon::StorageFile {
 public:
  explicit S3File(std::unique_ptr<ObjectWriter> writer) : writer_(std::move(writer)) {}

  void write(const void* data, size_t size) override { writer_->write(data, size); }
  void close() override { writer_->close(); }

 private:
  std::unique_ptr<ObjectWriter> writer_;
};

class S3Storage : public tenon::Storage {
 public:
  static constexpr const char* kType = "s3";
  static constexpr const char* kSummary = "checkpoints in S3 or S3-compatible object storage";
  using Options = ObjectStoreOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("uri", &Options::uri)
        .required()
        .non_empty()
        .doc(
            "s3://BUCKET/PREFIX, optionally with ?region=..., &endpoint_override=HOST:PORT and "
            "&scheme=http");
    binder.field("attempts", &Options::attempts)
        .min(1)
        .max(100)
        .doc("maximum attempts per request on network errors or a busy server");
    binder.field("connect_timeout_seconds", &Options::connect_timeout_seconds)
        .exclusive_min(0)
        .doc("connection timeout of one attempt, seconds");
    binder.field("timeout_seconds", &Options::timeout_seconds)
        .exclusive_min(0)
        .doc("timeout of one attempt without any data transfer, seconds");
    binder.field("upload_bytes", &Options::upload_bytes)
        .min(int64_t{10} << 20)
        .max(int64_t{5} << 30)
        .doc("upload buffer per file, bytes");
  }

  explicit S3Storage(const Options& options) : store_(options) {}

  void connect(const std::string& place) override {
    store_.check_bucket();
    prefix_ = store_.root() + "/" + place;
  }

  void open(const std::string& checkpoint, bool is_first) override {
    if (has(checkpoint, kCommitted)) {
      TENON_FAIL(TENON_EXISTS, "s3.exists", address(checkpoint), " already exists");
    }
    if (!is_first) {
      if (!has(checkpoint, kNotYet)) {
        TENON_FAIL(TENON_IO, "s3.failed", address(checkpoint), " was not opened by rank 0");
      }
      return;
    }
    for (const std::string& name : store_.folders_in(prefix_)) {
      if (has(name, kNotYet) && !has(name, kCommitted)) {
        clear(name);
      }
    }
    if (!store_.objects_in(folder(checkpoint)).empty()) {
      TENON_FAIL(TENON_EXISTS,
                 "s3.exists",
                 address(checkpoint),
                 " already exists and is not a checkpoint");
    }
    store_.put(key(checkpoint, kNotYet), "");
  }

  std::unique_ptr<tenon::StorageFile> create_file(const std::string& checkpoint,
                                                  const std::string& file) override {
    if (has(checkpoint, file)) {
      TENON_FAIL(TENON_EXISTS, "s3.exists", address(checkpoint), "/", file, " already exists");
    }
    return std::make_unique<S3File>(store_.open(key(checkpoint, file)));
  }

  void commit(const std::string& checkpoint) override {
    if (!has(checkpoint,
             kCommitted)) {  // else an earlier attempt succeeded, but its response was lost
      if (!has(checkpoint, kNotYet)) {
        TENON_FAIL(TENON_NOT_FOUND, "s3.not_open", address(checkpoint), " is not open");
      }
      store_.put(key(checkpoint, kCommitted),
                 tenon::commit_record_text(next_sequence(), checkpoint));
    }
    try {
      store_.remove(key(checkpoint, kNotYet));
    } catch (const tenon::Error& error) {
      // It is committed anyway: COMMITTED takes precedence over the mark.
      host().log_warn(error.what());
    }
  }

  void abort(const std::string& checkpoint) override {
    if (!has(checkpoint, kCommitted)) {
      clear(checkpoint);
    }
  }

  std::vector<std::string> list() override {
    std::vector<std::string> names;
    for (auto& [sequence, name] : committed()) {
      names.push_back(name);
    }
    return names;
  }

  std::vector<std::string> list_files(const std::string& checkpoint) override {
    check_committed(checkpoint);
    std::vector<std::string> names = store_.objects_in(folder(checkpoint));
    names.erase(std::remove_if(
                    names.begin(),
                    names.end(),
                    [](const std::string& name) { return name == kCommitted || name == kNotYet; }),
                names.end());
    return names;
  }

  uint64_t file_size(const std::string& checkpoint, const std::string& file) override {
    check_committed(checkpoint);
    const auto size = store_.size_of(key(checkpoint, file));
    if (!size) {
      TENON_FAIL(TENON_NOT_FOUND,
                 "s3.no_object",
                 "object does not exist: ",
                 address(checkpoint),
                 "/",
                 file);
    }
    return *size;
  }

  void read(const std::string& checkpoint,
            const std::string& file,
            uint64_t offset,
            void* out,
            size_t size) override {
    check_committed(checkpoint);
    store_.read(key(checkpoint, file), offset, out, size);
  }

  void remove(const std::string& checkpoint) override {
    if (has(checkpoint, kCommitted)) {
      store_.put(key(checkpoint, kNotYet), "");  // marks it until COMMITTED exists
      store_.remove(key(checkpoint, kCommitted));
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      known_.erase(checkpoint);
    }
    clear(checkpoint);
  }

  std::string address(const std::string& checkpoint) override {
    return "s3://" + folder(checkpoint);
  }

 private:
  std::string folder(const std::string& checkpoint) const { return prefix_ + "/" + checkpoint; }
  std::string key(const std::string& checkpoint, const std::string& file) const {
    return folder(checkpoint) + "/" + file;
  }
  bool has(const std::string& checkpoint, const std::string& file) const {
    return store_.size_of(key(checkpoint, file)).has_value();
  }

  // The number in COMMITTED; none if it is corrupt.
  std::optional<uint64_t> sequence_of(const std::string& name, uint64_t size) const {
    constexpr uint64_t kMostBytes = 512;
    std::string text(std::min(size, kMostBytes), '\0');
    store_.read(key(name, kCommitted), 0, text.data(), text.size());
    return tenon::committed_sequence(text);
  }

  // With sequence numbers, sorted by them. A checkpoint with a corrupt number comes last: it may be
  // the newest, and reading it reports the error.
  std::vector<std::pair<uint64_t, std::string>> committed() const {
    std::vector<std::pair<uint64_t, std::string>> found;
    for (const std::string& name : store_.folders_in(prefix_)) {
      if (const auto size = store_.size_of(key(name, kCommitted))) {
        found.emplace_back(sequence_of(name, *size).value_or(kUnknown), name);
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  // After a corrupt number, leaves more numbers out than a run commits, so that the result is
  // larger than that number was.
  uint64_t next_sequence() const {
    constexpr uint64_t kNumbersLeftOut = 1'000'000;
    uint64_t last = 0;
    uint64_t step = 1;
    for (const auto& [sequence, name] : committed()) {
      if (sequence == kUnknown) {
        step = kNumbersLeftOut;
      } else {
        last = std::max(last, sequence);
      }
    }
    if (last > tenon::kMaxSequence - step) {
      TENON_FAIL(TENON_IO,
                 "s3.no_number",
                 "a checkpoint in s3://",
                 prefix_,
                 " has the number ",
                 last,
                 " in COMMITTED, and no larger number is left; move that checkpoint away");
    }
    return last + step;
  }

  // Caches known records, so that reads do not query them again.
  void check_committed(const std::string& checkpoint) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (known_.count(checkpoint) != 0) {
        return;
      }
    }
    const auto size = store_.size_of(key(checkpoint, kCommitted));
    if (!size) {
      TENON_FAIL(
          TENON_NOT_FOUND, "s3.no_bundle", "checkpoint does not exist: ", address(checkpoint));
    }
    if (!sequence_of(checkpoint, *size)) {
      TENON_FAIL(TENON_DATA_LOSS,
                 "s3.bad_record",
                 address(checkpoint),
                 "/COMMITTED is corrupt: it has no valid number, name and checksum");
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    known_.insert(checkpoint);
  }

  // Deletes a checkpoint without COMMITTED. The mark goes last, so that leftovers stay
  // recognizable.
  void clear(const std::string& checkpoint) const {
    if (!has(checkpoint, kNotYet)) {
      return;
    }
    for (const std::string& file : store_.objects_in(folder(checkpoint))) {
      if (file != kNotYet) {
        store_.remove(key(checkpoint, file));
      }
    }
    store_.remove_folder(folder(checkpoint));
  }

  static constexpr uint64_t kUnknown = UINT64_MAX;

  ObjectStore store_;
  std::string prefix_;
  std::mutex mutex_;
  std::set<std::string> known_;  // committed checkpoints
};

}  // namespace

TENON_PLUGIN(S3Storage)
