// SPDX-License-Identifier: Apache-2.0
#include "host/chat/chat_service.hpp"

#include "host/error/status.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

const tenon_chat_template_api& api() {
  return *chat_template_service();
}

tenon_status* append(void* context, const tenon_chat_piece* pieces, size_t n) {
  auto& text = *static_cast<std::string*>(context);
  for (size_t i = 0; i < n; ++i) {
    text += std::to_string(pieces[i].kind) + ":" +
            std::string(pieces[i].bytes, pieces[i].num_bytes) + ":" +
            std::to_string(pieces[i].answer) + " ";
  }
  return nullptr;
}

tenon_render_args args_of(const char* messages, std::string& out) {
  tenon_render_args args{};
  args.struct_size = sizeof(args);
  args.messages = messages;
  args.sink = append;
  args.context = &out;
  return args;
}

}  // namespace

TEST_CASE("plugins render chats through a table of functions", "[chat]") {
  tenon_chat_template* compiled = nullptr;
  throw_if_failed(api().compile(
      nullptr,
      "{{ bos }}{% for m in messages %}{{ m.content }};{% endfor %}{{ tools | length }}",
      &compiled));
  std::string out;
  tenon_render_args args = args_of(R"([{"role": "user", "content": "a"}])", out);
  args.variables = R"({"bos": "<s>"})";
  args.tools = R"([{"name": "f"}])";
  throw_if_failed(api().render(nullptr, compiled, &args));
  CHECK(out == "1:<s>:-1 0:a:-1 1:;1:-1 ");
  // An error of the sink reaches the caller.
  args.sink = [](void*, const tenon_chat_piece*, size_t) {
    return make_status(nullptr, TENON_IO, "test.full", "the sink is full");
  };
  CHECK(take(api().render(nullptr, compiled, &args)).id == "test.full");
  api().release(nullptr, compiled);
  api().release(nullptr, nullptr);
}

TEST_CASE("the service for chats refuses what it cannot take", "[chat]") {
  tenon_chat_template* compiled = nullptr;
  CHECK(take(api().compile(nullptr, "{% if %}", &compiled)).id == "template.invalid");
  CHECK(take(api().compile(nullptr, nullptr, &compiled)).id == "template.null_argument");
  CHECK(compiled == nullptr);
  throw_if_failed(api().compile(nullptr, "{{ messages | length }}", &compiled));
  std::string out;
  const auto message = [&](const char* messages, const char* tools, const char* variables) {
    tenon_render_args args = args_of(messages, out);
    args.tools = tools;
    args.variables = variables;
    const StatusText status = take(api().render(nullptr, compiled, &args));
    CHECK(status.code == TENON_INVALID);
    return status.message;
  };
  CHECK_THAT(message("[", nullptr, nullptr), contains_text("the messages are not valid JSON"));
  CHECK(message("{}", nullptr, nullptr) == "the messages are not a list");
  CHECK(message("[1]", nullptr, nullptr) == "message 1 is not an object");
  CHECK(message("[]", "{}", nullptr) == "the tools are not a list");
  CHECK(message("[]", nullptr, "[]") == "the variables are not an object");
  CHECK(message(nullptr, nullptr, nullptr) == "an argument of render of a chat template is null");
  CHECK(take(api().render(nullptr, nullptr, nullptr)).id == "template.null_argument");
  api().release(nullptr, compiled);
}

}  // namespace tenon
