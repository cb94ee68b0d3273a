// SPDX-License-Identifier: Apache-2.0
//
// A plugin folder that a test fills with animals of the zoo (tests/support/zoo), and the set-up of
// a registry over it.
#pragma once

#include "host/plugin/registry.hpp"

#include <string>
#include <string_view>

#include "tests/support/scratch_folder.hpp"

namespace tenon {

class ZooFolder {
 public:
  // Copies NAME.so of the zoo into the folder, as AS.so where that is given. Returns its path.
  std::string add(const std::string& name, const std::string& as = "");

  std::string path() const { return (folder_.path() / "plugins").string(); }
  std::string path_of(const std::string& name) const { return path() + "/" + name + ".so"; }
  // Writes a file of any other sort into the folder.
  std::string write(const std::string& name, std::string_view content);

  // All services, no vet cache, and no list of notices.
  PluginSetup setup(Vetting vetting = Vetting::kEarly) const;
  // A place for a vet cache, outside of the plugin folder.
  std::string cache_file() const { return (folder_.path() / "cache" / "vetted.json").string(); }
  // A place for a list of notices, outside of the plugin folder.
  std::string notice_file() const { return (folder_.path() / "cache" / "notices.json").string(); }
  // A place for a log.
  std::string log_file() const { return (folder_.path() / "log.txt").string(); }

 private:
  ScratchFolder folder_;
};

// What the composition root offers to plugins, as far as these tests need it.
ServiceTable zoo_services();

std::string read_text(const std::string& file);

}  // namespace tenon
