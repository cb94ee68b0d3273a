// SPDX-License-Identifier: Apache-2.0
#include "host/json/schema_arbiter.hpp"
#include "host/json/schema_check.hpp"
#include "host/plugin/options_service.hpp"
#include "host/plugin/vet_components.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/subject.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using nlohmann::json;

constexpr std::size_t kLongString = 1 << 20;
constexpr rlim_t kMoreMemory = rlim_t{4} << 30;
constexpr const char* kComponentMark = "x-tenon-component";

// An option and its schema.
struct OptionProperty {
  std::string name;
  json schema;
};

std::vector<OptionProperty> properties_of(const LoadedComponent& component) {
  std::vector<OptionProperty> all;
  const json schema = json::parse(component.options_schema);
  if (const auto properties = schema.find("properties"); properties != schema.end()) {
    for (const auto& [name, property] : properties->items()) {
      all.push_back({name, property});
    }
  }
  return all;
}

// True if one of the schema's types, or of its variants, is `type`.
bool allows_type(const json& schema, std::string_view type) {
  const auto found = schema.find("type");
  if (found == schema.end()) {
    return true;
  }
  if (found->is_string()) {
    return *found == type;
  }
  return found->is_array() && std::ranges::find(*found, type) != found->end();
}

bool is_constrained(const json& schema) {
  for (const char* const key :
       {"type", "enum", "const", "oneOf", "anyOf", "allOf", "$ref", kComponentMark}) {
    if (schema.contains(key)) {
      return true;
    }
  }
  return false;
}

// True if the host would refuse a recipe with these options.
bool is_refused(const json& options, const json& schema, const SchemaArbiter& arbiter) {
  ProblemList problems;
  check_schema(options, schema, "", {}, problems);
  if (problems.empty()) {
    arbiter.check(options, "", {}, problems);
  }
  return !problems.empty();
}

// A value that an option should refuse, and why.
struct WrongValue {
  json value;
  std::string what;
};

void add_bounds(const json& schema, std::vector<WrongValue>& values) {
  const auto bound = [&](const char* key, double step) {
    const auto found = schema.find(key);
    if (found == schema.end() || !found->is_number()) {
      return;
    }
    constexpr double kExact = 1e15;  // below, a double holds each integer
    const double number = found->get<double>();
    if (std::abs(number) > kExact) {
      return;
    }
    const json wrong = found->is_number_integer() ? json(static_cast<int64_t>(number + step))
                                                  : json(number + step);
    values.push_back(
        {wrong, formatted("{}, {} its {}", wrong.dump(), step < 0 ? "below" : "above", key)});
  };
  bound("minimum", -1);
  bound("maximum", 1);
  for (const char* const key : {"exclusiveMinimum", "exclusiveMaximum"}) {
    if (const auto found = schema.find(key); found != schema.end() && found->is_number()) {
      values.push_back({*found, formatted("{}, its {}", found->dump(), key)});
    }
  }
  if (schema.contains("enum")) {
    values.push_back({"no such value", "a value outside its enum"});
  }
}

// Values of each type that the schema does not name, and values out of range.
std::vector<WrongValue> wrong_values(const json& schema) {
  std::vector<WrongValue> values;
  const bool is_plain = schema.contains("type");
  const std::vector<std::pair<std::string_view, json>> samples = {
      {"string", "text"},
      {"boolean", true},
      {"array", json::array({json::object()})},
      {"object", {{"no such key", 1}}},
      {"null", nullptr},
      {"number", 0.5}};
  for (const auto& [type, sample] : samples) {
    if (is_plain && !allows_type(schema, type)) {
      values.push_back({sample, "a value of type " + std::string(type)});
    }
  }
  add_bounds(schema, values);
  return values;
}

// Values that the schema may accept and that are unusual.
std::vector<json> extreme_values(const json& schema) {
  std::vector<json> values;
  for (const char* const key : {"minimum", "maximum"}) {
    if (schema.contains(key)) {
      values.push_back(schema[key]);
    }
  }
  if (allows_type(schema, "integer")) {
    values.insert(values.end(),
                  {0, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()});
  }
  if (allows_type(schema, "number")) {
    values.insert(values.end(), {1e308, -1e308, 5e-324});
  }
  if (allows_type(schema, "string")) {
    values.insert(values.end(),
                  {"", std::string(kLongString, 'x'), "\x01\x02", "\xff\xfe\xc3", "%s%n"});
  }
  if (allows_type(schema, "array")) {
    values.insert(values.end(), {json::array(), json::array({-1}), json::array({"", ""})});
  }
  return values;
}

// Creates and destroys the component with options that its author may not expect. A status is a
// right answer.
void create_with(Subject& subject, const CheckedComponent& checked, const json& options) {
  CheckedComponent changed = checked;
  changed.options = options.dump(-1, ' ', false, json::error_handler_t::replace);
  changed.use = nullptr;
  try {
    ComponentInstance instance = subject.create(changed);
    subject.note("destroy of " + checked.name());
  } catch (const Error&) {
  }
}

// So that a plugin which takes a huge number as a size gets an error, and the machine lives on.
void limit_memory() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;  // addresses, of which the host has reserved many
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  const auto page_bytes = static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  limit.rlim_cur = std::min(limit.rlim_max, pages * page_bytes + kMoreMemory);
  ::setrlimit(RLIMIT_AS, &limit);
}

std::string option_name(const CheckedComponent& checked, const OptionProperty& property) {
  return "option \"" + property.name + "\" of " + checked.name();
}

}  // namespace

CheckResult check_schemas(Subject& subject) {
  Findings findings;
  try {
    subject.plugin();
  } catch (const Error& error) {
    if (error.id() == "plugin.bad_schema") {
      return failed(error.message());
    }
    return skipped("the host refuses the plugin for another reason: " + error.message());
  }
  for (const LoadedComponent& component : subject.plugin().components) {
    const CheckedComponent checked{.component = &component};
    findings.add_examined();
    try {
      const SchemaArbiter arbiter(json::parse(component.options_schema), component.describe());
    } catch (const Error& error) {
      findings.add_problem(error.message());
      continue;
    }
    for (const OptionProperty& property : properties_of(component)) {
      if (!property.schema.is_object() || !is_constrained(property.schema)) {
        findings.add_problem(option_name(checked, property) + " accepts a value of any type");
      }
    }
  }
  return findings.result("the plugin has no component");
}

CheckResult check_defaults(Subject& subject) {
  Findings findings;
  for (const CheckedComponent& checked : subject.components()) {
    if (!checked.problem.empty()) {
      findings.add_skipped(checked.problem);
      continue;
    }
    findings.add_examined();
    try {
      ComponentInstance instance = subject.create(checked);
      subject.note("describe or destroy of " + checked.name());
      describe_instance(std::move(instance));
    } catch (const Error& error) {
      findings.add_problem(error.message() + " [" + error.id() + "]");
    }
  }
  return findings.result("the plugin has no component");
}

CheckResult check_refused_values(Subject& subject) {
  Findings findings;
  for (const CheckedComponent& checked : subject.components()) {
    const json schema = json::parse(checked.component->options_schema);
    const SchemaArbiter arbiter(schema, checked.component->describe());
    findings.add_examined();
    json options = json::parse(checked.options);
    options["no such option"] = 1;
    if (is_refused(json::parse(checked.options), schema, arbiter)) {
      findings.add_skipped(checked.problem);  // a required option is missing
      continue;
    }
    if (!is_refused(options, schema, arbiter)) {
      findings.add_problem("the schema of " + checked.name() +
                           " accepts options that it does not list; set additionalProperties to "
                           "false");
    }
    for (const OptionProperty& property : properties_of(*checked.component)) {
      for (const WrongValue& wrong : wrong_values(property.schema)) {
        options = json::parse(checked.options);
        options[property.name] = wrong.value;
        if (!is_refused(options, schema, arbiter)) {
          findings.add_problem(option_name(checked, property) + " accepts " + wrong.what);
        }
      }
    }
  }
  return findings.result("the plugin has no component");
}

CheckResult check_extreme_values(Subject& subject) {
  Findings findings;
  int num_tried = 0;
  limit_memory();
  for (const CheckedComponent& checked : subject.components()) {
    if (!checked.problem.empty()) {
      findings.add_skipped(checked.problem);
      continue;
    }
    findings.add_examined();
    const json schema = json::parse(checked.component->options_schema);
    const SchemaArbiter arbiter(schema, checked.component->describe());
    for (const OptionProperty& property : properties_of(*checked.component)) {
      if (!property.schema.is_object() || property.schema.contains(kComponentMark)) {
        continue;
      }
      for (const json& value : extreme_values(property.schema)) {
        json options = json::parse(checked.options);
        options[property.name] = value;
        const json copied =
            json::parse(options.dump(-1, ' ', false, json::error_handler_t::replace));
        if (!is_refused(copied, schema, arbiter)) {
          ++num_tried;
          create_with(subject, checked, copied);
        }
      }
    }
  }
  findings.add_remark(formatted("{} values that the schemas accept", num_tried));
  return findings.result("the plugin has no component");
}

CheckResult check_unchecked_options(Subject& subject) {
  Findings findings;
  for (const CheckedComponent& checked : subject.components()) {
    const LoadedComponent& component = *checked.component;
    const ComponentIdentity identity(component, "/check");
    for (const char* const text : {"{}", R"({"no such option": 1})"}) {
      const Options options(text, {}, identity);
      const tenon_create_args args = {.struct_size = sizeof(tenon_create_args),
                                      .options = options.abi(),
                                      .place = "/check",
                                      .seed = subject.request().seed,
                                      .mesh = &lone_mesh()};
      subject.note("create of " + checked.name() + " without options");
      void* self = nullptr;
      const StatusText status =
          take(component.descriptor->create(component.plugin->host.abi(), &args, &self));
      findings.add_examined();
      if (status.ok()) {
        component.descriptor->destroy(self);
        continue;
      }
      if (status.id.empty() || status.message.empty()) {
        findings.add_problem(
            formatted("create of {} returned a status with id \"{}\" and message \"{}\"",
                      checked.name(),
                      status.id,
                      status.message));
      }
    }
  }
  return findings.result("the plugin has no component");
}

}  // namespace tenon
