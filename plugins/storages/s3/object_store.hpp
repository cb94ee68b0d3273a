// SPDX-License-Identifier: Apache-2.0
//
// Objects of a bucket, by Arrow's file system for S3: put, read, listed, deleted. What they mean is
// not known here. Invariants: an object is there wholly or not at all; a request is tried again
// with waits that grow, and gives up in bounded time. All functions: Errors  TENON_IO, "s3.failed",
// with the address and what the server or the network said. Threads  any, different objects at
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace arrow::fs {
class FileSystem;
}
namespace arrow::io {
class OutputStream;
}

namespace tenon {

struct ObjectStoreOptions {
  std::string uri;
  int64_t attempts = 6;
  double connect_timeout_seconds = 5.0;
  double timeout_seconds = 30.0;
  int64_t upload_bytes = 64 << 20;
};

class ObjectStore;

// An object that comes in pieces. Parts are sent while more is written. Until close() returned
// there is no such object; destroyed before, or after an error, there will be none.
class ObjectWriter {
 public:
  ObjectWriter(const ObjectStore& store,
               std::string key,
               std::shared_ptr<arrow::io::OutputStream> stream);
  ~ObjectWriter();
  ObjectWriter(const ObjectWriter&) = delete;
  ObjectWriter& operator=(const ObjectWriter&) = delete;

  void write(const void* data, size_t size);
  void close();

 private:
  const ObjectStore& store_;
  std::string key_;
  std::shared_ptr<arrow::io::OutputStream> stream_;  // null: it is over
  uint64_t size_ = 0;
  uint64_t waited_for_ = 0;  // bytes that were certainly sent
};

class ObjectStore {
 public:
  // Reaches for nothing.
  //
  // Errors   TENON_INVALID, "s3.bad_uri"
  // Threads  [main]
  explicit ObjectStore(const ObjectStoreOptions& options);
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  // Errors  TENON_NOT_FOUND if there is no such bucket
  void check_bucket() const;

  // Keys are below this, which ends without '/': what the URI named, "BUCKET" or "BUCKET/PREFIX".
  const std::string& root() const { return root_; }
  uint64_t upload_bytes() const { return upload_bytes_; }

  // The size of an object; none where there is none.
  std::optional<uint64_t> size_of(const std::string& key) const;
  // Makes or replaces a small object.
  void put(const std::string& key, std::string_view content) const;
  std::unique_ptr<ObjectWriter> open(const std::string& key) const;
  // Reads exactly `size` bytes.  Errors  TENON_NOT_FOUND; TENON_IO where the object ends sooner
  void read(const std::string& key, uint64_t offset, void* out, size_t size) const;
  // The last parts of the names of objects, or of folders, right below a folder. Sorted.
  std::vector<std::string> objects_in(const std::string& folder) const;
  std::vector<std::string> folders_in(const std::string& folder) const;
  // Of an object that is not there too.
  void remove(const std::string& key) const;
  // A folder with all that is in it.
  void remove_folder(const std::string& folder) const;

 private:
  std::shared_ptr<arrow::fs::FileSystem> file_system_;
  std::string root_;
  uint64_t upload_bytes_;
};

}  // namespace tenon
