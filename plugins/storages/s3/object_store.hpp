// SPDX-License-Identifier: Apache-2.0
//
// Puts, reads, lists and deletes objects of a bucket, by Arrow's S3 file system. Does not know
// their meaning.
// Invariants: objects are written atomically. Requests are retried with exponential backoff and
// fail in bounded time.
// Errors   all functions: TENON_IO, "s3.failed", with the address and the reason from server or
//          network
// Threads  any, for different objects
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

// Writes an object in pieces. Parts are uploaded while more data is written. The object exists once
// close() has returned. If the writer is destroyed earlier, or after an error, no object is
// created.
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
  std::shared_ptr<arrow::io::OutputStream> stream_;  // null: closed
  uint64_t size_ = 0;
  uint64_t waited_for_ = 0;  // bytes known to be uploaded
};

class ObjectStore {
 public:
  // Makes no request.
  //
  // Errors   TENON_INVALID, "s3.bad_uri"
  // Threads  [main]
  explicit ObjectStore(const ObjectStoreOptions& options);
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  // Errors   TENON_NOT_FOUND if the bucket does not exist
  void check_bucket() const;

  // Root of all keys, without a trailing '/': "BUCKET" or "BUCKET/PREFIX" of the URI.
  const std::string& root() const { return root_; }
  uint64_t upload_bytes() const { return upload_bytes_; }

  // Size of an object, bytes; none if it does not exist.
  std::optional<uint64_t> size_of(const std::string& key) const;
  // Creates or replaces a small object.
  void put(const std::string& key, std::string_view content) const;
  std::unique_ptr<ObjectWriter> open(const std::string& key) const;
  // Reads exactly `size` bytes.
  // Errors   TENON_NOT_FOUND; TENON_DATA_LOSS if the object is too short
  void read(const std::string& key, uint64_t offset, void* out, size_t size) const;
  // Base names of the objects, or folders, directly below a folder. Sorted.
  std::vector<std::string> objects_in(const std::string& folder) const;
  std::vector<std::string> folders_in(const std::string& folder) const;
  // Deletes an object; succeeds if it does not exist.
  void remove(const std::string& key) const;
  // Deletes a folder and its contents.
  void remove_folder(const std::string& folder) const;

 private:
  std::shared_ptr<arrow::fs::FileSystem> file_system_;
  std::string root_;
  uint64_t upload_bytes_;
};

}  // namespace tenon
