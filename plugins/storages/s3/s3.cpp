// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints in S3, or in what speaks as it does. A bundle is the objects below
// PREFIX/PLACE/NAME/: its files, and COMMITTED, a small object that is written last and deleted
// first, with a number that bundles are listed in the order of. COMMITTED.tmp marks one that is
// being written or removed, so that what a dead process left is told from what others keep there.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/storage.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

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
  static constexpr const char* kSummary = "checkpoints in object storage that speaks as S3 does";
  using Options = ObjectStoreOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("uri", &Options::uri)
        .required()
        .non_empty()
        .doc(
            "s3://BUCKET/PREFIX, with ?region=..., &endpoint_override=HOST:PORT and "
            "&scheme=http where they are needed");
    binder.field("attempts", &Options::attempts)
        .min(1)
        .max(100)
        .doc("how often a request is made that fails for the network or a busy server");
    binder.field("connect_timeout_seconds", &Options::connect_timeout_seconds)
        .exclusive_min(0)
        .doc("how long one attempt waits for a connection");
    binder.field("timeout_seconds", &Options::timeout_seconds)
        .exclusive_min(0)
        .doc("how long an attempt goes on while nothing comes or goes");
    binder.field("upload_bytes", &Options::upload_bytes)
        .min(int64_t{10} << 20)
        .doc("how much of each file may wait in memory to be sent");
  }

  explicit S3Storage(const Options& options) : store_(options) {}

  void connect(const std::string& place) override {
    store_.check_bucket();
    place_ = store_.root() + "/" + place;
  }

  void open(const std::string& bundle, bool is_first) override {
    if (has(bundle, kCommitted)) {
      TENON_FAIL(TENON_INVALID, "s3.exists", address(bundle), " is there already");
    }
    if (!is_first) {
      if (!has(bundle, kNotYet)) {
        TENON_FAIL(TENON_IO, "s3.failed", address(bundle), " was not opened by the first rank");
      }
      return;
    }
    for (const std::string& name : store_.folders_in(place_)) {
      if (has(name, kNotYet) && !has(name, kCommitted)) {
        clear(name);
      }
    }
    if (!store_.objects_in(folder(bundle)).empty()) {
      TENON_FAIL(TENON_INVALID, "s3.exists", address(bundle), " is there, and is no checkpoint");
    }
    store_.put(key(bundle, kNotYet), "");
  }

  std::unique_ptr<tenon::StorageFile> create_file(const std::string& bundle,
                                                  const std::string& file) override {
    if (has(bundle, file)) {
      TENON_FAIL(TENON_INVALID, "s3.exists", address(bundle), "/", file, " is there already");
    }
    return std::make_unique<S3File>(store_.open(key(bundle, file)));
  }

  void commit(const std::string& bundle) override {
    if (!has(bundle, kCommitted)) {  // else an earlier try got through, and its answer did not
      if (!has(bundle, kNotYet)) {
        TENON_FAIL(TENON_NOT_FOUND, "s3.not_open", address(bundle), " is not open");
      }
      uint64_t last = 0;
      for (const auto& [sequence, name] : committed()) {
        last = std::max(last, sequence);
      }
      store_.put(key(bundle, kCommitted), std::to_string(last + 1) + "\n");
    }
    try {
      store_.remove(key(bundle, kNotYet));
    } catch (const tenon::Error& error) {
      // It is committed all the same, and the mark means nothing beside the record.
      host().log_warn(error.what());
    }
  }

  void abort(const std::string& bundle) override {
    if (!has(bundle, kCommitted)) {
      clear(bundle);
    }
  }

  std::vector<std::string> list() override {
    std::vector<std::string> names;
    for (auto& [sequence, name] : committed()) {
      names.push_back(name);
    }
    return names;
  }

  std::vector<std::string> list_files(const std::string& bundle) override {
    check_committed(bundle);
    std::vector<std::string> names = store_.objects_in(folder(bundle));
    names.erase(std::remove_if(
                    names.begin(),
                    names.end(),
                    [](const std::string& name) { return name == kCommitted || name == kNotYet; }),
                names.end());
    return names;
  }

  uint64_t file_size(const std::string& bundle, const std::string& file) override {
    check_committed(bundle);
    const auto size = store_.size_of(key(bundle, file));
    if (!size) {
      TENON_FAIL(TENON_NOT_FOUND, "s3.no_object", "there is no ", address(bundle), "/", file);
    }
    return *size;
  }

  void read(const std::string& bundle,
            const std::string& file,
            uint64_t offset,
            void* out,
            size_t size) override {
    check_committed(bundle);
    store_.read(key(bundle, file), offset, out, size);
  }

  void remove(const std::string& bundle) override {
    if (has(bundle, kCommitted)) {
      store_.put(key(bundle, kNotYet), "");  // for whoever finds it without its record
      store_.remove(key(bundle, kCommitted));
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      known_.erase(bundle);
    }
    clear(bundle);
  }

  std::string address(const std::string& bundle) override { return "s3://" + folder(bundle); }

 private:
  std::string folder(const std::string& bundle) const { return place_ + "/" + bundle; }
  std::string key(const std::string& bundle, const std::string& file) const {
    return folder(bundle) + "/" + file;
  }
  bool has(const std::string& bundle, const std::string& file) const {
    return store_.size_of(key(bundle, file)).has_value();
  }

  // With the place in the order of commits, sorted by it.
  std::vector<std::pair<uint64_t, std::string>> committed() const {
    std::vector<std::pair<uint64_t, std::string>> found;
    for (const std::string& name : store_.folders_in(place_)) {
      const auto size = store_.size_of(key(name, kCommitted));
      if (!size) {
        continue;
      }
      std::string text(std::min<uint64_t>(*size, 32), '\0');
      store_.read(key(name, kCommitted), 0, text.data(), text.size());
      uint64_t sequence = 0;  // one that cannot be read does not make a bundle vanish
      std::from_chars(text.data(), text.data() + text.size(), sequence);
      found.emplace_back(sequence, name);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  // A record that was seen is not looked for again before each of many reads.
  void check_committed(const std::string& bundle) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (known_.count(bundle) != 0) {
        return;
      }
    }
    if (!has(bundle, kCommitted)) {
      TENON_FAIL(TENON_NOT_FOUND, "s3.no_bundle", "there is no ", address(bundle));
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    known_.insert(bundle);
  }

  // Deletes a bundle that has no record: the mark goes last, so that the rest can still be told.
  void clear(const std::string& bundle) const {
    if (!has(bundle, kNotYet)) {
      return;
    }
    for (const std::string& file : store_.objects_in(folder(bundle))) {
      if (file != kNotYet) {
        store_.remove(key(bundle, file));
      }
    }
    store_.remove_folder(folder(bundle));
  }

  ObjectStore store_;
  std::string place_;
  std::mutex mutex_;
  std::set<std::string> known_;  // committed bundles
};

}  // namespace

TENON_PLUGIN(S3Storage)
