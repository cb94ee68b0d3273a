// SPDX-License-Identifier: Apache-2.0
#include "host/hook/hook_list.hpp"

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/hook/event_name.hpp"
#include "host/plugin/call_checks.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/ATen.h>

#include <functional>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"

namespace tenon {
namespace {

using namespace std::string_literals;

class NoRun final : public RunView {
 public:
  void request(uint32_t requests, const std::string&) override { requested |= requests; }
  std::optional<double> metric(std::string_view name) const override {
    return name == "known" ? std::optional(2.5) : std::nullopt;
  }
  const at::Tensor* scalar(std::string_view) override { return nullptr; }
  void add_metric(const std::string&, double) override {}
  at::Tensor* field(std::string_view) override { return &batch_field; }
  void set_lr_factor(double) override { ++num_writes; }
  const at::Tensor* output(std::string_view) override { return nullptr; }
  void set_field(const std::string&, const at::Tensor&) override { ++num_writes; }
  void scale_loss(double) override { ++num_writes; }
  std::optional<double> step_loss() const override { return 0.5; }
  void all_reduce(std::span<double> values, bool) override { values[0] *= 2; }
  size_t num_parameters() const override { return 0; }
  ParameterView parameter(size_t) override { return {}; }
  const std::string& run_dir() const override { return dir; }
  size_t num_lr_groups() const override { return 1; }
  LrGroupView lr_group(size_t) override {
    return {.name = &group, .match = &match, .base_rate = 0.5, .rate = 0.25};
  }
  std::optional<double> lr_group_option(size_t, const std::string& pointer) const override {
    return pointer == "/momentum" ? std::optional(0.75) : std::nullopt;
  }
  void roll_back(uint64_t first_bad_step, const std::string&) override {
    first_bad = first_bad_step;
  }
  void check_text(const TextRequest& request) override { checked = request.prompt; }
  WrittenText generate_text(const TextRequest& request) override {
    return {.text = request.system.value_or("nobody") + "\0after"s,
            .num_prompt_tokens = request.prompt.size(),
            .num_tokens = static_cast<size_t>(request.max_tokens),
            .finish = TENON_TEXT_MAX_TOKENS};
  }
  std::string checked;
  uint64_t first_bad = 0;
  int num_writes = 0;
  at::Tensor batch_field = at::zeros({2});

  std::string dir = "somewhere";
  std::string group = "group0";
  std::string match = "*.bias";
  uint32_t requested = 0;
};

std::vector<std::string> calls;

struct TestHook {
  std::string name;
  tenon_hook_info info{};
  bool fails = false;
  std::function<tenon_status*(const tenon_event&)> does = {};  // in place of a request

  static tenon_status* describe(void* self, tenon_hook_info* out) {
    const size_t size = out->struct_size;
    *out = static_cast<TestHook*>(self)->info;
    out->struct_size = size;
    return nullptr;
  }
  static tenon_status* on_event(void* self, const tenon_event* event) {
    auto& hook = *static_cast<TestHook*>(self);
    calls.push_back(hook.name);
    if (hook.does) {
      return hook.does(*event);
    }
    return event->api->request(event->run, hook.fails ? 0 : TENON_REQUEST_EVALUATE, "because");
  }
  HookProxy proxy() {
    static const tenon_hook table = {sizeof(tenon_hook), &describe, &on_event};
    return HookProxy(made_instance("hook", TENON_HOOK_ID, &table, this));
  }
};

TestHook hook(const std::string& name, uint32_t phase, int32_t priority, uint32_t writes = 0) {
  TestHook made;
  made.name = name;
  made.info.events = TENON_EVENT_BIT(TENON_EVENT_START) | TENON_EVENT_BIT(TENON_EVENT_END);
  made.info.phase = phase;
  made.info.priority = priority;
  made.info.writes = writes;
  return made;
}

std::vector<HookProxy> proxies(std::vector<TestHook>& hooks) {
  std::vector<HookProxy> result;
  for (TestHook& one : hooks) {
    result.push_back(one.proxy());
  }
  return result;
}

}  // namespace

TEST_CASE("hooks are called by phase, priority and place, at the end in reverse", "[hook]") {
  std::vector<TestHook> hooks = {hook("a", TENON_PHASE_NORMAL, 0),
                                 hook("b", TENON_PHASE_AFTER, 9),
                                 hook("c", TENON_PHASE_NORMAL, 5),
                                 hook("d", TENON_PHASE_BEFORE, -3),
                                 hook("e", TENON_PHASE_NORMAL, 0)};
  NoRun run;
  HookList list(proxies(hooks), 0, run, {});
  calls.clear();
  list.fire(TENON_EVENT_START);
  CHECK(calls == std::vector<std::string>{"d", "c", "a", "e", "b"});
  CHECK(run.requested == TENON_REQUEST_EVALUATE);
  calls.clear();
  CHECK(list.fire_in_reverse(TENON_EVENT_END, "done"));
  CHECK(calls == std::vector<std::string>{"b", "e", "a", "c", "d"});
  calls.clear();
  list.fire(TENON_EVENT_BEFORE_STEP);  // nobody asked for it
  CHECK(calls.empty());
}

TEST_CASE("two writers of one thing need an order", "[hook]") {
  std::vector<TestHook> hooks = {
      hook("a", TENON_PHASE_NORMAL, 0, TENON_TOUCH_LR),
      hook("b", TENON_PHASE_NORMAL, 0, TENON_TOUCH_LR | TENON_TOUCH_BATCH)};
  CHECK_THROWS_AS(check_writers(proxies(hooks)), Error);
  hooks[1].info.priority = 1;
  CHECK_NOTHROW(check_writers(proxies(hooks)));
  CHECK(any_writes(proxies(hooks), TENON_EVENT_START, TENON_TOUCH_BATCH));
  CHECK_FALSE(any_writes(proxies(hooks), TENON_EVENT_AFTER_DATA, TENON_TOUCH_BATCH));
}

TEST_CASE("a hook for rank 0 alone is not called elsewhere", "[hook]") {
  std::vector<TestHook> hooks = {hook("a", TENON_PHASE_NORMAL, 0)};
  hooks[0].info.rank_0_only = 1;
  NoRun run;
  HookList list(proxies(hooks), 1, run, {});
  calls.clear();
  list.fire(TENON_EVENT_START);
  CHECK(calls.empty());
}

TEST_CASE("a hook writes only what it declares", "[hook]") {
  const tenon_run_api* api = run_api();
  const at::Tensor other = at::ones({2});
  const auto run_with = [&](uint32_t writes, auto&& does) {
    std::vector<TestHook> hooks = {hook("a", TENON_PHASE_NORMAL, 0, writes)};
    hooks[0].does = does;
    NoRun run;
    HookList list(proxies(hooks), 0, run, {});
    std::string error;
    try {
      list.fire(TENON_EVENT_START);
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    CHECK(run.num_writes == (error.empty() && writes != TENON_TOUCH_BATCH ? 1 : 0));
    return error;
  };
  const auto sets_rate = [&](const tenon_event& event) {
    return api->set_lr_factor(event.run, 0.5);
  };
  const auto scales = [&](const tenon_event& event) { return api->scale_loss(event.run, 2); };
  CHECK(run_with(TENON_TOUCH_LR, sets_rate).empty());
  CHECK_THAT(run_with(TENON_TOUCH_LOSS, sets_rate),
             contains_text("[hook.undeclared_write] at start: hook \"made\"") &&
                 contains_text("set_lr_factor needs TENON_TOUCH_LR in `writes` of the hook"));
  CHECK(run_with(TENON_TOUCH_LOSS, scales).empty());
  CHECK_THAT(run_with(TENON_TOUCH_LR, scales), contains_text("TENON_TOUCH_LOSS"));
  CHECK_THAT(run_with(0,
                      [&](const tenon_event& event) {
                        return api->set_field(event.run, "x", borrow(other));
                      }),
             contains_text("TENON_TOUCH_BATCH"));
  // In place, by an operator.
  const auto fills = [&](const tenon_event& event) {
    tenon_tensor* field = nullptr;
    tenon_status* const status = api->get_field(event.run, "x", &field);
    reinterpret_cast<at::Tensor*>(field)->fill_(3);
    return status;
  };
  CHECK(run_with(TENON_TOUCH_BATCH, fills).empty());
  CHECK_THAT(run_with(TENON_TOUCH_LR, fills),
             contains_text("[hook.undeclared_write]") &&
                 contains_text("wrote into \"x\" without TENON_TOUCH_BATCH in its `writes`"));
}

TEST_CASE("writes through a data pointer are found if calls are checked", "[hook]") {
  const tenon_run_api* api = run_api();
  std::vector<TestHook> hooks = {hook("a", TENON_PHASE_NORMAL, 0)};
  hooks[0].does = [&](const tenon_event& event) {
    tenon_tensor* field = nullptr;
    tenon_status* const status = api->get_field(event.run, "x", &field);
    static_cast<float*>(reinterpret_cast<at::Tensor*>(field)->data_ptr())[1] += 1;
    return status;
  };
  NoRun run;
  HookList list(proxies(hooks), 0, run, {});
  CHECK_NOTHROW(list.fire(TENON_EVENT_START));
  check_calls(true);
  CHECK_THROWS_WITH(list.fire(TENON_EVENT_START), contains_text("[hook.undeclared_write]"));
  check_calls(false);
}

TEST_CASE("a hook reads the loss of a step and reduces over ranks if it declares so", "[hook]") {
  const tenon_run_api* api = run_api();
  std::vector<TestHook> hooks = {hook("a", TENON_PHASE_NORMAL, 0)};
  double loss = 0;
  std::vector<double> values = {4};
  hooks[0].does = [&](const tenon_event& event) -> tenon_status* {
    CHECK(event.exec != nullptr);
    CHECK(event.exec->mode == TENON_MODE_TRAIN);
    if (tenon_status* const status = api->get_step_loss(event.run, &loss)) {
      return status;
    }
    return api->all_reduce(event.run, values.data(), values.size(), TENON_REDUCE_SUM);
  };
  NoRun run;
  {
    HookList list(proxies(hooks), 0, run, {});
    CHECK_THROWS_WITH(list.fire(TENON_EVENT_START), contains_text("to read TENON_TOUCH_LOSS"));
  }
  hooks[0].info.reads = TENON_TOUCH_LOSS;
  {
    HookList list(proxies(hooks), 0, run, {});
    CHECK_THROWS_WITH(list.fire(TENON_EVENT_START), contains_text("uses_collectives"));
  }
  hooks[0].info.uses_collectives = 1;
  HookList list(proxies(hooks), 0, run, {});
  CHECK_NOTHROW(list.fire(TENON_EVENT_START));
  CHECK(loss == 0.5);
  CHECK(values[0] == 8);
  CHECK_FALSE(list.fire_in_reverse(TENON_EVENT_END, "done"));  // other ranks may not be there
  values.resize(5000);
  CHECK_THROWS_WITH(list.fire(TENON_EVENT_START), contains_text("all_reduce was called with 5000"));
  hooks[0].info.rank_0_only = 1;
  CHECK_THROWS_WITH(proxies(hooks), contains_text("uses_collectives and rank_0_only"));
  hooks[0].info.writes = 64;
  CHECK_THROWS_WITH(proxies(hooks), contains_text("writes has flags 64"));
  hooks[0].info.writes = TENON_TOUCH_OUTPUTS;  // to be read only
  CHECK_THROWS_WITH(proxies(hooks), contains_text("writes has flags 32"));
}

TEST_CASE("an output that does not exist is no output, and names the declaration", "[hook]") {
  std::vector<TestHook> hooks = {hook("a", TENON_PHASE_NORMAL, 0)};
  hooks[0].does = [&](const tenon_event& event) {
    const tenon_tensor* output = nullptr;
    return run_api()->get_output(event.run, "logits", &output);
  };
  NoRun run;
  {
    HookList list(proxies(hooks), 0, run, {});
    CHECK_THROWS_WITH(list.fire(TENON_EVENT_START),
                      contains_text("TENON_TOUCH_OUTPUTS in `reads`"));
  }
  hooks[0].info.reads = TENON_TOUCH_OUTPUTS;
  HookList list(proxies(hooks), 0, run, {});
  CHECK_THROWS_WITH(list.fire(TENON_EVENT_START), contains_text("[hook.no_output]"));
}

TEST_CASE("the service of texts checks requests, and gives texts to hooks of all ranks", "[hook]") {
  const tenon_text_generation_api* const api = text_generation_service();
  tenon_text_request request{};
  request.struct_size = sizeof(request);
  request.prompt = "abc";
  request.max_tokens = 7;
  request.top_p = 1;
  tenon_text_result result{};
  result.struct_size = sizeof(result);
  std::vector<TestHook> hooks = {hook("a", TENON_PHASE_NORMAL, 0)};
  NoRun run;
  const auto asked = [&](const tenon_text_request* given, tenon_text_result* out) {
    StatusText text;
    hooks[0].does = [&](const tenon_event& event) -> tenon_status* {
      text = take(api->generate(event.run, given, out));
      return nullptr;
    };
    HookList list(proxies(hooks), 0, run, {});
    list.fire(TENON_EVENT_START);
    return text;
  };
  CHECK_THAT(asked(&request, &result).message, contains_text("uses_collectives"));
  hooks[0].info.uses_collectives = 1;
  CHECK(asked(&request, &result).ok());
  CHECK(std::string(result.text_ref, result.num_text_bytes) == "nobody\0after"s);
  CHECK(result.text_ref[result.num_text_bytes] == '\0');
  CHECK(result.num_prompt_tokens == 3);
  CHECK(result.num_tokens == 7);
  CHECK(result.finish == TENON_TEXT_MAX_TOKENS);
  CHECK(asked(nullptr, &result).code == TENON_INVALID);
  CHECK(asked(&request, nullptr).code == TENON_INVALID);
  CHECK(take(api->generate(nullptr, &request, &result)).code == TENON_INVALID);
  CHECK(take(api->check(as_abi(run), &request)).code == TENON_INVALID);  // not during an event

  const auto wrong = [&](auto change) {
    tenon_text_request other = request;
    change(other);
    const StatusText text = asked(&other, &result);
    CHECK(text.code == TENON_INVALID);
    return text.message;
  };
  CHECK_THAT(wrong([](auto& r) { r.prompt = nullptr; }), contains_text("a null prompt"));
  CHECK_THAT(wrong([](auto& r) { r.system = "s"; }), contains_text("not as a chat"));
  CHECK_THAT(wrong([](auto& r) { r.max_tokens = 0; }), contains_text("max_tokens 0"));
  CHECK_THAT(wrong([](auto& r) { r.temperature = -1; }), contains_text("temperature -1"));
  CHECK_THAT(wrong([](auto& r) { r.top_k = -2; }), contains_text("top_k -2"));
  CHECK_THAT(wrong([](auto& r) { r.top_p = 0; }), contains_text("top_p 0"));
  CHECK_THAT(wrong([](auto& r) { r.struct_size = 8; }), contains_text("struct_size 8"));

  request.is_chat = 1;
  request.system = "be brief";
  CHECK(asked(&request, &result).ok());
  CHECK(std::string(result.text_ref) == "be brief");
  hooks[0].does = [&](const tenon_event& event) { return api->check(event.run, &request); };
  HookList(proxies(hooks), 0, run, {}).fire(TENON_EVENT_START);
  CHECK(run.checked == "abc");
}

TEST_CASE("the run's services refuse null and unknown things with a status", "[hook]") {
  NoRun run;
  const tenon_run_api* api = run_api();
  double value = 0;
  CHECK(api->get_metric(as_abi(run), "known", &value) == nullptr);
  CHECK(value == 2.5);
  CHECK(api->roll_back(as_abi(run), 7, "because") == nullptr);
  CHECK(run.first_bad == 7);
  for (tenon_status* status : {api->get_metric(as_abi(run), "unknown", &value),
                               api->get_metric(as_abi(run), nullptr, &value),
                               api->get_metric(nullptr, "known", &value),
                               api->get_parameter(as_abi(run), 3, nullptr)}) {
    REQUIRE(status != nullptr);
    release(status);
  }
  CHECK(std::string(api->run_dir(as_abi(run))) == "somewhere");
}

TEST_CASE("a figure that is not there is not found, and no mistake of the hook's", "[hook]") {
  NoRun run;
  double value = 0;
  const StatusText text = take(run_api()->get_metric(as_abi(run), "unknown", &value));
  CHECK(text.code == TENON_NOT_FOUND);
  CHECK(text.id == "hook.no_metric");
}

TEST_CASE("a hook sees groups of parameters with their rates and options", "[hook]") {
  NoRun run;
  const tenon_run_api* api = run_api();
  size_t num = 0;
  REQUIRE(api->get_num_lr_groups(as_abi(run), &num) == nullptr);
  CHECK(num == 1);
  tenon_lr_group group{};
  group.struct_size = sizeof(group);
  REQUIRE(api->get_lr_group(as_abi(run), 0, &group) == nullptr);
  CHECK(std::string(group.name_ref) == "group0");
  CHECK(std::string(group.match_ref) == "*.bias");
  CHECK(group.base_rate == 0.5);
  CHECK(group.rate == 0.25);
  double value = 0;
  REQUIRE(api->get_lr_group_option(as_abi(run), 0, "/momentum", &value) == nullptr);
  CHECK(value == 0.75);
  CHECK(take(api->get_lr_group_option(as_abi(run), 0, "/betas/0", &value)).code == TENON_NOT_FOUND);
  CHECK(take(api->get_lr_group(as_abi(run), 1, &group)).id == "hook.bad_call");
  CHECK(take(api->get_lr_group_option(as_abi(run), 1, "/momentum", &value)).id == "hook.bad_call");
  CHECK(take(api->get_lr_group(as_abi(run), 0, nullptr)).id == "hook.bad_call");
  CHECK(take(api->get_lr_group_option(as_abi(run), 0, nullptr, &value)).id == "hook.bad_call");
  CHECK(take(api->get_num_lr_groups(nullptr, &num)).id == "hook.bad_call");
}

TEST_CASE("every event has a name of its own", "[hook]") {
  std::set<std::string> names;
  for (uint32_t event = 0; event < TENON_NUM_EVENTS; ++event) {
    names.insert(event_name(event));
  }
  CHECK(names.size() == TENON_NUM_EVENTS);
  CHECK(std::string(event_name(TENON_NUM_EVENTS)).empty());
  CHECK(std::string(event_name(TENON_EVENT_UPDATE_SKIPPED)) == "update_skipped");
}

}  // namespace tenon
