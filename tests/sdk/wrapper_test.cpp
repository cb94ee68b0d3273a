// SPDX-License-Identifier: Apache-2.0
//
// The C++ wrapper of the ABI by itself: options and their schema, statuses and exceptions, the
// entry, and the arguments of calls. The host here is a table of functions; nothing of host/ is
// linked.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/hook.hpp>
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
  const json::json_pointer path{std::string(pointer)};
  return options->values.contains(path) ? &options->values.at(path) : nullptr;
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

// T: the type of the value; Out: its type in the ABI.
template <class T, class Out = T>
tenon_status* get(const tenon_options* options, const char* pointer, Out* out) {
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
      get<bool, uint32_t>,
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
  static const tenon_tensor_api tensors{
      sizeof(tenon_tensor_api),
      [](const tenon_tensor* tensor, tenon_tensor_info* out) -> tenon_status* {
        out->numel = *reinterpret_cast<const int64_t*>(tensor);
        return nullptr;
      },
      nullptr,
      nullptr,
      nullptr,
      nullptr,
      nullptr,
      nullptr,
      nullptr};
  if (id == std::string(TENON_STATUS_ID)) {
    return &statuses;
  }
  if (id == std::string(TENON_TENSOR_ID)) {
    return &tensors;
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
  bool needs_total() const override {
    TENON_CHECK(options_.natural != 13, "natural is unlucky");
    return options_.flag;
  }
  double factor(uint64_t step, uint64_t total) override {
    if (step == 1) {
      throw std::bad_alloc();
    }
    if (step == 2) {
      throw 3;
    }
    if (step == 3) {
      host().ops();
    }
    return total == 0 ? 1.0 : static_cast<double>(step) / static_cast<double>(total);
  }
  static inline Everything* last = nullptr;
  Options options_;
};

class Plain final : public LrScheduler {
 public:
  static constexpr const char* kType = "plain";
  static constexpr const char* kSummary = "No options";
  static const void* get_table(const char* id) {
    static const int older = 1;
    if (id == std::string("tenon.made/1")) {
      throw std::bad_alloc();
    }
    return id == std::string("tenon.lr_scheduler/0") ? &older : nullptr;
  }
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
  tenon_lr_factor_args args{sizeof args, 0, 0, 0};
  CHECK(said(table.factor(self, &args)).code == TENON_OK);
  CHECK(args.out_factor == 1.0);
  args.step = 1;
  CHECK(said(table.factor(self, &args)).code == TENON_OUT_OF_MEMORY);
  args.step = 2;
  CHECK(said(table.factor(self, &args)).code == TENON_INTERNAL);
  CHECK(args.out_factor == 1.0);
  args.step = 3;
  const Said missing = said(table.factor(self, &args));
  CHECK(missing.code == TENON_UNSUPPORTED);
  CHECK(missing.message.find(TENON_OP_ID) != std::string::npos);
  CHECK(said(table.factor(nullptr, &args)).code == TENON_INVALID);
  CHECK(said(table.factor(self, nullptr)).code == TENON_INVALID);
  CHECK(everything().get_extension(self, TENON_STATEFUL_ID) == nullptr);
  everything().destroy(self);
  CHECK(num_statuses == 0);
}

TEST_CASE("a schedule reports whether it needs the length of the run", "[sdk]") {
  const auto& table = *static_cast<const tenon_lr_scheduler*>(everything().table);
  const auto described = [&](const json& options, tenon_lr_scheduler_info& info) {
    void* self = nullptr;
    create(options, &self);
    REQUIRE(self != nullptr);
    Said outcome = said(table.describe(self, &info));
    everything().destroy(self);
    return outcome;
  };
  tenon_lr_scheduler_info info{sizeof info, 0, 0};
  CHECK(described({{"needed/~", ""}}, info).code == TENON_OK);
  CHECK(info.needs_total == 1);
  CHECK(described({{"needed/~", ""}, {"flag", false}}, info).code == TENON_OK);
  CHECK(info.needs_total == 0);
  CHECK(described({{"needed/~", ""}, {"natural", 13}}, info).message == "natural is unlucky");
  CHECK(said(table.describe(nullptr, &info)).code == TENON_INVALID);

  void* self = nullptr;
  create({{"needed/~", ""}}, &self);
  tenon_lr_factor_args args{sizeof args, 5, 20, 0};
  CHECK(said(table.factor(self, &args)).code == TENON_OK);
  CHECK(args.out_factor == 0.25);
  everything().destroy(self);
  CHECK(num_statuses == 0);
}

TEST_CASE("a component has other tables only if its class looks them up", "[sdk]") {
  CHECK(everything().get_table == nullptr);
  const auto get_table = registered[1]->get_table;
  REQUIRE(get_table != nullptr);
  CHECK(get_table("tenon.lr_scheduler/0") != nullptr);
  CHECK(get_table("tenon.lr_scheduler/9") == nullptr);
  CHECK(get_table("tenon.made/1") == nullptr);
  CHECK(get_table(nullptr) == nullptr);
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

namespace {

bool stop = false;  // what the fake exec answers

tenon_exec fake_exec() {
  tenon_exec exec{};
  exec.struct_size = sizeof exec;
  exec.host = &fake_host;
  exec.mode = TENON_MODE_TRAIN;
  exec.stop_requested = [](const tenon_exec*) -> uint32_t { return stop ? 1 : 0; };
  return exec;
}

// What a batch received.
struct Batch {
  int64_t samples = -1;
  std::string position;
  tenon_batch_writer writer{
      sizeof(tenon_batch_writer),
      this,
      nullptr,
      nullptr,
      [](tenon_batch_writer* w, int64_t samples, int64_t) -> tenon_status* {
        static_cast<Batch*>(w->impl)->samples = samples;
        return nullptr;
      },
      [](tenon_batch_writer* w, const void* data, size_t size) -> tenon_status* {
        static_cast<Batch*>(w->impl)->position.assign(static_cast<const char*>(data), size);
        return nullptr;
      },
      nullptr};
};

// Read in one of two styles: samples are counted, positions are texts.
class Numbers final : public MapDataset {
 public:
  void describe(DatasetInfo& info) override { info.field("x", {"B"}, TENON_F32); }
  int64_t size(const tenon_window*) override { return 4; }
  void read(const tenon_window*, const int64_t* indices, size_t n, BatchWriter& writer) override {
    if (writer.stop_requested()) {
      TENON_FAIL(TENON_CANCELLED, "numbers.stop", "gave up at sample ", indices[0]);
    }
    writer.set_counts(static_cast<int64_t>(n), 0);
  }
};

class Letters final : public StreamDataset {
 public:
  void describe(DatasetInfo& info) override { info.shards(3); }
  bool next(const tenon_window*, uint32_t shard, int64_t n, BatchWriter& writer) override {
    writer.set_counts(n, 0);
    at[shard] += "a";
    writer.set_position(at[shard]);
    return at[shard].size() > 1;
  }
  void seek(const tenon_window*, uint32_t shard, const std::string* position) override {
    at[shard] = position == nullptr ? "start" : *position;
  }
  bool next_window(Window& out) override {
    out.id = 7;
    return true;
  }
  std::string at[3];
};

template <class T>
const tenon_dataset& dataset_table() {
  return *static_cast<const tenon_dataset*>(T::template table<T>());
}

}  // namespace

TEST_CASE("a dataset of the map style reads indices, and may stop with the run", "[sdk]") {
  Numbers numbers;
  numbers.attach(Host(&fake_host));
  void* const self = static_cast<AnyDataset*>(&numbers);
  const tenon_dataset& table = dataset_table<Numbers>();
  CHECK(table.next == nullptr);
  CHECK(table.seek == nullptr);
  const tenon_exec exec = fake_exec();
  Batch batch;
  const int64_t indices[] = {3, 1};
  tenon_read_args args{sizeof args, nullptr, indices, 2, &batch.writer};
  CHECK(said(table.read(self, &exec, &args)).code == TENON_OK);
  CHECK(batch.samples == 2);

  stop = true;
  const Said cancelled = said(table.read(self, &exec, &args));
  stop = false;
  CHECK(cancelled.code == TENON_CANCELLED);
  CHECK(cancelled.message == "gave up at sample 3");

  CHECK(said(table.read(self, nullptr, &args)).code == TENON_INVALID);
  CHECK(said(table.read(self, &exec, nullptr)).code == TENON_INVALID);
  args.indices = nullptr;
  CHECK(said(table.read(self, &exec, &args)).code == TENON_INVALID);
  CHECK(num_statuses == 0);
}

TEST_CASE("a dataset of the stream style reads shards from positions", "[sdk]") {
  Letters letters;
  letters.attach(Host(&fake_host));
  void* const self = static_cast<AnyDataset*>(&letters);
  const tenon_dataset& table = dataset_table<Letters>();
  CHECK(table.read == nullptr);
  const tenon_exec exec = fake_exec();
  Batch batch;
  tenon_next_args next{sizeof next, nullptr, 2, 0, 5, &batch.writer};
  CHECK(said(table.next(self, &exec, &next)).code == TENON_OK);
  CHECK(next.out_end == 0);
  CHECK(batch.samples == 5);
  CHECK(batch.position == "a");
  CHECK(said(table.next(self, &exec, &next)).code == TENON_OK);
  CHECK(next.out_end == 1);

  tenon_seek_args seek{sizeof seek, nullptr, 1, 0, "pq-", 2};
  CHECK(said(table.seek(self, &exec, &seek)).code == TENON_OK);
  CHECK(letters.at[1] == "pq");
  seek.position = nullptr;
  CHECK(said(table.seek(self, &exec, &seek)).code == TENON_OK);
  CHECK(letters.at[1] == "start");
  CHECK(said(table.seek(self, &exec, nullptr)).code == TENON_INVALID);

  tenon_window window{};
  uint32_t has = 0;
  CHECK(said(table.next_window(self, &window, &has)).code == TENON_OK);
  CHECK(has == 1);
  CHECK(window.id == 7);
  CHECK(num_statuses == 0);
}

TEST_CASE("a hook reads outputs and losses, and changes what it declares", "[sdk]") {
  // What the services received, and what they answer.
  struct Run {
    std::string output;
    std::string field;
    const tenon_tensor* tensor = nullptr;
    double scale = 0;
    uint32_t reduction = 99;
    std::optional<double> loss;
  } run;
  static const auto of = [](tenon_run* r) -> Run& { return *reinterpret_cast<Run*>(r); };
  static const int64_t number = 6;
  static const auto* const tensor = reinterpret_cast<const tenon_tensor*>(&number);
  tenon_run_api api{};
  api.struct_size = sizeof api;
  api.get_output = [](tenon_run* r, const char* name, const tenon_tensor** out) -> tenon_status* {
    of(r).output = name;
    *out = tensor;
    return nullptr;
  };
  api.set_field = [](tenon_run* r, const char* name, const tenon_tensor* t) -> tenon_status* {
    of(r).field = name;
    of(r).tensor = t;
    return nullptr;
  };
  api.scale_loss = [](tenon_run* r, double factor) -> tenon_status* {
    of(r).scale = factor;
    return nullptr;
  };
  api.get_step_loss = [](tenon_run* r, double* out) -> tenon_status* {
    if (!of(r).loss) {
      return make(nullptr, TENON_NOT_FOUND, "absent", "no loss yet", "host.cpp", 9);
    }
    *out = *of(r).loss;
    return nullptr;
  };
  api.all_reduce = [](tenon_run* r, double* values, size_t n, uint32_t how) -> tenon_status* {
    of(r).reduction = how;
    for (size_t i = 0; i < n; ++i) {
      values[i] *= 2;
    }
    return how == TENON_REDUCE_OWN ? make(nullptr, TENON_INVALID, "bad", "no", "host.cpp", 9)
                                   : nullptr;
  };
  const tenon_exec exec = fake_exec();
  tenon_event raw{};
  raw.struct_size = sizeof raw;
  raw.run = reinterpret_cast<tenon_run*>(&run);
  raw.api = &api;
  raw.exec = &exec;
  const Host host(&fake_host);
  const Event event(host, &raw);

  CHECK(event.exec().get() == &exec);
  CHECK(event.exec().is_train());
  CHECK(event.output("logits").numel() == 6);
  CHECK(run.output == "logits");
  event.set_field("x", tensor);
  CHECK(run.field == "x");
  CHECK(run.tensor == tensor);
  event.scale_loss(0.5);
  CHECK(run.scale == 0.5);
  CHECK_FALSE(event.step_loss().has_value());
  run.loss = 2.5;
  CHECK(event.step_loss() == 2.5);
  double values[] = {1, 3};
  event.all_reduce(values, 2);
  CHECK(run.reduction == TENON_REDUCE_SUM);
  CHECK(values[1] == 6);
  event.all_reduce(values, 1, TENON_REDUCE_MAX);
  CHECK(run.reduction == TENON_REDUCE_MAX);
  CHECK_THROWS_AS(event.all_reduce(values, 1, TENON_REDUCE_OWN), Error);
  CHECK(num_statuses == 0);
}

TEST_CASE("the context of a call tells its mode", "[sdk]") {
  tenon_exec raw = fake_exec();
  const Host host(&fake_host);
  const Exec exec(host, &raw);
  CHECK(exec.is_train());
  CHECK_FALSE(exec.stop_requested());
  for (const uint32_t mode : {TENON_MODE_EVALUATE, TENON_MODE_PREFILL, TENON_MODE_DECODE}) {
    raw.mode = mode;
    CHECK(exec.mode() == mode);
    CHECK_FALSE(exec.is_train());
  }
}

TEST_CASE("the entries of a checkpoint are listed with their types", "[sdk]") {
  static const std::vector<StateEntry> kEntries = {{"best", TENON_STATE_DOUBLE},
                                                   {"mean/0", TENON_STATE_TENSOR}};
  tenon_state_reader raw{};
  raw.struct_size = sizeof raw;
  raw.get_num_entries = [](tenon_state_reader*, size_t* out) -> tenon_status* {
    *out = kEntries.size();
    return nullptr;
  };
  raw.get_entry =
      [](tenon_state_reader*, size_t i, const char** name, uint32_t* type) -> tenon_status* {
    *name = kEntries.at(i).name.c_str();
    *type = kEntries.at(i).type;
    return nullptr;
  };
  const StateReader reader(Host(&fake_host), &raw);
  const std::vector<StateEntry> entries = reader.entries();
  REQUIRE(entries.size() == 2);
  CHECK(entries[1].name == "mean/0");
  CHECK(entries[1].type == TENON_STATE_TENSOR);
  CHECK(reader.has("best"));
  CHECK_FALSE(reader.has("mean"));
}

TEST_CASE("numbers in a schema read back as they were", "[sdk]") {
  for (const double value : {0.0, 1.0, 0.1, 1.0 / 3, 1e-300, -2.5e17, 9007199254740993.0}) {
    CHECK(json::parse(json_number(value)).get<double>() == value);
  }
  CHECK(json_number(1.0) == "1.0");
  CHECK_THROWS_AS(json_number(std::numeric_limits<double>::infinity()), Error);
}

}  // namespace tenon
