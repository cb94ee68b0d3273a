// SPDX-License-Identifier: Apache-2.0
//
// Storages for checkpoints: checkpoint directories ("checkpoints") of files, each committed
// atomically. <tenon/draft/storage.h> defines the contract.
#ifndef TENON_CPP_STORAGE_HPP
#define TENON_CPP_STORAGE_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/draft/storage.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

TENON_NAMESPACE_BEGIN

/* A file of an open checkpoint. If it is destroyed without a successful `close`, it is discarded.
 *
 * Threads  [worker]: different files concurrently, one file never */
class StorageFile {
 public:
  StorageFile() = default;
  StorageFile(const StorageFile&) = delete;
  StorageFile& operator=(const StorageFile&) = delete;
  virtual ~StorageFile() = default;

  /* Appends.
   *
   * Errors   TENON_IO
   * Threads  [worker]
   * Owner    `data` is borrowed until return */
  virtual void write(const void* data, size_t size) = 0;
  /* Closes the file: its content is ready for `commit`. It is the last call.
   *
   * Errors   TENON_IO
   * Threads  [worker] */
  virtual void close() = 0;
};

/* Base class of storages. The host has validated the names of checkpoints and files. The tags below
 * hold for every function, if it does not state others.
 *
 * Errors   TENON_IO, with the reason and the full address; TENON_TIMEOUT if a retry may help
 * Threads  [worker]
 * Owner    all arguments are borrowed until return */
class Storage : public Component {
 public:
  using Kind = Storage;
  static constexpr const char* kKind = "storage";
  static constexpr const char* kInterfaceId = TENON_STORAGE_ID;

  /* Connects to the location in the options. `place` separates runs and purposes:
   * "mlp-7/checkpoints". It writes nothing.
   *
   * Errors   TENON_NOT_FOUND, TENON_IO
   * Threads  [main], once, before any other call */
  virtual void connect(const std::string& place) = 0;

  /* Opens a checkpoint for writing. `is_first` is true on the one rank that calls before all
   * others; that call deletes leftovers.
   *
   * Errors   TENON_EXISTS if a committed checkpoint has that name; TENON_IO
   * Threads  [worker] */
  virtual void open(const std::string& checkpoint, bool is_first) = 0;
  /* Creates a file in an open checkpoint.
   *
   * Errors   TENON_EXISTS if the checkpoint has that file; TENON_IO
   * Threads  [worker]
   * Owner    the host destroys the file */
  virtual std::unique_ptr<StorageFile> create_file(const std::string& checkpoint,
                                                   const std::string& file) = 0;
  /* Commits the checkpoint atomically, on one rank, after the last `close` of every rank.
   *
   * Errors   TENON_NOT_FOUND if no such checkpoint is open; TENON_IO. After an error the checkpoint
   *          is not visible, and `commit` may be retried
   * Threads  [worker] */
  virtual void commit(const std::string& checkpoint) = 0;
  /* Discards an open checkpoint. It is no error if the checkpoint does not exist.
   *
   * Errors   TENON_IO
   * Threads  [worker] */
  virtual void abort(const std::string& checkpoint) = 0;

  /* Returns the committed checkpoints, in commit order.
   *
   * Errors   TENON_IO
   * Threads  [worker] */
  virtual std::vector<std::string> list() = 0;
  /* Returns the files of a committed checkpoint, sorted by name.
   *
   * Errors   TENON_NOT_FOUND if there is no such checkpoint; TENON_IO
   * Threads  [worker] */
  virtual std::vector<std::string> list_files(const std::string& checkpoint) = 0;
  /* Returns the size of a file, in bytes.
   *
   * Errors   TENON_NOT_FOUND if there is no such file; TENON_IO
   * Threads  [worker] */
  virtual uint64_t file_size(const std::string& checkpoint, const std::string& file) = 0;
  /* Reads exactly `size` bytes from `offset`, both in bytes.
   *
   * Errors   TENON_NOT_FOUND if there is no such file; TENON_DATA_LOSS, with the offset, if the
   *          file is shorter; TENON_IO
   * Threads  [worker]: several reads concurrently, also of one file */
  virtual void read(const std::string& checkpoint,
                    const std::string& file,
                    uint64_t offset,
                    void* out,
                    size_t size) = 0;
  /* Removes a committed checkpoint, or the leftovers of one that was never committed. It is no
   * error if the checkpoint does not exist.
   *
   * Errors   TENON_IO
   * Threads  [worker], while nobody reads it */
  virtual void remove(const std::string& checkpoint) = 0;
  /* Returns the address of the checkpoint in messages. The checkpoint need not exist.
   *
   * Errors   TENON_IO
   * Threads  [any] */
  virtual std::string address(const std::string& checkpoint) = 0;

  /* Returns the ABI table of class T. */
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
  static tenon_status* on_connect(void* self, const tenon_storage_connect_args* args) noexcept {
    return call_on<Storage>(self,
                            [&](Storage& storage) { storage.connect(text(given(args).place)); });
  }
  static tenon_status* on_open(void* self, const tenon_storage_open_args* args) noexcept {
    return call_on<Storage>(
        self, [&](Storage& storage) { storage.open(checkpoint_of(args), args->is_first != 0); });
  }
  static tenon_status* on_create_file(void* self, tenon_storage_create_args* args) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) {
      const std::string checkpoint = checkpoint_of(args);
      args->out_file_own = reinterpret_cast<tenon_storage_file*>(
          storage.create_file(checkpoint, text(args->file)).release());
    });
  }
  static tenon_status* on_write(void* self, const tenon_storage_write_args* args) noexcept {
    return call_on<Storage>(self, [&](Storage&) {
      TENON_CHECK(
          args != nullptr && args->file != nullptr && (args->data != nullptr || args->size == 0),
          "an argument of write is null");
      reinterpret_cast<StorageFile*>(args->file)->write(args->data, args->size);
    });
  }
  static tenon_status* on_close(void* self, const tenon_storage_close_args* args) noexcept {
    return call_on<Storage>(self, [&](Storage&) {
      TENON_CHECK(args != nullptr && args->file_own != nullptr, "an argument of close is null");
      const std::unique_ptr<StorageFile> file(reinterpret_cast<StorageFile*>(args->file_own));
      if (args->keep != 0) {
        file->close();
      }
    });
  }
  static tenon_status* on_commit(void* self, const tenon_storage_checkpoint_args* args) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) { storage.commit(checkpoint_of(args)); });
  }
  static tenon_status* on_abort(void* self, const tenon_storage_checkpoint_args* args) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) { storage.abort(checkpoint_of(args)); });
  }
  static tenon_status* on_list(void* self, const tenon_storage_list_args* args) noexcept {
    return call_on<Storage>(
        self, [&](Storage& storage) { hand_over(storage, storage.list(), given(args)); });
  }
  static tenon_status* on_list_files(void* self, const tenon_storage_list_args* args) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) {
      hand_over(storage, storage.list_files(checkpoint_of(args)), *args);
    });
  }
  static tenon_status* on_file_size(void* self, tenon_storage_size_args* args) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) {
      const std::string checkpoint = checkpoint_of(args);
      args->out_size = storage.file_size(checkpoint, text(args->file));
    });
  }
  static tenon_status* on_read(void* self, const tenon_storage_read_args* args) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) {
      const std::string checkpoint = checkpoint_of(args);
      TENON_CHECK(args->data != nullptr || args->size == 0, "data is null");
      storage.read(checkpoint, text(args->file), args->offset, args->data, args->size);
    });
  }
  static tenon_status* on_remove(void* self, const tenon_storage_checkpoint_args* args) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) { storage.remove(checkpoint_of(args)); });
  }
  static tenon_status* on_address(void* self, const tenon_storage_list_args* args) noexcept {
    return call_on<Storage>(self, [&](Storage& storage) {
      hand_over(storage, {storage.address(checkpoint_of(args))}, *args);
    });
  }

  template <class Args>
  static Args& given(Args* args) {
    TENON_CHECK(args != nullptr, "the arguments are null");
    return *args;
  }
  static std::string text(const char* name) {
    TENON_CHECK(name != nullptr, "a name is null");
    return name;
  }
  template <class Args>
  static std::string checkpoint_of(Args* args) {
    return text(given(args).checkpoint);
  }
  static void hand_over(const Storage& storage,
                        const std::vector<std::string>& names,
                        const tenon_storage_list_args& args) {
    TENON_CHECK(args.sink != nullptr, "the sink is null");
    for (const std::string& name : names) {
      storage.host().check(args.sink(args.context, name.c_str()));
    }
  }
};

TENON_NAMESPACE_END

#endif
