// SPDX-License-Identifier: Apache-2.0
//
// Storages in plugins: the example of docs/plugin-guide/storage.md held to the contract, and what
// the host makes of plugins that do not keep it.
#include <tenon/draft/storage.h>

#include "host/checkpoint/plugin_storage.hpp"

#include <memory>
#include <string>
#include <vector>

#include "tests/host/checkpoint/storage_contract.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

// A table whose functions do nothing, but for those a test sets.
tenon_storage idle_table() {
  const auto change = [](void*, const tenon_storage_checkpoint_args*) -> tenon_status* {
    return nullptr;
  };
  const auto list = [](void*, const tenon_storage_list_args*) -> tenon_status* { return nullptr; };
  return {sizeof(tenon_storage),
          [](void*, const tenon_storage_connect_args*) -> tenon_status* { return nullptr; },
          [](void*, const tenon_storage_open_args*) -> tenon_status* { return nullptr; },
          [](void*, tenon_storage_create_args*) -> tenon_status* { return nullptr; },
          [](void*, const tenon_storage_write_args*) -> tenon_status* { return nullptr; },
          [](void*, const tenon_storage_close_args*) -> tenon_status* { return nullptr; },
          change,
          change,
          list,
          list,
          [](void*, tenon_storage_size_args*) -> tenon_status* { return nullptr; },
          [](void*, const tenon_storage_read_args*) -> tenon_status* { return nullptr; },
          change,
          list};
}

PluginStorage storage_of(const tenon_storage& table) {
  static int self = 0;
  return {made_instance("storage", TENON_STORAGE_ID, &table, &self), "run/checkpoints"};
}

// A status with the code that `self` points to.
tenon_status* failed(uint32_t code) {
  return make_status(nullptr, code, "made.failed", "memory:/a: the disk said no");
}

}  // namespace

TEST_CASE("the storage of the guide keeps the contract", "[plugins][checkpoint]") {
  static int number = 0;
  const std::string location = "run-" + std::to_string(++number) + "/checkpoints";
  check_storage_contract([&] {
    return std::make_unique<PluginStorage>(make_component("storage", "memory_storage"), location);
  });
}

TEST_CASE("the storage of the templates keeps the contract", "[plugins][checkpoint]") {
  const ScratchFolder scratch;
  const std::string options = R"({"folder": ")" + scratch.path().string() + R"("})";
  check_storage_contract([&] {
    return std::make_unique<PluginStorage>(make_component("storage", "folder_storage", options),
                                           "run/checkpoints");
  });
}

TEST_CASE("two places of a storage in a plugin do not see each other", "[plugins][checkpoint]") {
  PluginStorage one(make_component("storage", "memory_storage"), "one/checkpoints");
  PluginStorage two(make_component("storage", "memory_storage"), "two/checkpoints");
  save_checkpoint(one, "step-1", 1);
  CHECK(two.list().empty());
  check_checkpoint(one, "step-1", 1);
}

TEST_CASE("what a storage in a plugin reports are errors of storages, with its words",
          "[plugins][checkpoint]") {
  tenon_storage table = idle_table();
  table.open = [](void*, const tenon_storage_open_args*) { return failed(TENON_EXISTS); };
  table.commit = [](void*, const tenon_storage_checkpoint_args*) { return failed(TENON_IO); };
  table.abort = [](void*, const tenon_storage_checkpoint_args*) { return failed(TENON_TIMEOUT); };
  table.list_files = [](void*, const tenon_storage_list_args*) { return failed(TENON_NOT_FOUND); };
  table.file_size = [](void*, tenon_storage_size_args*) { return failed(TENON_DATA_LOSS); };
  table.remove = [](void*, const tenon_storage_checkpoint_args*) { return failed(TENON_INTERNAL); };
  PluginStorage storage = storage_of(table);
  for (const auto& [error, id] :
       {std::pair{error_of([&] { storage.open("a", true); }), "storage.exists"},
        std::pair{error_of([&] { storage.commit("a"); }), "storage.io"},
        std::pair{error_of([&] { storage.abort("a"); }), "storage.io"},
        std::pair{error_of([&] { storage.list_files("a"); }), "storage.not_found"},
        std::pair{error_of([&] { storage.file_size("a", "b"); }), "storage.io"},
        std::pair{error_of([&] { storage.remove("a"); }), "plugin.failed"}}) {
    CHECK_THAT(error, contains_text("[" + std::string(id) + "]"));
    CHECK_THAT(error, contains_text("the disk said no"));
    CHECK_THAT(error, contains_text("storage \"made\""));
  }
}

TEST_CASE("a storage in a plugin that lacks a function, a file or an address is told",
          "[plugins][checkpoint]") {
  tenon_storage table = idle_table();
  {
    PluginStorage storage = storage_of(table);
    CHECK_THAT(error_of([&] { storage.create_file("a", "b"); }),
               contains_text("create_file returned no file"));
    CHECK_THAT(error_of([&] { storage.address("a"); }), contains_text("returned 0 names"));
  }
  table.remove = nullptr;
  CHECK_THAT(error_of([&] { storage_of(table); }), contains_text("[plugin.missing_interface]"));
}

TEST_CASE("names that no bundle can have are never seen, whatever a plugin lists",
          "[plugins][checkpoint]") {
  tenon_storage table = idle_table();
  table.list = [](void*, const tenon_storage_list_args* args) -> tenon_status* {
    for (const char* name : {"step-1", "../step-1", "a/b", ".hidden", "step-2"}) {
      if (tenon_status* status = args->sink(args->context, name); status != nullptr) {
        return status;
      }
    }
    return nullptr;
  };
  CHECK(storage_of(table).list() == std::vector<std::string>{"step-1", "step-2"});
}

}  // namespace tenon
