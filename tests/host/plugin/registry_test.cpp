// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/registry.hpp"

#include <tenon/abi.h>

#include "host/io/content_hash.hpp"
#include "host/log/log.hpp"
#include "host/trust/vet_cache.hpp"

#include <elf.h>
#include <filesystem>
#include <optional>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/signer.hpp"

using namespace tenon;

namespace {

template <class Answer>
Answer find_as(PluginRegistry& registry, std::string_view kind, std::string_view name) {
  FindResult result = registry.find(kind, name);
  REQUIRE(std::holds_alternative<Answer>(result));
  return std::get<Answer>(std::move(result));
}

std::string error_of(PluginRegistry& registry, std::string_view kind, std::string_view name) {
  try {
    registry.get(kind, name);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// The lines that are logged while it lives.
class LogCapture {
 public:
  explicit LogCapture(const std::string& file) : file_(file) {
    set_up_log({.terminal = false, .file = file});
  }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  ~LogCapture() { set_up_log({}); }
  std::string text() const {
    flush_log();
    return read_text(file_);
  }

 private:
  std::string file_;
};

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a plugin that is swapped between its vetting and its loading is refused", "[plugin]") {
  ZooFolder zoo;
  const std::string file = zoo.add("good_c");
  PluginRegistry registry(zoo.setup());
  REQUIRE(registry.plugins().front().is_usable());
  const std::string bytes = read_text(file);
  std::filesystem::remove(file);
  zoo.write("good_c.so", bytes + "x");
  const ComponentName& component = registry.plugins().front().manifest.components.front();
  CHECK_THAT(error_of(registry, component.kind, component.type),
             contains_text("[plugin.changed] " + file));
}

TEST_CASE("a component is found by kind and type, and its plugin loaded", "[plugin]") {
  ZooFolder zoo;
  zoo.add("good_c");
  PluginRegistry registry(zoo.setup());
  const LoadedComponent& loss = registry.get("loss", "half_square");
  CHECK(loss.type == "half_square");
  CHECK(loss.summary == "half the squared difference, in plain C");
  CHECK_THAT(loss.options_schema, contains_text("\"scale\""));
  CHECK(loss.plugin->host.context().id == "org.tenon.zoo.good_c");
  CHECK(loss.plugin->host.context().file == zoo.path_of("good_c"));
  CHECK(&registry.get("loss", "org.tenon.zoo.good_c/half_square") == &loss);
  CHECK(registry.get("hook", "step_counter").plugin == loss.plugin);
  CHECK(registry.find_plugin("org.tenon.zoo.good_c")->is_usable());
  CHECK(registry.find_plugin("org.tenon.zoo.other") == nullptr);
}

TEST_CASE("a type that nobody offers is answered with those that are offered", "[plugin]") {
  ZooFolder zoo;
  zoo.add("good_c");
  PluginRegistry registry(zoo.setup());
  CHECK(find_as<UnknownComponent>(registry, "loss", "half_sqare").offered ==
        std::vector<std::string>{"half_square"});
  CHECK(find_as<UnknownComponent>(registry, "model", "half_square").offered.empty());
  CHECK(find_as<UnknownComponent>(registry, "loss", "org.tenon.other/half_square").offered.size() ==
        1);
  CHECK(error_of(registry, "loss", "x") ==
        "[recipe.unknown_type] no plugin in " + zoo.path() + " (--plugin-dir) offers loss \"x\"");
}

TEST_CASE("a type that two plugins offer is ambiguous until one is named", "[plugin]") {
  ZooFolder zoo;
  zoo.add("same_type_1");
  zoo.add("same_type_2");
  PluginRegistry registry(zoo.setup());
  const auto answer = find_as<AmbiguousComponent>(registry, "loss", "half_square");
  REQUIRE(answer.offered_by.size() == 2);
  CHECK(answer.offered_by[0]->file == zoo.path_of("same_type_1"));
  CHECK(answer.offered_by[1]->manifest.id == "org.tenon.zoo.same_type_2");
  const std::string error = error_of(registry, "loss", "half_square");
  CHECK_THAT(error, contains_text("[recipe.ambiguous_type] loss \"half_square\" is offered by"));
  CHECK_THAT(error, contains_text("same_type_1.so (org.tenon.zoo.same_type_1 1.0.0), "));

  const LoadedComponent& second = registry.get("loss", "org.tenon.zoo.same_type_2/half_square");
  CHECK(second.plugin->host.context().id == "org.tenon.zoo.same_type_2");
  CHECK(registry.types_of("loss") ==
        std::vector<std::string>{"one",
                                 "org.tenon.zoo.same_type_1/half_square",
                                 "org.tenon.zoo.same_type_2/half_square",
                                 "two"});
}

TEST_CASE("a plugin that is not needed and crashes costs one line", "[plugin]") {
  ZooFolder zoo;
  zoo.add("good_c");
  zoo.add("crashes_in_entry");
  const LogCapture log(zoo.log_file());
  PluginRegistry registry(zoo.setup());
  registry.warn_of_refused();
  CHECK(count_of(log.text(), "[plugin.crashed] " + zoo.path_of("crashes_in_entry")) == 1);
  CHECK(count_of(log.text(), "\n") == 1);
  CHECK(registry.get("loss", "half_square").type == "half_square");
}

TEST_CASE("a plugin that is needed and refused is an error with its reason", "[plugin]") {
  ZooFolder zoo;
  zoo.add("crashes_in_entry");
  PluginRegistry registry(zoo.setup());
  const auto answer = find_as<RefusedComponent>(registry, "loss", "zoo");
  CHECK(answer.plugin->file == zoo.path_of("crashes_in_entry"));
  CHECK(answer.plugin->refusal->id() == "plugin.crashed");
  CHECK(answer.plugin->refusal->exit_code() == ExitCode::kPlugin);
  CHECK_THAT(answer.plugin->details, contains_text("tenon_plugin_entry"));
  CHECK_THAT(error_of(registry, "loss", "zoo"), contains_text("[plugin.crashed] " + zoo.path()));
  CHECK(registry.types_of("loss").empty());
}

TEST_CASE("a plugin that is refused does not make a type ambiguous", "[plugin]") {
  ZooFolder zoo;
  zoo.add("crashes_in_entry");
  zoo.add("registers_zoo");  // both offer loss:zoo
  PluginRegistry registry(zoo.setup());
  CHECK(registry.get("loss", "zoo").plugin->host.context().id == "org.tenon.zoo.registers_zoo");
}

TEST_CASE("two files with one id cost one line, or an error where they are needed", "[plugin]") {
  ZooFolder zoo;
  zoo.add("same_id_1");
  zoo.add("same_id_2");
  const LogCapture log(zoo.log_file());
  PluginRegistry registry(zoo.setup());
  registry.warn_of_refused();
  CHECK(count_of(log.text(), "[plugin.duplicate_id]") == 1);
  CHECK_THAT(error_of(registry, "loss", "a"), contains_text("[plugin.duplicate_id]"));
}

TEST_CASE("a copy of a plugin is neither ambiguous nor told of", "[plugin]") {
  ZooFolder zoo;
  zoo.add("same_type_1", "a");
  zoo.add("same_type_1", "b");
  const LogCapture log(zoo.log_file());
  PluginRegistry registry(zoo.setup());
  CHECK(registry.get("loss", "one").plugin->host.context().file == zoo.path_of("a"));
  CHECK(log.text().empty());
  CHECK(registry.plugins().size() == 2);
}

TEST_CASE("listing runs no plugin, and describing one vets that one", "[plugin]") {
  ZooFolder zoo;
  zoo.add("hangs_in_entry");
  zoo.add("crashes_in_entry");
  zoo.add("same_type_2");
  PluginRegistry registry(zoo.setup(Vetting::kOnDemand));
  for (const PluginInfo& plugin : registry.plugins()) {
    CHECK(plugin.is_usable());
  }
  CHECK(registry.get("loss", "two").type == "two");
  CHECK_THAT(error_of(registry, "loss", "org.tenon.zoo.crashes_in_entry/zoo"),
             contains_text("[plugin.crashed]"));
}

TEST_CASE("what was vetted once is not vetted again", "[plugin]") {
  ZooFolder zoo;
  const std::string file = zoo.add("crashes_in_entry");
  PluginSetup setup = zoo.setup();
  setup.vet_cache_file = zoo.cache_file();
  PluginRegistry first(setup);
  const std::string message = first.plugins()[0].refusal->what();
  REQUIRE(std::filesystem::exists(zoo.cache_file()));

  // A verdict that no child could come to shows where it is from.
  VetCache cache(
      zoo.cache_file(),
      host_build_id() + " abi " TENON_ABI_STRING " torch " + setup.rules.torch_fingerprint);
  std::optional<Verdict> verdict = cache.find(file);
  REQUIRE(verdict);
  verdict->message = file + " crashed; forget or remove it";
  cache.store(file, file_stamp(file).value(), *verdict);
  cache.save();
  PluginRegistry second(setup);
  CHECK_THAT(second.plugins()[0].refusal->what(), contains_text("forget or remove it (cached"));

  // Whoever asks for a new check gets one, and later starts get its result.
  setup.ignores_vet_cache = true;
  PluginRegistry checked(setup);
  CHECK(checked.plugins()[0].refusal->what() == message);
  setup.ignores_vet_cache = false;
  PluginRegistry later(setup);
  CHECK_THAT(later.plugins()[0].refusal->what(), contains_text(message + " (cached since "));

  setup.vet_cache_file = "";
  PluginRegistry third(setup);
  CHECK(third.plugins()[0].refusal->what() == message);
}

TEST_CASE("a file that is no plugin is named once, until it changes", "[plugin]") {
  ZooFolder zoo;
  const std::string good = read_text(zoo.add("good_c"));
  const std::string text = zoo.write("a_text.so", "INPUT(-lother)\n");
  std::string narrow = good;
  narrow[EI_CLASS] = ELFCLASS32;
  const std::string narrow_file = zoo.write("b_narrow.so", narrow);
  const std::string cut = zoo.write("c_cut.so", good.substr(0, good.size() / 2));
  zoo.add("no_manifest");  // a library that may belong to a plugin
  PluginSetup setup = zoo.setup(Vetting::kNone);
  setup.notice_file = zoo.notice_file();
  const auto lines_of_start = [&] {
    const LogCapture log(zoo.log_file());
    PluginRegistry(setup).warn_of_refused();
    const std::string lines = log.text();
    std::filesystem::remove(zoo.log_file());
    return lines;
  };
  const std::string first = lines_of_start();
  CHECK(count_of(first, "\n") == 3);
  CHECK(count_of(first, text + " is not a plugin: it is not a shared library") == 1);
  CHECK(count_of(first, narrow_file + " is not a plugin: it is not for 64-bit") == 1);
  CHECK(count_of(first, "[plugin.bad_manifest] " + cut) == 1);
  CHECK(lines_of_start() == "");

  // An error that it may have caused names it each time.
  PluginRegistry registry(setup);
  CHECK_THAT(error_of(registry, "loss", "x"), contains_text("[plugin.bad_manifest] " + cut));

  zoo.write("a_text.so", "INPUT(-lanother)\n");
  const std::string changed = lines_of_start();
  CHECK(count_of(changed, "\n") == 1);
  CHECK(count_of(changed, text) == 1);
}

TEST_CASE("no code of a plugin runs that no trusted key has signed", "[plugin]") {
  ZooFolder zoo;
  const Signer team;
  const std::string crashing = zoo.add("crashes_in_entry");
  const std::string good = zoo.add("good_c");
  zoo.write("good_c.so.sig", team.sign(read_text(good)));
  PluginSetup setup = zoo.setup();
  setup.vet_cache_file = zoo.cache_file();
  PluginRegistry untrusting(setup);  // caches a verdict on the file as it is
  CHECK(untrusting.find_plugin("org.tenon.zoo.crashes_in_entry")->refusal->id() ==
        "plugin.crashed");
  setup.rules.trust = TrustedKeys::read(zoo.write("../trusted-keys", "team " + team.public_key()));
  PluginRegistry registry(setup);
  const PluginInfo* const refused = registry.find_plugin("org.tenon.zoo.crashes_in_entry");
  CHECK(refused->refusal->id() == "plugin.untrusted");
  CHECK(refused->details.empty());
  CHECK(registry.get("loss", "half_square").plugin->hash ==
        registry.find_plugin("org.tenon.zoo.good_c")->hash);
}

TEST_CASE("a plugin that is swapped after its signature was verified is refused", "[plugin]") {
  for (const Vetting vetting : {Vetting::kOnDemand, Vetting::kNone}) {
    ZooFolder zoo;
    const Signer team;
    const std::string file = zoo.add("same_type_1");
    zoo.write("same_type_1.so.sig", team.sign(read_text(file)));
    PluginSetup setup = zoo.setup(vetting);
    setup.vet_cache_file = zoo.cache_file();
    setup.rules.trust =
        TrustedKeys::read(zoo.write("../trusted-keys", "team " + team.public_key()));
    PluginRegistry registry(setup);
    REQUIRE(registry.plugins().front().is_usable());

    // A plugin that was vetted as good, by a start without a trust file.
    const std::string signed_bytes = read_text(file);
    std::filesystem::remove(file);
    zoo.write("same_type_1.so", signed_bytes + "x");
    PluginSetup untrusting = zoo.setup();
    untrusting.vet_cache_file = zoo.cache_file();
    CHECK(PluginRegistry(untrusting).plugins().front().is_usable());
    CHECK_THAT(error_of(registry, "loss", "one"), contains_text("[plugin.changed] " + file));
  }
}

TEST_CASE("without any folder nothing is found, and that is said", "[plugin]") {
  PluginSetup setup;
  setup.vet_cache_file = "";
  setup.notice_file = "";
  PluginRegistry registry(setup);
  CHECK(registry.describe_folders() == "no plugin folder");
  CHECK(registry.plugins().empty());
}
