// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/storage_proxy.hpp"

#include "host/plugin/interface_table.hpp"
#include "host/text/formatted.hpp"

#include <utility>

namespace tenon {
namespace {

// A tenon_names_sink that appends to a vector.
tenon_status* add_name(void* context, const char* name) noexcept {
  return guard(nullptr, [&] {
    static_cast<std::vector<std::string>*>(context)->emplace_back(name != nullptr ? name : "");
  });
}

}  // namespace

StorageProxy::StorageProxy(ComponentInstance instance)
    : instance_(std::move(instance)), table_(table_of<tenon_storage>(instance_, TENON_STORAGE_ID)) {
  const ComponentIdentity& identity = instance_.identity();
  TENON_REQUIRE(tenon_storage, table_, connect, TENON_STORAGE_ID, identity);
  TENON_REQUIRE(tenon_storage, table_, open, TENON_STORAGE_ID, identity);
  TENON_REQUIRE(tenon_storage, table_, create_file, TENON_STORAGE_ID, identity);
  TENON_REQUIRE(tenon_storage, table_, write, TENON_STORAGE_ID, identity);
  TENON_REQUIRE(tenon_storage, table_, close, TENON_STORAGE_ID, identity);
  TENON_REQUIRE(tenon_storage, table_, commit, TENON_STORAGE_ID, identity);
  TENON_REQUIRE(tenon_storage, table_, abort, TENON_STORAGE_ID, identity);
  TENON_REQUIRE(tenon_storage, table_, list, TENON_STORAGE_ID, identity);
  TENON_REQUIRE(tenon_storage, table_, list_files, TENON_STORAGE_ID, identity);
  TENON_REQUIRE(tenon_storage, table_, file_size, TENON_STORAGE_ID, identity);
  TENON_REQUIRE(tenon_storage, table_, read, TENON_STORAGE_ID, identity);
  TENON_REQUIRE(tenon_storage, table_, remove, TENON_STORAGE_ID, identity);
  TENON_REQUIRE(tenon_storage, table_, address, TENON_STORAGE_ID, identity);
}

tenon_storage_file* StorageProxy::create_file(const std::string& checkpoint,
                                              const std::string& file) const {
  tenon_storage_create_args args{.struct_size = sizeof(tenon_storage_create_args),
                                 .checkpoint = checkpoint.c_str(),
                                 .file = file.c_str(),
                                 .out_file_own = nullptr};
  instance_.call("create_file", [&] { return table_->create_file(instance_.self(), &args); });
  if (args.out_file_own == nullptr) {
    instance_.identity().fail_result("create_file returned no file");
  }
  return args.out_file_own;
}

std::vector<std::string> StorageProxy::names_of(
    const char* function,
    tenon_status* (*list)(void*, const tenon_storage_list_args*),
    const char* checkpoint) const {
  std::vector<std::string> names;
  const tenon_storage_list_args args{.struct_size = sizeof(tenon_storage_list_args),
                                     .checkpoint = checkpoint,
                                     .sink = add_name,
                                     .context = &names};
  instance_.call(function, [&] { return list(instance_.self(), &args); });
  return names;
}

std::vector<std::string> StorageProxy::list() const {
  return names_of("list", table_->list, nullptr);
}

std::vector<std::string> StorageProxy::list_files(const std::string& checkpoint) const {
  return names_of("list_files", table_->list_files, checkpoint.c_str());
}

uint64_t StorageProxy::file_size(const std::string& checkpoint, const std::string& file) const {
  tenon_storage_size_args args{.struct_size = sizeof(tenon_storage_size_args),
                               .checkpoint = checkpoint.c_str(),
                               .file = file.c_str(),
                               .out_size = 0};
  instance_.call("file_size", [&] { return table_->file_size(instance_.self(), &args); });
  return args.out_size;
}

std::string StorageProxy::address(const std::string& checkpoint) const {
  const std::vector<std::string> names = names_of("address", table_->address, checkpoint.c_str());
  if (names.size() != 1) {
    instance_.identity().fail_result(
        formatted("address returned {} names for a checkpoint, expected one", names.size()));
  }
  return names.front();
}

}  // namespace tenon
