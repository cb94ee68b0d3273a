// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/registration.hpp"

#include "host/error/status.hpp"
#include "host/plugin/abi_range.hpp"
#include "host/plugin/call_watch.hpp"
#include "host/plugin/kinds.hpp"
#include "host/tensor/sized_struct.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <string>

namespace tenon {
namespace {

std::string describe(const PluginContext& plugin) {
  return plugin.file + " (" + plugin.id + " " + plugin.version + ")";
}

class Registration {
 public:
  Registration(const Manifest& manifest, LoadedPlugin& plugin)
      : manifest_(manifest), plugin_(plugin) {}

  // The `register_component` of tenon_entry_args.
  static tenon_status* add(void* registrar, const tenon_component* component) {
    if (registrar == nullptr) {
      return make_status(nullptr,
                         TENON_INVALID,
                         "plugin.null_argument",
                         "register_component was called without a registrar");
    }
    auto& self = *static_cast<Registration*>(registrar);
    return guard(self.plugin_.host.abi(), [&] {
      try {
        self.plugin_.components.push_back(self.checked(component));
      } catch (const Error& error) {
        // Stored, because the plugin may ignore the status.
        if (!self.problem_) {
          self.problem_ = error;
        }
        throw;
      }
    });
  }

  const std::optional<Error>& problem() const { return problem_; }

  // Throws if the manifest lists a component that was not registered.
  void check_complete() const {
    for (const ComponentName& name : manifest_.components) {
      if (!is_registered(name)) {
        fail("plugin.components_differ",
             "does not register " + name.kind + ":" + name.type +
                 ", which its manifest lists; name the same components in both");
      }
    }
  }

  [[noreturn]] void fail(const char* id, const std::string& what) const {
    throw Error(id, describe(plugin_.host.context()) + " " + what);
  }

 private:
  bool is_registered(const ComponentName& name) const {
    return std::ranges::any_of(plugin_.components, [&](const LoadedComponent& component) {
      return component.kind == name.kind && component.type == name.type;
    });
  }

  LoadedComponent checked(const tenon_component* component) const {
    if (component != nullptr) {
      const std::string problem = size_problem(
          "tenon_component", component->struct_size, TENON_END_OF(tenon_component, type));
      if (!problem.empty()) {
        fail("plugin.bad_struct", "registers a component whose " + problem);
      }
    }
    // Kind and type first, so that later messages can name the component.
    if (!TENON_HAS(tenon_component, component, kind) ||
        !TENON_HAS(tenon_component, component, type)) {
      fail("plugin.missing_interface", "registers a component without kind or type");
    }
    const ComponentName name{component->kind, component->type};
    const std::string text = name.kind + ":" + name.type;
    if (std::ranges::find(manifest_.components, name) == manifest_.components.end()) {
      fail("plugin.components_differ",
           "registers " + text +
               ", which its manifest does not list; name the same components in both");
    }
    if (is_registered(name)) {
      fail("plugin.components_differ", "registers " + text + " twice");
    }
    const bool has_all[] = {TENON_HAS(tenon_component, component, interface_id),
                            TENON_HAS(tenon_component, component, table),
                            TENON_HAS(tenon_component, component, options_schema),
                            TENON_HAS(tenon_component, component, create),
                            TENON_HAS(tenon_component, component, destroy)};
    constexpr const char* kNames[] = {
        "interface_id", "table", "options_schema", "create", "destroy"};
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      if (!has_all[i]) {
        fail("plugin.missing_interface",
             "registers " + text + " without its \"" + kNames[i] +
                 "\"; set it in its tenon_component");
      }
    }
    const Interface interface = checked_interface(*component, text);
    check_schema(component->options_schema, text);
    return {.plugin = &plugin_,
            .descriptor = component,
            .kind = name.kind,
            .type = name.type,
            .interface_id = interface.id,
            .table = interface.table,
            .summary = TENON_HAS(tenon_component, component, summary) ? component->summary : "",
            .options_schema = component->options_schema};
  }

  struct Interface {
    const char* id;
    const void* table;
  };

  // Returns the table of the interface that this host uses for the kind.
  Interface checked_interface(const tenon_component& component, const std::string& text) const {
    // The scan has already refused manifests with unknown kinds.
    const char* const wanted = find_kind(component.kind)->interface_id.data();  // a literal
    Interface interface { wanted, component.table };
    if (std::strcmp(component.interface_id, wanted) != 0) {
      const tenon_component* const given = &component;
      const CallScope scope(plugin_.itself, "get_table");
      interface.table =
          TENON_HAS(tenon_component, given, get_table) ? component.get_table(wanted) : nullptr;
    }
    if (interface.table == nullptr) {
      fail("plugin.missing_interface",
           "registers " + text + " with the interface " + component.interface_id + ", host has " +
               wanted + "; rebuild it with SDK " TENON_ABI_STRING);
    }
    const auto address = reinterpret_cast<uintptr_t>(interface.table);
    const std::size_t size =
        address % alignof(std::size_t) == 0 ? *static_cast<const std::size_t*>(interface.table) : 0;
    if (size < sizeof(std::size_t) + sizeof(void*) || size > TENON_MAX_STRUCT_SIZE ||
        size % sizeof(void*) != 0) {
      fail("plugin.missing_interface",
           formatted("registers {} with a table whose struct_size is {}; set it to the sizeof of "
                     "the table",
                     text,
                     size));
    }
    return interface;
  }

  void check_schema(const char* schema, const std::string& text) const {
    const auto json = nlohmann::json::parse(schema, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) {
      fail("plugin.bad_schema", "registers " + text + " with an option schema that is not JSON");
    }
    const auto member_is = [&](const char* key, auto&& is_right) {
      const auto found = json.find(key);
      return found == json.end() || is_right(*found);
    };
    const bool is_of_object =
        json.is_object() &&
        member_is("type", [](const nlohmann::json& type) { return type == "object"; }) &&
        member_is("properties", [](const nlohmann::json& all) { return all.is_object(); });
    if (!is_of_object) {
      fail("plugin.bad_schema",
           "registers " + text + " with an option schema that does not describe an object");
    }
  }

  const Manifest& manifest_;
  LoadedPlugin& plugin_;
  std::optional<Error> problem_;
};

// Throws unless both this host and the manifest support the version that the entry chose.
void check_version(uint32_t minor, const Manifest& manifest, const Registration& registration) {
  constexpr const char* kId = "plugin.abi_mismatch";
  if (minor == UINT32_MAX) {
    registration.fail(kId,
                      "does not report its ABI; set out_abi_minor to TENON_ABI_MINOR in its entry");
  }
  if (!manifest.abi.contains(minor)) {
    registration.fail(kId,
                      formatted("reports ABI {}.{} instead of the ABI in its manifest ({}), host "
                                "has {}; rebuild it with SDK " TENON_ABI_STRING,
                                manifest.abi.major,
                                minor,
                                manifest.abi.text(" to "),
                                kHostAbi.text(" to ")));
  }
  if (!kHostAbi.contains(minor)) {
    registration.fail(kId,
                      formatted("reports ABI {}.{}, host has {}; choose an out_abi_minor from "
                                "abi_minor_min to abi_minor_max in its entry",
                                manifest.abi.major,
                                minor,
                                kHostAbi.text(" to ")));
  }
}

std::string text_of(const StatusText& status) {
  std::string text = status.message.empty() ? "no message" : status.message;
  if (!status.id.empty()) {
    text += " [" + status.id + "]";
  }
  if (!status.file.empty()) {
    text += formatted(" at {}:{}", status.file.substr(status.file.rfind('/') + 1), status.line);
  }
  return text;
}

}  // namespace

void run_entry(PluginEntry entry,
               const Manifest& manifest,
               LoadedPlugin& plugin,
               const EntryOffer& offer) {
  constexpr auto kFill = std::byte{0xA5};
  Registration registration(manifest, plugin);
  struct {
    tenon_entry_args args;
    std::array<std::byte, 256> beyond;
  } space{};
  space.beyond.fill(kFill);
  tenon_entry_args& args = space.args;
  args.struct_size = sizeof(args) + offer.later_bytes;
  args.abi_major = kHostAbi.major;
  args.abi_minor_min = kHostAbi.min_minor;
  args.abi_minor_max = offer.newest_minor;
  args.out_abi_minor = UINT32_MAX;  // a value that no plugin can choose
  args.host = plugin.host.abi();
  args.registrar = &registration;
  args.register_component = Registration::add;
  tenon_status* status_own = nullptr;
  try {
    const CallScope scope(plugin.itself, TENON_ENTRY_SYMBOL);
    // The address of the whole, so that the compiler expects writes to `beyond`.
    status_own = entry(reinterpret_cast<tenon_entry_args*>(&space));
  } catch (const std::exception& error) {
    // The ABI forbids exceptions, but they can be caught if plugin and host share a C++ runtime.
    registration.fail("plugin.entry_failed",
                      "throws an exception from its entry (" + std::string(error.what()) +
                          "); return a status instead");
  }
  const StatusText status = take(status_own);

  // A problem that the host found has priority: the plugin's status may only pass it on.
  if (registration.problem()) {
    throw *registration.problem();
  }
  if (!status.ok()) {
    registration.fail("plugin.entry_failed", "refused to load: " + text_of(status));
  }
  if (std::ranges::any_of(space.beyond, [](std::byte byte) { return byte != kFill; })) {
    registration.fail("plugin.bad_struct",
                      formatted("writes past the {} bytes of tenon_entry_args in its entry; write "
                                "only fields that TENON_HAS_FIELD finds",
                                sizeof(args)));
  }
  check_version(args.out_abi_minor, manifest, registration);
  registration.check_complete();
  plugin.shutdown = args.out_shutdown;
}

}  // namespace tenon
