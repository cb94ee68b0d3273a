// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/options_service.hpp"

#include <tenon/loss.h>
#include <tenon/tokenizer.h>

#include <limits>

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

const tenon_loss kNoLossTable{};

const char* const kJson = R"({
  "flag": true, "lr": 0.003, "steps": 300, "whole": 3.0, "big": 18446744073709551615,
  "huge": 1e300, "name": "focal", "nothing": null, "cut": "a\u0000b",
  "betas": [0.9, 0.95], "groups": [{"match": "*.bias"}, {"match": "*"}],
  "zebra": {"z": 1, "a": 2}, "a/b": {"m~n": 5}
})";

struct Fixture {
  FakeComponent fake{"loss", TENON_LOSS_ID, &kNoLossTable};
  ComponentIdentity identity{fake.loaded(), "/loss"};
  const tenon_options_api* api = options_service();

  template <class T>
  T get(tenon_status* (*getter)(const tenon_options*, const char*, T*),
        const Options& options,
        const char* pointer) {
    T value{};
    const StatusText status = take(getter(options.abi(), pointer, &value));
    INFO(status.message);
    CHECK(status.ok());
    return value;
  }
  template <class T>
  std::string problem(tenon_status* (*getter)(const tenon_options*, const char*, T*),
                      const Options& options,
                      const char* pointer,
                      uint32_t code) {
    T value{};
    const T before = value;
    const StatusText status = take(getter(options.abi(), pointer, &value));
    CHECK(status.code == code);
    CHECK(value == before);
    return status.message;
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "options are read by JSON pointer", "[plugin]") {
  const Options options(kJson, {}, identity);
  CHECK(get(api->get_bool, options, "/flag") == 1);
  CHECK(get(api->get_int, options, "/steps") == 300);
  CHECK(get(api->get_int, options, "/whole") == 3);
  CHECK(get(api->get_double, options, "/lr") == 0.003);
  CHECK(get(api->get_double, options, "/steps") == 300.0);
  CHECK(get(api->get_double, options, "/betas/1") == 0.95);
  CHECK(std::string(get(api->get_string, options, "/name")) == "focal");
  CHECK(std::string(get(api->get_string, options, "/groups/1/match")) == "*");
  CHECK(get(api->get_int, options, "/a~1b/m~0n") == 5);
  CHECK(get(api->get_count, options, "/betas") == 2);
  CHECK(get(api->get_count, options, "") == 13);
  CHECK(std::string(get(api->get_json, options, "/betas")) == "[0.9,0.95]");
  CHECK(std::string(get(api->get_json, options, "/zebra")) == R"({"z":1,"a":2})");
}

TEST_CASE_METHOD(Fixture, "the members of an object keep the recipe's order", "[plugin]") {
  const Options options(kJson, {}, identity);
  const char* name = nullptr;
  REQUIRE(api->get_key(options.abi(), "/zebra", 0, &name) == nullptr);
  CHECK(std::string(name) == "z");
  REQUIRE(api->get_key(options.abi(), "/zebra", 1, &name) == nullptr);
  CHECK(std::string(name) == "a");
  CHECK(take(api->get_key(options.abi(), "/zebra", 2, &name)).code == TENON_NOT_FOUND);
  CHECK(take(api->get_key(options.abi(), "/betas", 0, &name)).code == TENON_INVALID);
}

TEST_CASE_METHOD(Fixture, "texts that were handed out stay where they are", "[plugin]") {
  const Options options(kJson, {}, identity);
  const char* const first = get(api->get_json, options, "/lr");
  for (int i = 0; i < 100; ++i) {
    get(api->get_json, options, "/groups");
  }
  CHECK(std::string(first) == "0.003");
}

TEST_CASE_METHOD(Fixture, "the kind of every value is told", "[plugin]") {
  const Options options(kJson, {}, identity);
  const auto kind = [&](const char* pointer) { return api->kind(options.abi(), pointer); };
  CHECK(kind("/flag") == TENON_OPTION_BOOL);
  CHECK(kind("/steps") == TENON_OPTION_INT);
  CHECK(kind("/big") == TENON_OPTION_INT);
  CHECK(kind("/whole") == TENON_OPTION_DOUBLE);
  CHECK(kind("/name") == TENON_OPTION_STRING);
  CHECK(kind("/nothing") == TENON_OPTION_NULL);
  CHECK(kind("/betas") == TENON_OPTION_LIST);
  CHECK(kind("") == TENON_OPTION_OBJECT);
  CHECK(kind("/missing") == TENON_OPTION_ABSENT);
  CHECK(kind("no pointer") == TENON_OPTION_ABSENT);
  CHECK(kind(nullptr) == TENON_OPTION_ABSENT);
  CHECK(api->kind(nullptr, "") == TENON_OPTION_ABSENT);
}

TEST_CASE_METHOD(Fixture, "what is not there is not found, by component and pointer", "[plugin]") {
  const Options options(kJson, {}, identity);
  CHECK(problem(api->get_int, options, "/missing", TENON_NOT_FOUND) ==
        "option \"/missing\" of loss \"fake\" does not exist");
  for (const char* const pointer :
       {"/betas/2", "/betas/01", "/betas/-", "/betas/x", "/betas/", "/lr/x", "/groups/0/", "/"}) {
    CAPTURE(pointer);
    problem(api->get_int, options, pointer, TENON_NOT_FOUND);
  }
  CHECK_THAT(problem(api->get_int, options, "lr", TENON_INVALID), contains_text("JSON pointer"));
  CHECK_THAT(problem(api->get_int, options, "/a~2", TENON_INVALID), contains_text("~0"));
}

TEST_CASE_METHOD(Fixture, "a value of another type is told from a missing one", "[plugin]") {
  const Options options(kJson, {}, identity);
  CHECK(problem(api->get_int, options, "/name", TENON_INVALID) ==
        "option \"/name\" of loss \"fake\" is read as an integer, but is string");
  problem(api->get_bool, options, "/steps", TENON_INVALID);
  problem(api->get_double, options, "/nothing", TENON_INVALID);
  problem(api->get_string, options, "/flag", TENON_INVALID);
  problem(api->get_count, options, "/name", TENON_INVALID);
  CHECK_THAT(problem(api->get_int, options, "/lr", TENON_INVALID), contains_text("0.003"));
  CHECK_THAT(problem(api->get_int, options, "/big", TENON_INVALID),
             contains_text("18446744073709551615"));
  problem(api->get_int, options, "/huge", TENON_INVALID);
  CHECK_THAT(problem(api->get_string, options, "/cut", TENON_INVALID), contains_text("NUL"));
}

TEST_CASE_METHOD(Fixture, "null arguments are errors", "[plugin]") {
  const Options options("{}", {}, identity);
  int64_t value = 0;
  CHECK(take(api->get_int(nullptr, "", &value)).code == TENON_INVALID);
  CHECK(take(api->get_int(options.abi(), nullptr, &value)).code == TENON_INVALID);
  CHECK(take(api->get_int(options.abi(), "", nullptr)).code == TENON_INVALID);
  CHECK(take(api->get_component(options.abi(), "", nullptr)).code == TENON_INVALID);
}

TEST_CASE_METHOD(Fixture, "a component that options name is handed over", "[plugin]") {
  const tenon_tokenizer table{};
  FakeComponent tokenizer("tokenizer", TENON_TOKENIZER_ID, &table);
  const ComponentInstance instance = tokenizer.make();
  const Options options(R"({"tokenizer": {"type": "fake"}, "other": null, "plain": {}})",
                        {{"/tokenizer", instance.reference()}},
                        identity);
  tenon_component_ref reference{};
  reference.struct_size = sizeof(reference);
  REQUIRE(api->get_component(options.abi(), "/tokenizer", &reference) == nullptr);
  CHECK(std::string(reference.interface_id) == TENON_TOKENIZER_ID);
  CHECK(reference.table == &table);
  CHECK(reference.self == instance.self());

  CHECK(take(api->get_component(options.abi(), "/missing", &reference)).code == TENON_NOT_FOUND);
  CHECK(take(api->get_component(options.abi(), "/other", &reference)).code == TENON_NOT_FOUND);
  const StatusText plain = take(api->get_component(options.abi(), "/plain", &reference));
  CHECK(plain.code == TENON_INVALID);
  CHECK_THAT(plain.message, contains_text("x-tenon-component"));
  reference.struct_size = 8;
  CHECK(take(api->get_component(options.abi(), "/tokenizer", &reference)).id ==
        "plugin.bad_struct");
}
