// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/log_service.hpp"

#include "host/log/log.hpp"

#include <algorithm>
#include <string>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

TEST_CASE("a plugin's lines carry its id", "[plugin]") {
  const ZooFolder zoo;
  set_up_log({.terminal = false, .file = zoo.log_file()});
  const PluginHost host({"org.tenon.one", "1.0.0", "one.so"}, {});
  const tenon_log_api* const log = log_service();
  log->write(host.abi(), TENON_LOG_DEBUG, "too quiet");
  log->write(host.abi(), TENON_LOG_INFO, "hello");
  log->write(host.abi(), TENON_LOG_WARN, "take care");
  log->write(host.abi(), 99, "whatever this is");
  log->write(host.abi(), TENON_LOG_INFO, nullptr);
  log->write(nullptr, TENON_LOG_INFO, "nobody");
  set_up_log({});
  const std::string text = read_text(zoo.log_file());
  CHECK_THAT(text, contains_text("[info] org.tenon.one: hello\n"));
  CHECK_THAT(text, contains_text("[warning] org.tenon.one: take care\n"));
  CHECK_THAT(text, contains_text("[error] org.tenon.one: whatever this is\n"));
  CHECK(text.find("quiet") == std::string::npos);
  CHECK(text.find("nobody") == std::string::npos);
}

TEST_CASE("a plugin that floods the log is cut off, and others are not", "[plugin]") {
  const ZooFolder zoo;
  set_up_log({.terminal = false, .file = zoo.log_file()});
  const PluginHost loud({"org.tenon.loud", "1.0.0", "loud.so"}, {});
  const PluginHost quiet({"org.tenon.quiet", "1.0.0", "quiet.so"}, {});
  for (int i = 0; i < 20000; ++i) {
    log_service()->write(loud.abi(), TENON_LOG_INFO, "\x1b[31mline");
  }
  log_service()->write(quiet.abi(), TENON_LOG_INFO, "heard");
  set_up_log({});
  const std::string text = read_text(zoo.log_file());
  CHECK_THAT(text, contains_text("org.tenon.loud: \\x1b[31mline\n"));
  CHECK_THAT(text, contains_text("org.tenon.loud: more than 200 lines in one second"));
  CHECK_THAT(text, contains_text("org.tenon.quiet: heard\n"));
  CHECK(text.find('\x1b') == std::string::npos);
  // 200 lines in each second that the loop took.
  CHECK(std::count(text.begin(), text.end(), '\n') < 10000);
}
