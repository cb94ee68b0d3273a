// SPDX-License-Identifier: Apache-2.0
//
// Where checkpoints are kept: named bundles of files, each there wholly or not at all
// (tenon/draft/storage.h has the contract, and is what a plugin implements). What is in the files
// is not known here. Invariants: a bundle that was not committed is in no list and cannot be read;
// one that was is never changed, and survives loss of power. At most one bundle of a storage is
// open at a time. Threads: any, one call at a time, but for `read` and writes to different files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// A file of an open bundle. Destroyed without close(), it is given up, and with it the bundle.
class BundleFile {
 public:
  virtual ~BundleFile() = default;
  // Appends. Fastest in pieces of some MiB.  Errors  storage.io with the system's reason and the
  // address; the file is of no use then
  virtual void write(std::span<const std::byte> bytes) = 0;
  // The last call: what was written is where commit() needs it.
  // Errors  storage.io; trying again cannot help, since the system has forgotten what it could not
  //         write: the bundle is to be given up and written anew
  virtual void close() = 0;
};

// All functions: names of bundles and files are of [A-Za-z0-9_.-] and begin with no dot; "latest"
// and "COMMITTED" are the storage's own. Errors  storage.io with the system's reason and the
// address; storage.bad_name
class BundleStorage {
 public:
  virtual ~BundleStorage() = default;

  // Opens a bundle for writing. Exactly one of the ranks that write it opens it as the first,
  // before all others, which clears away what dead processes have left, of that name and of others.
  // Errors  storage.exists if a committed bundle has that name
  virtual void open(const std::string& bundle, bool is_first) = 0;
  // Several ranks use different names.  Errors  storage.exists if the open bundle has that file
  virtual std::unique_ptr<BundleFile> create_file(const std::string& bundle,
                                                  const std::string& file) = 0;
  // Makes the bundle appear: once, on one rank, after all files of all ranks are closed. May be
  // tried again after an error; the bundle has not appeared then.
  virtual void commit(const std::string& bundle) = 0;
  // Gives an open bundle up, whatever is left of it. One that is not there is no error.
  virtual void abort(const std::string& bundle) = 0;

  // The committed bundles, in the order of their commits.
  virtual std::vector<std::string> list() = 0;
  // The files of a committed bundle, sorted.  Errors  storage.not_found
  virtual std::vector<std::string> list_files(const std::string& bundle) = 0;
  // In bytes.  Errors  storage.not_found
  virtual uint64_t file_size(const std::string& bundle, const std::string& file) = 0;
  // Reads exactly as many bytes as `out` has, from `offset` on. Fastest in pieces of some MiB.
  // Errors  storage.not_found; storage.io where the file ends sooner
  virtual void read(const std::string& bundle,
                    const std::string& file,
                    uint64_t offset,
                    std::span<std::byte> out) = 0;
  // Removes a committed bundle, or what is left of one that never was. One that is not there is no
  // error. The bundle is in no list from the first moment on.
  virtual void remove(const std::string& bundle) = 0;

  // For messages: "runs/a/checkpoints/step-500", "s3://bucket/a/step-500".
  virtual std::string address(const std::string& bundle) const = 0;
};

// Whether a bundle, or a file in one, can have that name.
bool is_bundle_name(std::string_view name);

// Errors  storage.bad_name if `name` cannot be that of a bundle or a file
void check_bundle_name(const std::string& name);

}  // namespace tenon
