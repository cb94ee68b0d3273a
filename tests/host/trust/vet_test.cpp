// SPDX-License-Identifier: Apache-2.0
#include "host/trust/vet.hpp"

#include "host/plugin/plugin_trial.hpp"

#include <csignal>
#include <cstdlib>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

// Long enough for any machine. Only what never ends may meet its end.
constexpr std::chrono::seconds kLong{60};

std::vector<Verdict> vet(const ZooFolder& zoo,
                         const std::vector<std::string>& names,
                         std::chrono::milliseconds timeout = kLong) {
  std::vector<PluginInfo> plugins;
  for (const std::string& name : names) {
    plugins.push_back(inspect_plugin(zoo.path_of(name)));
    REQUIRE(plugins.back().is_usable());
  }
  std::vector<const PluginInfo*> pointers;
  for (const PluginInfo& plugin : plugins) {
    pointers.push_back(&plugin);
  }
  return try_plugins(pointers, zoo_services(), timeout);
}

Verdict vet_one(const std::string& name, std::chrono::milliseconds timeout = kLong) {
  ZooFolder zoo;
  zoo.add(name);
  Verdict verdict = vet(zoo, {name}, timeout).at(0);
  const std::size_t folder = verdict.message.find(zoo.path());
  if (folder != std::string::npos) {  // it has another name each time
    verdict.message.erase(folder, zoo.path().size() + 1);
  }
  return verdict;
}

}  // namespace

TEST_CASE("a good plugin is found good", "[plugin]") {
  const Verdict verdict = vet_one("good_c");
  CHECK(verdict.is_good());
  CHECK(verdict.message.empty());
}

TEST_CASE("a plugin that crashes in its entry is found out, with signal and place", "[plugin]") {
  const Verdict verdict = vet_one("crashes_in_entry");
  CHECK(verdict.id == "plugin.crashed");
  CHECK_THAT(
      verdict.message,
      contains_text("crashes_in_entry.so (org.tenon.zoo.crashes_in_entry 1.0.0) crashed with "
                    "SIGSEGV while loading, in crashes_in_entry.so("));
  CHECK_THAT(verdict.message, contains_text("after printing \"the zoo is about to crash\""));
  CHECK_THAT(verdict.message, contains_text("; fix or remove it"));
  CHECK(verdict.signal == "SIGSEGV");
  REQUIRE_FALSE(verdict.backtrace.empty());
  CHECK_THAT(verdict.backtrace.front(), contains_text("crashes_in_entry.so(tenon_plugin_entry+0x"));
  CHECK(verdict.details == "the zoo is about to crash");
}

TEST_CASE("a plugin that throws while it is being mapped is found out", "[plugin]") {
  const Verdict verdict = vet_one("throws_in_static");
  CHECK(verdict.id == "plugin.crashed");
  CHECK_THAT(verdict.message, contains_text("crashed with SIGABRT while loading"));
  CHECK_THAT(verdict.message, contains_text("what():  the zoo's static initialiser failed"));
}

TEST_CASE("a plugin that overflows the stack is found out", "[plugin]") {
  const Verdict verdict = vet_one("overflows_stack");
  CHECK(verdict.id == "plugin.crashed");
  CHECK_THAT(verdict.message, contains_text("crashed with SIGSEGV"));
  REQUIRE_FALSE(verdict.backtrace.empty());
  CHECK_THAT(verdict.backtrace.front(), contains_text("overflows_stack.so("));
}

TEST_CASE("a plugin that ends the process is found out", "[plugin]") {
#ifdef __SANITIZE_THREAD__
  TENON_SKIP(
      "the thread sanitizer ends a process that exits inside dlopen with a status of its own");
#endif
  const Verdict verdict = vet_one("exits_in_constructor");
  CHECK(verdict.id == "plugin.crashed");
  CHECK_THAT(verdict.message, contains_text("ended the process with status 7 while loading"));
}

TEST_CASE("what a plugin printed last is kept, however much it was", "[plugin]") {
  const Verdict verdict = vet_one("prints_and_aborts");
  CHECK(verdict.id == "plugin.crashed");
  CHECK_THAT(verdict.message,
             contains_text("after printing \"line 19999 of the zoo nothing left to say\""));
  CHECK(verdict.details.size() < 40000);
}

TEST_CASE("a plugin that hangs is ended, with all that it has started", "[plugin]") {
  const Verdict verdict = vet_one("hangs_in_entry", std::chrono::milliseconds(1500));
  CHECK(verdict.id == "plugin.hung");
  CHECK_THAT(verdict.message, contains_text("did not load within 1.5 s"));
  CHECK_THAT(verdict.message, contains_text("TENON_VET_TIMEOUT_S"));
  CHECK_THAT(verdict.message, contains_text("the zoo waits for a lock"));
  CHECK_FALSE(verdict.is_lasting);  // the machine may have been slow
}

// A crash by a fault of its own says something about the file; what others cause does not.
TEST_CASE("only a crash that the plugin itself caused is a lasting verdict", "[plugin]") {
  const auto death = [](const std::string& how) {
    setenv("TENON_ZOO_DEATH", how.c_str(), 1);
    Verdict verdict = vet_one("dies_as_told");
    unsetenv("TENON_ZOO_DEATH");
    return verdict;
  };
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGXCPU}) {
    const Verdict verdict = death(std::to_string(signal));
    INFO(verdict.message);
    CHECK(verdict.id == "plugin.crashed");
    CHECK_FALSE(verdict.is_lasting);
    CHECK_THAT(verdict.message, contains_text("was killed by SIG"));
    CHECK_THAT(verdict.message, contains_text("start again"));
    CHECK_THAT(verdict.message, !contains_text("remove it"));
  }
  for (const char* const words : {"terminate called after throwing an instance of 'std::bad_alloc'",
                                  "libgomp: Thread creation failed: Resource temporarily "
                                  "unavailable",
                                  "[enforce fail] DefaultCPUAllocator: can't allocate memory"}) {
    const Verdict verdict = death(words);
    INFO(verdict.message);
    CHECK(verdict.id == "plugin.crashed");
    CHECK_FALSE(verdict.is_lasting);
    CHECK_THAT(verdict.message, contains_text("free memory or raise the limits"));
  }
  for (const char* const fault : {"11", "a broken invariant"}) {
    const Verdict verdict = death(fault);
    INFO(verdict.message);
    CHECK(verdict.id == "plugin.crashed");
    CHECK(verdict.is_lasting);
    CHECK_THAT(verdict.message, contains_text("; fix or remove it"));
  }
  CHECK(vet_one("dies_as_told").is_good());
}

TEST_CASE("one bad plugin does not spoil the others", "[plugin]") {
  ZooFolder zoo;
  for (const char* const name : {"good_c", "crashes_in_entry", "same_type_1", "refuses"}) {
    zoo.add(name);
  }
  zoo.add("good_c", "good_again");
  const std::vector<Verdict> verdicts =
      vet(zoo, {"good_c", "crashes_in_entry", "same_type_1", "refuses", "good_again"});
  REQUIRE(verdicts.size() == 5);
  CHECK(verdicts[0].is_good());
  CHECK(verdicts[1].id == "plugin.crashed");
  CHECK(verdicts[2].is_good());
  CHECK(verdicts[3].id == "plugin.entry_failed");
  CHECK(verdicts[4].is_good());
}

TEST_CASE("a plugin that crashes beside others only is judged alone", "[plugin]") {
  ZooFolder zoo;
  zoo.add("conflicts_a");
  zoo.add("conflicts_b");
  for (const Verdict& verdict : vet(zoo, {"conflicts_a", "conflicts_b"})) {
    CHECK(verdict.message == "");
  }
  // The child's own environment was changed, not this process's.
  CHECK(std::getenv("TENON_ZOO_CLAIMED") == nullptr);
}

TEST_CASE("a plugin that the dynamic linker refuses is refused in its words", "[plugin]") {
  const Verdict symbol = vet_one("undefined_symbol");
  CHECK(symbol.id == "plugin.load_failed");
  CHECK_THAT(symbol.message, contains_text("undefined symbol: tenon_zoo_nowhere; link it with"));
  const Verdict entry = vet_one("no_entry");
  CHECK(entry.id == "plugin.load_failed");
  CHECK_THAT(entry.message, contains_text("does not export tenon_plugin_entry"));
}

TEST_CASE("a plugin that brings a libtorch of its own is refused", "[plugin]") {
  const Verdict verdict = vet_one("brings_torch");
  CHECK(verdict.id == "plugin.torch_mismatch");
  CHECK_THAT(verdict.message, contains_text("loads a second libc10 into the process"));
  CHECK_THAT(verdict.message, contains_text("libc10-0a1b2c3d.so"));
}

TEST_CASE("the time limit comes from the environment", "[plugin]") {
  unsetenv("TENON_VET_TIMEOUT_S");
  CHECK(vet_timeout_from_environment() == std::chrono::seconds(10));
  setenv("TENON_VET_TIMEOUT_S", "2.5", 1);
  CHECK(vet_timeout_from_environment() == std::chrono::milliseconds(2500));
  for (const char* const wrong : {"0", "-1", "soon", "1e9", "nan", "3 s"}) {
    setenv("TENON_VET_TIMEOUT_S", wrong, 1);
    try {
      vet_timeout_from_environment();
      FAIL(wrong << " was taken");
    } catch (const Error& error) {
      CHECK(error.id() == "usage.bad_option");
    }
  }
  unsetenv("TENON_VET_TIMEOUT_S");
}
