// SPDX-License-Identifier: Apache-2.0
//
// Writes what plugins offer, with the schemas of their options, as a list in JSON: for the fuzz
// programs, which are built with sanitizers and therefore load no plugin.
//
//     fuzz_component_list FOLDER FILE
#include "host/cli/service_table.hpp"
#include "host/error/error.hpp"
#include "host/tools/docs/describe_component.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: fuzz_component_list FOLDER FILE\n";
    return 2;
  }
  try {
    tenon::PluginRegistry registry({.folders = {{argv[1], "the command line"}},
                                    .services = tenon::make_service_table(),
                                    .vetting = tenon::Vetting::kNone,
                                    .vet_cache_file = ""});
    nlohmann::json list = nlohmann::json::array();
    for (const tenon::PluginInfo& plugin : registry.plugins()) {
      for (const tenon::ComponentName& name : plugin.manifest.components) {
        const tenon::LoadedComponent& component = registry.get(name.kind, name.type);
        list.push_back(nlohmann::json::parse(tenon::component_json(component)));
      }
    }
    std::ofstream(argv[2]) << list.dump(2) << "\n";
    std::cout << list.size() << " components\n";
    return list.empty() ? 1 : 0;
  } catch (const tenon::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
