// SPDX-License-Identifier: Apache-2.0
//
// Bundles as folders of a local file system, or of one that machines share:
//
//   ROOT/NAME/                the files of a bundle, and COMMITTED, written last
//   ROOT/NAME/COMMITTED       a number: bundles are listed in its order, whatever the clock says
//   ROOT/latest               the name of the newest committed bundle, for people and scripts
//   ROOT/.open-NAME/          one that is being written
//   ROOT/.gone-NAME/          one that is being removed
//
// Invariants: at each moment, and after a crash at any, a listed bundle is whole and on the disk,
// and `latest` names one that is listed, or is not there. Nothing is touched that carries none of
// these marks: a folder of the user's own beside the bundles is safe. Not for two runs in one
// folder: run_lock.hpp keeps a second one out. Threads: as BundleStorage.
#pragma once

#include "host/checkpoint/bundle_storage.hpp"

#include <optional>

namespace tenon {

class LocalStorage final : public BundleStorage {
 public:
  // Touches nothing: the folder is made by the first open().
  explicit LocalStorage(std::string root);

  void open(const std::string& bundle, bool is_first) override;
  std::unique_ptr<BundleFile> create_file(const std::string& bundle,
                                          const std::string& file) override;
  void commit(const std::string& bundle) override;
  void abort(const std::string& bundle) override;
  std::vector<std::string> list() override;
  std::vector<std::string> list_files(const std::string& bundle) override;
  uint64_t file_size(const std::string& bundle, const std::string& file) override;
  void read(const std::string& bundle,
            const std::string& file,
            uint64_t offset,
            std::span<std::byte> out) override;
  void remove(const std::string& bundle) override;
  std::string address(const std::string& bundle) const override;

 private:
  std::string folder(const std::string& bundle) const;
  std::string open_folder(const std::string& bundle) const;
  std::string gone_folder(const std::string& bundle) const;
  bool is_committed(const std::string& bundle) const;
  bool is_leftover(const std::string& bundle) const;
  void check_committed(const std::string& bundle) const;
  void clear_leftovers();
  // `latest` names the newest bundle but `without`, or is gone.
  void point_latest(const std::string& without);
  void remove_leftover(const std::string& bundle);

  std::string root_;
};

}  // namespace tenon
