// SPDX-License-Identifier: Apache-2.0
//
// Storage of checkpoints: bundles of files, each there wholly or not at all (tenon/draft/storage.h
// has the contract).
#ifndef TENON_CPP_STORAGE_HPP
#define TENON_CPP_STORAGE_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/draft/storage.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

/* A file of an open bundle. Destroyed without `close`, or after one that failed, it leaves nothing.
 * Threads [worker]: different files at once */
class StorageFile {
 public:
  StorageFile() = default;
  StorageFile(const StorageFile&) = delete;
  StorageFile& operator=(const StorageFile&) = delete;
  virtual ~StorageFile() = default;

  /* Appends.  Errors TENON_IO */
  virtual void write(const void* data, size_t size) = 0;
  /* The last call: what was written is where `commit` needs it.  Errors TENON_IO */
  virtual void close() = 0;
};

/* All but `connect`: Threads [worker]. Errors TENON_IO with the reason and the full address. Names
 * of bundles and files were checked by the host. */
class Storage : public Component {
 public:
  using Kind = Storage;
  static constexpr const char* kKind = "storage";
  static constexpr const char* kInterfaceId = TENON_STORAGE_ID;

  /* `place` tells runs apart, and what they keep: "mlp-7/checkpoints".  Threads [main], once, first
   */
  virtual void connect(const std::string& place) = 0;

  /* Errors TENON_INVALID if a committed bundle has that name */
  virtual void open(const std::string& bundle, bool is_first) = 0;
  /* Errors TENON_INVALID if the open bundle has that file */
  virtual std::unique_ptr<StorageFile> create_file(const std::string& bundle,
                                                   const std::string& file) = 0;
  /* Errors TENON_NOT_FOUND if no such bundle is open */
  virtual void commit(const std::string& bundle) = 0;
  virtual void abort(const std::string& bundle) = 0;

  /* In the order of commits. */
  virtual std::vector<std::string> list() = 0;
  /* Sorted.  Errors TENON_NOT_FOUND */
  virtual std::vector<std::string> list_files(const std::string& bundle) = 0;
  /* In bytes.  Errors TENON_NOT_FOUND */
  virtual uint64_t file_size(const std::string& bundle, const std::string& file) = 0;
  /* Exactly `size` bytes.  Errors TENON_NOT_FOUND; TENON_IO where the file ends sooner */
  virtual void read(const std::string& bundle,
                    const std::string& file,
                    uint64_t offset,
                    void* out,
                    size_t size) = 0;
  virtual void remove(const std::string& bundle) = 0;
  /* Threads [any] */
  virtual std::string address(const std::string& bundle) = 0;

  template <class T>
  static const void* table() {
    static const tenon_storage calls{sizeof(tenon_storage),
                                     on_connect,
                                     on_open,
                                     on_create_file,
                                     on_write,
                                     on_close,
                                     on_commit,
                                     on_abort,
                                     on_list,
                                     on_list_files,
                                     on_file_size,
                                     on_read,
                                     on_remove,
                                     on_address};
    return &calls;
  }

 private:
  static tenon_status* on_connect(void* self, const char* place) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) { storage.connect(text(place)); });
  }
  static tenon_status* on_open(void* self, const char* bundle, uint32_t is_first) noexcept {
    return call_on<Storage>(self,
                            [&](Storage& storage) { storage.open(text(bundle), is_first != 0); });
  }
  static tenon_status* on_create_file(void* self,
                                      const char* bundle,
                                      const char* file,
                                      tenon_storage_file** out_own) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) {
      TENON_CHECK(out_own != nullptr, "out_own is null");
      *out_own = reinterpret_cast<tenon_storage_file*>(
          storage.create_file(text(bundle), text(file)).release());
    });
  }
  static tenon_status* on_write(void* self,
                                tenon_storage_file* file,
                                const void* data,
                                size_t size) noexcept {
    return call_on<Storage>(self, [&](Storage&) {
      TENON_CHECK(file != nullptr && (data != nullptr || size == 0),
                  "an argument of write is null");
      reinterpret_cast<StorageFile*>(file)->write(data, size);
    });
  }
  static tenon_status* on_close(void* self, tenon_storage_file* file_own, uint32_t keep) noexcept {
    return call_on<Storage>(self, [&](Storage&) {
      TENON_CHECK(file_own != nullptr, "the file is null");
      const std::unique_ptr<StorageFile> file(reinterpret_cast<StorageFile*>(file_own));
      if (keep != 0) {
        file->close();
      }
    });
  }
  static tenon_status* on_commit(void* self, const char* bundle) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) { storage.commit(text(bundle)); });
  }
  static tenon_status* on_abort(void* self, const char* bundle) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) { storage.abort(text(bundle)); });
  }
  static tenon_status* on_list(void* self, tenon_names_sink sink, void* context) noexcept {
    return call_on<Storage>(
        self, [&](Storage& storage) { hand_over(storage, storage.list(), sink, context); });
  }
  static tenon_status* on_list_files(void* self,
                                     const char* bundle,
                                     tenon_names_sink sink,
                                     void* context) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) {
      hand_over(storage, storage.list_files(text(bundle)), sink, context);
    });
  }
  static tenon_status* on_file_size(void* self,
                                    const char* bundle,
                                    const char* file,
                                    uint64_t* out) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) {
      TENON_CHECK(out != nullptr, "out is null");
      *out = storage.file_size(text(bundle), text(file));
    });
  }
  static tenon_status* on_read(void* self,
                               const char* bundle,
                               const char* file,
                               uint64_t offset,
                               void* out,
                               size_t size) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) {
      TENON_CHECK(out != nullptr || size == 0, "out is null");
      storage.read(text(bundle), text(file), offset, out, size);
    });
  }
  static tenon_status* on_remove(void* self, const char* bundle) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) { storage.remove(text(bundle)); });
  }
  static tenon_status* on_address(void* self,
                                  const char* bundle,
                                  tenon_names_sink sink,
                                  void* context) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) {
      hand_over(storage, {storage.address(text(bundle))}, sink, context);
    });
  }

  static std::string text(const char* given) {
    TENON_CHECK(given != nullptr, "a name is null");
    return given;
  }
  static void hand_over(const Storage& storage,
                        const std::vector<std::string>& names,
                        tenon_names_sink sink,
                        void* context) {
    TENON_CHECK(sink != nullptr, "the sink is null");
    for (const std::string& name : names) {
      storage.host().check(sink(context, name.c_str()));
    }
  }
};

}  // namespace tenon

#endif
