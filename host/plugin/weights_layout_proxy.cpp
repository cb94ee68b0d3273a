// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/weights_layout_proxy.hpp"

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/plugin/interface_table.hpp"
#include "host/plugin/options_service.hpp"
#include "host/tensor/sized_struct.hpp"

#include <algorithm>

namespace tenon {
namespace {

struct Collected {
  const tenon_host* host;
  LayoutDescription description;
  std::vector<LayoutDifference> differences;
};

[[noreturn]] void refuse(const std::string& what) {
  throw StatusError(TENON_INVALID, "plugin.bad_result", what);
}

std::string text_of(const char* text, const char* what) {
  if (text == nullptr) {
    refuse(std::string(what) + " is null");
  }
  return text;
}

void add_tensor(Collected& collected, const tenon_layout_tensor* theirs) {
  if (theirs == nullptr) {
    refuse("a tensor of a layout is null");
  }
  const tenon_layout_tensor tensor = read_sized(*theirs);
  collected.description.tensors.push_back(
      {.name = text_of(tensor.name, "the name of a layout's tensor"),
       .parameter = text_of(tensor.parameter, "the parameter of a layout's tensor"),
       .flags = tensor.flags,
       .first = tensor.first,
       .index = tensor.index});
}

void add_file(Collected& collected, const char* name, const char* text) {
  LayoutFile file{.name = text_of(name, "the name of a layout's file"),
                  .text = text_of(text, "the text of a layout's file")};
  auto& files = collected.description.files;
  if (file.name.empty() || file.name.front() == '.' || file.name.find('/') != std::string::npos) {
    refuse("'" + file.name + "' is not a valid file name next to the tensors");
  }
  if (std::ranges::find(files, file.name, &LayoutFile::name) != files.end()) {
    refuse("the file '" + file.name + "' is given twice");
  }
  files.push_back(std::move(file));
}

}  // namespace

std::optional<WeightsLayoutProxy> WeightsLayoutProxy::of(const ComponentInstance& instance) {
  const auto* const table =
      static_cast<const tenon_weights_layout*>(instance.extension(TENON_WEIGHTS_LAYOUT_ID));
  if (table == nullptr) {
    return std::nullopt;
  }
  const ComponentIdentity& identity = instance.identity();
  TENON_REQUIRE(tenon_weights_layout, table, describe, TENON_WEIGHTS_LAYOUT_ID, identity);
  TENON_REQUIRE(tenon_weights_layout, table, compare, TENON_WEIGHTS_LAYOUT_ID, identity);
  return WeightsLayoutProxy(instance, table);
}

LayoutDescription WeightsLayoutProxy::describe(const std::string& layout, uint32_t dtype) const {
  Collected collected{.host = instance_->host(), .description = {}, .differences = {}};
  tenon_layout_builder builder{};
  builder.struct_size = sizeof(builder);
  builder.impl = &collected;
  builder.add_tensor = [](tenon_layout_builder* b, const tenon_layout_tensor* tensor) {
    auto& into = *static_cast<Collected*>(b->impl);
    return guard(into.host, [&] { add_tensor(into, tensor); });
  };
  builder.add_file = [](tenon_layout_builder* b, const char* name, const char* text) {
    auto& into = *static_cast<Collected*>(b->impl);
    return guard(into.host, [&] { add_file(into, name, text); });
  };
  instance_->call("describe of the layout", [&] {
    return table_->describe(instance_->self(), layout.c_str(), dtype, &builder);
  });
  return std::move(collected.description);
}

std::vector<LayoutDifference> WeightsLayoutProxy::compare(const std::string& layout,
                                                          const std::string& config) const {
  const Options options(config, {}, instance_->identity());
  Collected collected{.host = instance_->host(), .description = {}, .differences = {}};
  tenon_layout_differences differences{};
  differences.struct_size = sizeof(differences);
  differences.impl = &collected;
  differences.add =
      [](tenon_layout_differences* d, const char* option, const char* here, const char* there) {
        auto& into = *static_cast<Collected*>(d->impl);
        return guard(into.host, [&] {
          into.differences.push_back({.option = text_of(option, "the option of a difference"),
                                      .here = text_of(here, "a value of a difference"),
                                      .there = text_of(there, "a value of a difference")});
        });
      };
  instance_->call("compare of the layout", [&] {
    return table_->compare(instance_->self(), layout.c_str(), options.abi(), &differences);
  });
  return std::move(collected.differences);
}

}  // namespace tenon
