// SPDX-License-Identifier: Apache-2.0
//
// Files that say which plugins are loaded, and are nearly right: plugins.lock and a trust file. A
// case is the text of one of them, and both readers read it.
#include "host/trust/plugin_lock.hpp"
#include "host/trust/trusted_keys.hpp"

#include <nlohmann/json.hpp>

#include <fstream>

#include "tests/fuzz/json_cases.hpp"
#include "tests/fuzz/judge_error.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

const std::string& fuzzed_file() {
  static const ScratchFolder folder;
  static const std::string file = (folder.path() / "plugins.lock").string();
  return file;
}

std::string seed_lock() {
  PluginLock lock{.abi = "0.4", .plugins = {}};
  for (const char* const id : {"org.tenon.mse", "org.tenon.sgd"}) {
    lock.plugins.push_back({.id = id,
                            .version = "0.1.0",
                            .sha256 = std::string(64, 'a'),
                            .file = "a.so",
                            .components = {"loss:mse"},
                            .recipes = {"a.json", "b.json"}});
  }
  write_plugin_lock(fuzzed_file(), lock);
  return read_corpus_file(fuzzed_file());
}

std::string seed_trust() {
  return "# keys\nteam MCowBQYDK2VwAyEAAwxdCI+dTc79/MtnikUHic5E35bgINK/qKjp8OvEgz8=\n";
}

std::string make_case(Mutator& mutator) {
  static const JsonCases locks({seed_lock()});
  return mutator.one_in(3) ? mutator.mutated(seed_trust(), {"\n", "=", " "}, {seed_trust()})
                           : locks.make(mutator);
}

std::string judge_lock() {
  return outcome_of([] {
    const PluginLock lock = read_plugin_lock(fuzzed_file()).value();
    const std::vector<std::string> differences = lock_differences(lock, "a.json", {});
    for (const std::string& text : differences) {
      (void)Error("plugin.lock_differs", text).what();
    }
    write_plugin_lock(fuzzed_file(), lock);
    const PluginLock again = read_plugin_lock(fuzzed_file()).value();
    if (again.abi != lock.abi || again.plugins.size() != lock.plugins.size() ||
        lock_differences(again, "a.json", {}) != differences) {
      throw FuzzFinding("a lock differs when it is written and read again");
    }
  });
}

std::string judge_case(const std::string& text) {
  std::ofstream(fuzzed_file(), std::ios::binary | std::ios::trunc) << text;
  const std::string trust = outcome_of([] {
    if (TrustedKeys::read(fuzzed_file()).signer_of("", std::string(64, '\0'))) {
      throw FuzzFinding("a signature of zeros is accepted");
    }
  });
  const std::string lock = judge_lock();
  return trust == kFuzzAccepted ? trust : lock;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::use_memory_for_scratch();
  return tenon::run_fuzz(
      argc,
      argv,
      {.name = "plugin_trust_fuzz", .make = tenon::make_case, .judge = tenon::judge_case});
}
