// SPDX-License-Identifier: Apache-2.0
#include "tests/host/plugin/zoo_folder.hpp"

#include "host/error/status.hpp"
#include "host/plugin/plugin_services.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/paths.hpp"

namespace tenon {

std::string ZooFolder::add(const std::string& name, const std::string& as) {
  const std::string file = path_of(as.empty() ? name : as);
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  std::filesystem::copy_file(build_dir() / "tests" / "zoo" / (name + ".so"),
                             file,
                             std::filesystem::copy_options::overwrite_existing);
  return file;
}

std::string ZooFolder::write(const std::string& name, std::string_view content) {
  return folder_.write("plugins/" + name, content).string();
}

PluginSetup ZooFolder::setup(Vetting vetting) const {
  PluginSetup setup;
  setup.folders = {{path(), "--plugin-dir"}};
  setup.services = zoo_services();
  setup.vetting = vetting;
  setup.vet_cache_file = "";
  setup.notice_file = "";
  return setup;
}

ServiceTable zoo_services() {
  ServiceTable services = {{TENON_STATUS_ID, status_service()},
                           {TENON_TENSOR_ID, tensor_service()},
                           {TENON_OP_ID, op_service()}};
  add_plugin_services(services);
  return services;
}

std::string read_text(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace tenon
