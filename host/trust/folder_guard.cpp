// SPDX-License-Identifier: Apache-2.0
#include "host/trust/folder_guard.hpp"

#include "host/text/formatted.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

namespace tenon {

TrustedKeys read_trust_file(const std::string& file, Writable writable) {
  TrustedKeys keys = TrustedKeys::read(file);
  std::error_code failed;
  const std::string target = std::filesystem::canonical(file, failed).string();
  for (const WriteAccess& access :
       {write_access_of_file(failed ? file : target), write_access_around(file)}) {
    if (!access.by_all.empty() && writable == Writable::kRefused) {
      throw Error("plugin.bad_trust",
                  "the trust file " + file + " can be changed by anyone: " + access.by_all + "; " +
                      access.advice + ", or pass --allow-writable-plugins");
    }
  }
  return keys;
}

FolderGuard::FolderGuard(std::string folder, Writable writable, const TrustedKeys* keys)
    : folder_(std::move(folder)),
      writable_(writable),
      keys_(keys),
      access_(write_access_of_folder(folder_)) {
  note(access_);
}

void FolderGuard::look_at(const std::string& file) {
  note(write_access_of_file(file));
}

FolderGuard::Finding FolderGuard::check(const std::string& file,
                                        const std::string& described) const {
  Finding finding;
  // The folder first: one reason for all its plugins is logged once.
  for (const WriteAccess& access : {access_, write_access_of_file(file)}) {
    if (!access.by_all.empty() && writable_ == Writable::kRefused) {
      finding.refusal = Error("plugin.writable",
                              access.by_all + ", so anyone can change plugins in " + folder_ +
                                  "; " + access.advice + ", or pass --allow-writable-plugins");
      return finding;
    }
  }
  if (keys_ != nullptr) {
    SignatureCheck check = check_signature(file, *keys_);
    if (!check.problem.empty()) {
      finding.refusal = Error("plugin.untrusted", described + " " + check.problem);
      return finding;
    }
    finding.hash = std::move(check.hash);
    finding.signer = std::move(check.signer);
  }
  return finding;
}

void FolderGuard::add_notice(std::vector<Notice>& notices) const {
  if (num_noted_ == 0) {
    return;
  }
  const std::string more =
      num_noted_ == 1 ? "" : formatted(", and {} more in {} are like it", num_noted_ - 1, folder_);
  notices.push_back(
      {folder_,
       first_noted_ + more +
           "; they can run code in your runs: if you do not trust them, take the permission away "
           "(chmod g-w, chown)"});
}

void FolderGuard::note(const WriteAccess& access) {
  if (access.by_some.empty()) {
    return;
  }
  if (num_noted_++ == 0) {
    first_noted_ = access.by_some;
  }
}

}  // namespace tenon
