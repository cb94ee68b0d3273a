// SPDX-License-Identifier: Apache-2.0
//
// The C++ wrapper of the ABI by itself: options and their schema, statuses and exceptions, the
// entry. The host here is a table of functions; nothing of host/ is linked, as the wrapper has
// names of its own for the same ideas.
#include <tenon/cpp/lr_scheduler.hpp>
#include <tenon/cpp/op.hpp>
#include <tenon/cpp/plugin.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

using nlohmann::json;

struct tenon_status {
  uint32_t code;
  std::string id;
  std::string message;
  std::string file;
  int32_t line;
};
struct tenon_options {
  json values;
};

namespace tenon {
namespace {

int num_statuses = 0;  // alive

const json* find(const tenon_options* options, const char* pointer) {
  const json::json_pointer place{std::string(pointer)};
  return options->values.contains(place) ? &options->values.at(place) : nullptr;
}

tenon_status* make(const tenon_host*,
                   uint32_t code,
                   const char* id,
                   const char* message,
                   const char* file,
                   int32_t line) {
  ++num_statuses;
  return new tenon_status{code, id, message, file, line};
}

template <class T>
tenon_status* get(const tenon_options* options, const char* pointer, T* out) {
  const json* value = find(options, pointer);
  if (value == nullptr) {
    return make(nullptr, TENON_NOT_FOUND, "absent", pointer, "host.cpp", 7);
  }
  *out = value->get<T>();
  return nullptr;
}

const void* get_interface(const tenon_host*, const char* id) {
  static const tenon_status_api statuses{
      sizeof(tenon_status_api),
      make,
      [](tenon_status* status) {
        num_statuses -= status == nullptr ? 0 : 1;
        delete status;
      },
      [](const tenon_status* status) {
        return status == nullptr ? uint32_t{TENON_OK} : status->code;
      },
      [](const tenon_status* status) { return status->id.c_str(); },
      [](const tenon_status* status) { return status->message.c_str(); },
      [](const tenon_status* status) { return status->file.c_str(); },
      [](const tenon_status* status) { return status->line; }};
  static const tenon_options_api options_api{
      sizeof(tenon_options_api),
      [](const tenon_options* options, const char* pointer) -> uint32_t {
        const json* value = find(options, pointer);
        if (value == nullptr) {
          return TENON_OPTION_ABSENT;
        }
        return value->is_null() ? uint32_t{TENON_OPTION_NULL} : uint32_t{TENON_OPTION_OBJECT};
      },
      get<bool>,
      get<int64_t>,
      get<double>,
      [](const tenon_options* options, const char* pointer, const char** out) -> tenon_status* {
        *out = find(options, pointer)->get_ref<const std::string&>().c_str();
        return nullptr;
      },
      [](const tenon_options* options, const char* pointer, size_t* out) -> tenon_status* {
        *out = find(options, pointer)->size();
        return nullptr;
      },
      nullptr,
      nullptr,
      [](const tenon_options*, const char*, tenon_component_ref* out) -> tenon_status* {
        static const int nothing = 0;
        out->interface_id = "tenon.tokenizer/1";
        out->table = &nothing;
        return nullptr;
      }};
  if (id == std::string(TENON_STATUS_ID)) {
    return &statuses;
  }
  return id == std::string(TENON_OPTIONS_ID) ? &options_api : nullptr;
}

const tenon_host fake_host{sizeof(tenon_host), 0, 1, "0.1.0", nullptr, get_interface};

enum class Form { kRound, kSquare };

struct Inner {
  double rate = 0.5;
  std::optional<std::string> name;
  static void bind(OptionBinder<Inner>& b) {
    b.field("rate", &Inner::rate).exclusive_min(0).max(1);
    b.field("name", &Inner::name).choices({"a", "b"});
  }
};

class Everything final : public LrScheduler {
 public:
  static constexpr const char* kType = "everything";
  static constexpr const char* kSummary = "All that an option can be";
  struct Options {
    bool flag = true;
    int32_t small = -3;
    int64_t large = 1LL << 40;
    uint32_t natural = 7;
    double number = 1e-8;
    std::string text = "line\n\"quoted\" \\ \x01 \xc3\xa9";
    Form shape = Form::kSquare;
    std::optional<int64_t> maybe;
    std::vector<double> list = {0.9, 0.95};
    std::vector<Inner> structs;
    Inner inner;
    std::string needed;
    ComponentOption component;
    ComponentOption optional_component;
  };
  static void bind(OptionBinder<Options>& b) {
    b.field("flag", &Options::flag);
    b.field("small", &Options::small).min(-5).doc("a \"small\" number");
    b.field("large", &Options::large);
    b.field("natural", &Options::natural);
    b.field("number", &Options::number).min(0);
    b.field("text", &Options::text);
    b.choice("shape", &Options::shape, {{"round", Form::kRound}, {"square", Form::kSquare}});
    b.field("maybe", &Options::maybe).min(1);
    b.field("list", &Options::list).min(0).exclusive_max(1).min_items(2).max_items(2);
    b.field("structs", &Options::structs);
    b.field("inner", &Options::inner);
    b.field("needed/~", &Options::needed).required().path();
    b.field("component", &Options::component).component("tokenizer", R"({"type": "byte"})");
    b.field("none", &Options::optional_component).component("tokenizer", "null");
  }

  Everything(const Options& options, const CreateContext& context) : options_(options) {
    TENON_CHECK(options.small != 0, "small is ", options.small, " at ", context.place);
    last = this;
  }
  double factor(uint64_t step, uint64_t) override {
    if (step == 1) {
      throw std::bad_alloc();
    }
    if (step == 2) {
      throw 3;
    }
    if (step == 3) {
      host().ops();
    }
    return 1.0;
  }
  static inline Everything* last = nullptr;
  Options options_;
};

class Plain final : public LrScheduler {
 public:
  static constexpr const char* kType = "plain";
  static constexpr const char* kSummary = "No options";
  double factor(uint64_t, uint64_t) override { return 0.5; }
};

std::vector<const tenon_component*> registered;

tenon_entry_args entry_args() {
  return {sizeof(tenon_entry_args),
          TENON_ABI_MAJOR,
          TENON_ABI_MINOR,
          TENON_ABI_MINOR,
          99,
          &fake_host,
          nullptr,
          [](void*, const tenon_component* component) -> tenon_status* {
            registered.push_back(component);
            return nullptr;
          },
          nullptr};
}

// What a status says, which is released.
struct Said {
  uint32_t code = TENON_OK;
  std::string id;
  std::string message;
  int32_t line = 0;
};
Said said(tenon_status* status) {
  if (status == nullptr) {
    return {};
  }
  Said out{status->code, status->id, status->message, status->line};
  status_api(&fake_host)->release(status);
  return out;
}

const tenon_component& everything() {
  static const bool is_done = [] {
    tenon_entry_args args = entry_args();
    return register_plugin<Everything, Plain>(&args) == nullptr;
  }();
  REQUIRE(is_done);
  return *registered[0];
}

Said create(const json& values, void** self) {
  const tenon_options options{values};
  const tenon_create_args args{sizeof(tenon_create_args), &options, "/here", 1, nullptr};
  return said(everything().create(&fake_host, &args, self));
}

}  // namespace
}  // namespace tenon

TENON_PLUGIN(tenon::Everything, tenon::Plain)

namespace tenon {

TEST_CASE("a schema says what the struct says", "[sdk]") {
  const json schema = json::parse(everything().options_schema);
  CHECK(schema["type"] == "object");
  CHECK(schema["additionalProperties"] == false);
  CHECK(schema["required"] == json({"needed/~"}));
  const json& p = schema["properties"];
  CHECK(p["flag"] == json({{"type", "boolean"}, {"default", true}}));
  CHECK(p["small"] == json({{"type", "integer"},
                            {"minimum", -5},
                            {"description", "a \"small\" number"},
                            {"default", -3}}));
  CHECK(p["large"]["default"] == 1LL << 40);
  CHECK(p["number"] == json({{"type", "number"}, {"minimum", 0}, {"default", 1e-8}}));
  CHECK(p["text"]["default"] == Everything::Options().text);
  CHECK(p["shape"] ==
        json({{"type", "string"}, {"enum", {"round", "square"}}, {"default", "square"}}));
  CHECK(p["maybe"] == json({{"type", {"integer", "null"}}, {"minimum", 1}, {"default", nullptr}}));
  CHECK(p["list"] == json({{"type", "array"},
                           {"items", {{"type", "number"}, {"minimum", 0}, {"exclusiveMaximum", 1}}},
                           {"minItems", 2},
                           {"maxItems", 2},
                           {"default", {0.9, 0.95}}}));
  CHECK(p["structs"]["items"]["properties"]["name"]["enum"] == json({"a", "b", nullptr}));
  CHECK(p["inner"]["default"] == json({{"rate", 0.5}, {"name", nullptr}}));
  CHECK(p["inner"]["additionalProperties"] == false);
  CHECK(p["needed/~"] == json({{"type", "string"}, {"x-tenon-path", true}}));
  CHECK(p["component"] == json({{"x-tenon-component", "tokenizer"},
                                {"type", "object"},
                                {"default", {{"type", "byte"}}}}));
  CHECK(p["none"]["type"] == json({"object", "null"}));
  CHECK(json::parse(registered[1]->options_schema)["properties"] == json::object());
}

TEST_CASE("options are read into the struct, and what is absent keeps its default", "[sdk]") {
  void* self = nullptr;
  const Said outcome = create({{"flag", false},
                               {"small", 2147483647},
                               {"shape", "round"},
                               {"maybe", 5},
                               {"list", {0.1, 0.2}},
                               {"structs", {{{"rate", 0.25}}, {{"name", "b"}}}},
                               {"inner", {{"rate", 1.0}, {"name", nullptr}}},
                               {"needed/~", "x"},
                               {"component", {{"type", "byte"}}},
                               {"none", nullptr}},
                              &self);
  CHECK(outcome.message.empty());
  REQUIRE(self != nullptr);
  const Everything::Options& o = Everything::last->options_;
  CHECK_FALSE(o.flag);
  CHECK(o.small == 2147483647);
  CHECK(o.large == 1LL << 40);
  CHECK(o.shape == Form::kRound);
  CHECK(o.maybe == 5);
  CHECK(o.list == std::vector<double>{0.1, 0.2});
  REQUIRE(o.structs.size() == 2);
  CHECK(o.structs[0].rate == 0.25);
  CHECK(o.structs[1].name == "b");
  CHECK(o.inner.rate == 1.0);
  CHECK(o.needed == "x");
  CHECK(o.component);
  CHECK_FALSE(o.optional_component);
  everything().destroy(self);
}

TEST_CASE("options that do not fit are refused when an instance is created", "[sdk]") {
  void* self = nullptr;
  const Said missing = create(json::object(), &self);
  CHECK(missing.code == TENON_NOT_FOUND);
  CHECK(missing.message == "option /needed~1~0 is required");
  const Said wide = create({{"needed/~", ""}, {"small", 1LL << 31}}, &self);
  CHECK(wide.code == TENON_INVALID);
  CHECK(wide.message == "option /small: 2147483648 does not fit its type");
  CHECK(create({{"needed/~", ""}, {"natural", -1}}, &self).code == TENON_INVALID);
  CHECK(create({{"needed/~", ""}, {"shape", "flat"}}, &self).message.find("flat") !=
        std::string::npos);
  const Said checked = create({{"needed/~", ""}, {"small", 0}}, &self);
  CHECK(checked.message == "small is 0 at /here");
  CHECK(checked.line > 0);
  CHECK(self == nullptr);
  CHECK(num_statuses == 0);
}

TEST_CASE("whatever a component throws becomes a status", "[sdk]") {
  void* self = nullptr;
  create({{"needed/~", ""}}, &self);
  REQUIRE(self != nullptr);
  const auto& table = *static_cast<const tenon_lr_scheduler*>(everything().table);
  double out = 0;
  CHECK(said(table.factor(self, 0, 0, &out)).code == TENON_OK);
  CHECK(out == 1.0);
  CHECK(said(table.factor(self, 1, 0, &out)).code == TENON_OUT_OF_MEMORY);
  CHECK(said(table.factor(self, 2, 0, &out)).code == TENON_INTERNAL);
  const Said missing = said(table.factor(self, 3, 0, &out));
  CHECK(missing.code == TENON_UNSUPPORTED);
  CHECK(missing.message.find(TENON_OP_ID) != std::string::npos);
  CHECK(said(table.factor(nullptr, 0, 0, &out)).code == TENON_INVALID);
  CHECK(said(table.factor(self, 0, 0, nullptr)).code == TENON_INVALID);
  CHECK(everything().get_extension(self, TENON_STATEFUL_ID) == nullptr);
  everything().destroy(self);
  CHECK(num_statuses == 0);
}

TEST_CASE("a status of the host becomes an exception with all that it says", "[sdk]") {
  try {
    check(&fake_host, make(&fake_host, TENON_IO, "some.id", "what happened", "there.c", 12));
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.code() == TENON_IO);
    CHECK(e.id() == std::string("some.id"));
    CHECK(e.what() == std::string("what happened"));
    CHECK(e.file() == std::string("there.c"));
    CHECK(e.line() == 12);
  }
  CHECK(num_statuses == 0);
}

TEST_CASE("the entry registers its classes, and refuses a host of another ABI", "[sdk]") {
  registered.clear();
  tenon_entry_args args = entry_args();
  CHECK(tenon_plugin_entry(&args) == nullptr);
  CHECK(args.out_abi_minor == TENON_ABI_MINOR);
  REQUIRE(registered.size() == 2);
  CHECK(registered[0]->kind == std::string("lr_scheduler"));
  CHECK(registered[0]->type == std::string("everything"));
  CHECK(registered[1]->interface_id == std::string(TENON_LR_SCHEDULER_ID));

  args = entry_args();
  args.abi_major = TENON_ABI_MAJOR + 1;
  const Said refused = said(tenon_plugin_entry(&args));
  CHECK(refused.code == TENON_UNSUPPORTED);
  CHECK(refused.id == "abi_mismatch");
  args = entry_args();
  args.abi_minor_min = args.abi_minor_max = TENON_ABI_MINOR + 1;
  CHECK(said(tenon_plugin_entry(&args)).code == TENON_UNSUPPORTED);
  args = entry_args();
  args.struct_size = offsetof(tenon_entry_args, register_component);
  CHECK(tenon_plugin_entry(&args) == nullptr);
  CHECK(tenon_plugin_entry(nullptr) == nullptr);
  CHECK(registered.size() == 2);
}

TEST_CASE("numbers in a schema read back as they were", "[sdk]") {
  for (const double value : {0.0, 1.0, 0.1, 1.0 / 3, 1e-300, -2.5e17, 9007199254740993.0}) {
    CHECK(json::parse(json_number(value)).get<double>() == value);
  }
  CHECK(json_number(1.0) == "1.0");
  CHECK_THROWS_AS(json_number(std::numeric_limits<double>::infinity()), Error);
}

}  // namespace tenon
