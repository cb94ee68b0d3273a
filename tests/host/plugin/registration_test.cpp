// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/registration.hpp"

#include "host/error/status.hpp"
#include "host/plugin/plugin_trial.hpp"

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

// What a plugin of the zoo is refused for, as vetting finds it: the entry runs in a child.
Verdict verdict_on(const std::string& name) {
  ZooFolder zoo;
  const PluginInfo plugin = inspect_plugin(zoo.add(name));
  REQUIRE(plugin.is_usable());
  const PluginInfo* const plugins[] = {&plugin};
  Verdict verdict = try_plugins(plugins, zoo_services(), std::chrono::seconds(60)).at(0);
  CHECK_THAT(verdict.message, contains_text(plugin.file + " (org.tenon.zoo." + name + " 1.0.0) "));
  return verdict;
}

}  // namespace

TEST_CASE("a plugin that registers less than its manifest lists is refused", "[plugin]") {
  const Verdict verdict = verdict_on("registers_less");
  CHECK(verdict.id == "plugin.components_differ");
  CHECK_THAT(verdict.message, contains_text("does not register loss:b, which its manifest lists"));
}

TEST_CASE("a plugin that registers more than its manifest lists is refused", "[plugin]") {
  const Verdict verdict = verdict_on("registers_more");
  CHECK(verdict.id == "plugin.components_differ");
  CHECK_THAT(verdict.message, contains_text("registers loss:b, which its manifest does not list"));
}

TEST_CASE("a plugin that registers a component twice is refused", "[plugin]") {
  const Verdict verdict = verdict_on("registers_twice");
  CHECK(verdict.id == "plugin.components_differ");
  CHECK_THAT(verdict.message, contains_text("registers loss:a twice"));
}

TEST_CASE("an error that the entry returns is told with its id and place", "[plugin]") {
  const Verdict verdict = verdict_on("refuses");
  CHECK(verdict.id == "plugin.entry_failed");
  CHECK_THAT(verdict.message,
             contains_text("refused to load: this plugin needs a GPU [zoo.no_gpu] at "
                           "refuses.c:"));
}

TEST_CASE("an exception that the entry lets out is told", "[plugin]") {
  const Verdict verdict = verdict_on("throws_in_entry");
  CHECK(verdict.id == "plugin.entry_failed");
  CHECK_THAT(verdict.message,
             contains_text("throws an exception from its entry (the zoo's entry failed)"));
}

TEST_CASE("a plugin whose entry chooses another ABI, or none, is refused", "[plugin]") {
  const Verdict other = verdict_on("speaks_other_abi");
  CHECK(other.id == "plugin.abi_mismatch");
  CHECK_THAT(
      other.message,
      contains_text("reports ABI 0.7 instead of the ABI in its manifest (0.5), host has 0.5; "
                    "rebuild it with SDK 0.5"));
  const Verdict none = verdict_on("speaks_no_abi");
  CHECK(none.id == "plugin.abi_mismatch");
  CHECK_THAT(none.message, contains_text("set out_abi_minor to TENON_ABI_MINOR"));
}

TEST_CASE("the ABI that an entry chooses must be one of the host and one of its manifest",
          "[plugin]") {
  // An entry has no argument of its own, so it reads this.
  static uint32_t chosen = 0;
  static tenon_entry_args given{};
  const auto entry = [](tenon_entry_args* args) -> tenon_status* {
    given = *args;
    args->out_abi_minor = chosen;
    return nullptr;
  };
  const auto message_of = [&](const AbiRange& abi, uint32_t minor) {
    const Manifest manifest{.id = "org.tenon.fake",
                            .version = "1.0.0",
                            .abi = abi,
                            .lane = "stable",
                            .torch = "",
                            .components = {}};
    LoadedPlugin plugin({"org.tenon.fake", "1.0.0", "fake.so"}, zoo_services());
    chosen = minor;
    try {
      run_entry(entry, manifest, plugin);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  constexpr uint32_t kNewest = TENON_ABI_MINOR;
  const auto name_of = [](uint32_t minor) { return "0." + std::to_string(minor); };
  const std::string refused = "[plugin.abi_mismatch] fake.so (org.tenon.fake 1.0.0) reports ABI ";
  const std::string host = ", host has " TENON_ABI_STRING "; ";
  const std::string choose =
      "choose an out_abi_minor from abi_minor_min to abi_minor_max in its entry";
  const AbiRange wide{.major = 0, .min_minor = kNewest - 1, .max_minor = kNewest + 2};
  CHECK(message_of(kHostAbi, kNewest).empty());
  CHECK(message_of(wide, kNewest).empty());
  CHECK(given.abi_major == TENON_ABI_MAJOR);
  CHECK(given.abi_minor_min == kOldestMinor);
  CHECK(given.abi_minor_max == TENON_ABI_MINOR);
  CHECK(message_of(wide, kNewest + 2) == refused + name_of(kNewest + 2) + host + choose);
  CHECK(message_of(wide, kNewest - 1) == refused + name_of(kNewest - 1) + host + choose);
  CHECK(message_of(wide, kNewest + 3) == refused + name_of(kNewest + 3) +
                                             " instead of the ABI in its manifest (" +
                                             name_of(kNewest - 1) + " to " + name_of(kNewest + 2) +
                                             ")" + host + "rebuild it with SDK " TENON_ABI_STRING);
  // The host has it, but the manifest does not.
  const AbiRange newer{.major = 0, .min_minor = kNewest + 1, .max_minor = kNewest + 2};
  CHECK_THAT(message_of(newer, kNewest),
             contains_text(refused + TENON_ABI_STRING " instead of the ABI in its manifest"));
}

TEST_CASE(
    "a component that lacks something is refused by name, whatever the plugin does with the "
    "host's answer",
    "[plugin]") {
  const struct {
    const char* plugin;
    const char* id;
    const char* text;
  } kCases[] = {
      {"no_destroy", "plugin.missing_interface", "registers loss:zoo without its \"destroy\""},
      {"small_component", "plugin.missing_interface", "registers loss:zoo without its \"destroy\""},
      {"no_type", "plugin.missing_interface", "registers a component without kind or type"},
      {"other_interface",
       "plugin.missing_interface",
       "registers loss:zoo with the interface tenon.loss/9, host has tenon.loss/1"},
      {"rubbish_table", "plugin.missing_interface", "struct_size is 18446744073709551615"},
      {"odd_table", "plugin.missing_interface", "struct_size is 0"},
      {"schema_no_json", "plugin.bad_schema", "an option schema that is not JSON"},
      {"schema_of_list", "plugin.bad_schema", "an option schema that does not describe an object"},
  };
  for (const auto& one : kCases) {
    CAPTURE(one.plugin);
    const Verdict verdict = verdict_on(one.plugin);
    CHECK(verdict.id == one.id);
    CHECK_THAT(verdict.message, contains_text(one.text));
  }
}

TEST_CASE("registering nothing at all is an error, not a crash", "[plugin]") {
  const Manifest manifest{.id = "org.tenon.fake",
                          .version = "1.0.0",
                          .abi = kHostAbi,
                          .lane = "stable",
                          .torch = "",
                          .components = {{"loss", "a"}}};
  LoadedPlugin plugin({"org.tenon.fake", "1.0.0", "fake.so"}, zoo_services());
  const auto entry = [](tenon_entry_args* args) -> tenon_status* {
    args->out_abi_minor = TENON_ABI_MINOR;
    tenon_status* const no_registrar = args->register_component(nullptr, nullptr);
    const uint32_t code = status_service()->code(no_registrar);
    release(no_registrar);
    return code == TENON_INVALID ? args->register_component(args->registrar, nullptr) : nullptr;
  };
  try {
    run_entry(entry, manifest, plugin);
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK(error.id() == "plugin.missing_interface");
  }
}
