// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/process_settings.hpp"

#include <tenon/model.h>

#include "host/log/log.hpp"
#include "host/plugin/compute_threads.hpp"
#include "host/plugin/model_proxy.hpp"

#include <ATen/Parallel.h>

#include <cfenv>
#include <clocale>
#include <csignal>
#include <filesystem>
#include <string>
#include <sys/stat.h>

#include "tests/host/plugin/fake_component.hpp"
#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("state that nothing changed stays as it is", "[plugin]") {
  const ProcessSettings before;
  CHECK(before.restore().empty());
}

TEST_CASE("what has changed is named and restored", "[plugin]") {
  const std::filesystem::path folder = std::filesystem::current_path();
  const mode_t mask = ::umask(022);
  const ProcessSettings before;
  std::fesetround(FE_UPWARD);
  std::signal(SIGUSR2, SIG_IGN);
  std::filesystem::current_path("/");
  ::umask(0777);
  CHECK(before.restore() ==
        "the rounding mode, the handler of SIGUSR2, the working directory, the umask");
  CHECK(std::fegetround() == FE_TONEAREST);
  CHECK(std::signal(SIGUSR2, SIG_DFL) == SIG_DFL);
  CHECK(std::filesystem::current_path() == folder);
  CHECK(::umask(mask) == 022);
  CHECK(before.restore().find("rounding") == std::string::npos);
}

TEST_CASE("a call that changes the number of compute threads is named, and it is restored",
          "[plugin]") {
  const int before = num_operator_threads();
  tenon_model table{};
  table.struct_size = sizeof(table);
  table.describe = [](void*, tenon_model_builder*) -> tenon_status* {
    at::set_num_threads(num_operator_threads() + 1);
    return nullptr;
  };
  table.forward = [](void*, const tenon_exec*, tenon_forward_args*) -> tenon_status* {
    return nullptr;
  };
  FakeComponent fake("model", TENON_MODEL_ID, &table);
  const ModelProxy model(fake.make());
  tenon_model_builder builder{};
  model.describe(builder);
  CHECK(num_operator_threads() == before);
  REQUIRE_FALSE(restored_settings().empty());
  CHECK_THAT(restored_settings().back(),
             contains_text("describe changed the number of compute threads of the process from " +
                           std::to_string(before) + " to " + std::to_string(before + 1)));
}

TEST_CASE("a plugin that changes the process while it is loaded is named", "[plugin]") {
  ZooFolder zoo;
  zoo.add("changes_process");
  const std::filesystem::path folder = std::filesystem::current_path();
  struct sigaction before {};
  sigaction(SIGTERM, nullptr, &before);
  set_up_log({.terminal = false, .file = zoo.log_file()});
  PluginRegistry registry(zoo.setup());
  registry.get("loss", "zoo");
  set_up_log({});
  const std::string text = read_text(zoo.log_file());
  CHECK_THAT(text,
             contains_text("plugin org.tenon.zoo.changes_process 1.0.0 (" +
                           zoo.path_of("changes_process") + ") changed the rounding mode"));
  for (const char* what : {"the handler of SIGTERM", "the working directory", "the umask"}) {
    CHECK_THAT(text, contains_text(what));
  }
#ifdef __SSE__
  CHECK_THAT(text, contains_text("denormal numbers"));
#endif
  CHECK(std::fegetround() == FE_TONEAREST);
  CHECK(std::filesystem::current_path() == folder);
  struct sigaction after {};
  sigaction(SIGTERM, nullptr, &after);
  CHECK(after.sa_handler == before.sa_handler);
}

}  // namespace tenon
