// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/options_service.hpp"

#include "host/error/assert.hpp"
#include "host/error/status.hpp"
#include "host/plugin/component_identity.hpp"
#include "host/tensor/sized_struct.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <cmath>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <string_view>

struct tenon_options {
  nlohmann::ordered_json root;
  tenon::NamedComponents nested;
  const tenon::ComponentIdentity* identity;

  // Texts returned by get_json. A deque, because its elements keep their addresses.
  mutable std::mutex mutex;
  mutable std::deque<std::string> texts;
};

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const tenon_options& options,
                       std::string_view pointer,
                       uint32_t code,
                       const char* id,
                       const std::string& what) {
  const LoadedComponent& component = options.identity->component();
  const std::string place =
      pointer.empty() ? "the options" : "option \"" + std::string(pointer) + '"';
  throw StatusError(
      code, id, place + " of " + component.kind + " \"" + component.type + "\" " + what);
}

// Unescapes a token of a JSON pointer (RFC 6901). Returns null for an invalid escape.
std::optional<std::string> unescape(std::string_view token) {
  std::string result;
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '~') {
      result += token[i];
    } else if (i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
      result += token[++i] == '0' ? '~' : '/';
    } else {
      return std::nullopt;
    }
  }
  return result;
}

const Json* element_of_list(const Json& list, const std::string& token) {
  std::size_t index = 0;
  const auto [end, problem] = std::from_chars(token.data(), token.data() + token.size(), index);
  const bool is_index = problem == std::errc() && end == token.data() + token.size() &&
                        (token.size() == 1 || token[0] != '0');
  return is_index && index < list.size() ? &list[index] : nullptr;
}

// Returns the value at `pointer`, or null if it does not exist.
const Json* find(const tenon_options& options, std::string_view pointer) {
  const Json* value = &options.root;
  std::string_view rest = pointer;
  while (!rest.empty()) {
    if (rest.front() != '/') {
      fail(options,
           pointer,
           TENON_INVALID,
           "options.bad_pointer",
           "cannot be looked up: a JSON pointer is empty or begins with \"/\"");
    }
    rest.remove_prefix(1);
    const std::string_view raw = rest.substr(0, rest.find('/'));
    rest.remove_prefix(raw.size());
    const std::optional<std::string> token = unescape(raw);
    if (!token) {
      fail(options,
           pointer,
           TENON_INVALID,
           "options.bad_pointer",
           "cannot be looked up: \"~\" in a JSON pointer is written \"~0\"");
    }
    if (value->is_object()) {
      const auto member = value->find(*token);
      value = member != value->end() ? &*member : nullptr;
    } else {
      value = value->is_array() ? element_of_list(*value, *token) : nullptr;
    }
    if (value == nullptr) {
      return nullptr;
    }
  }
  return value;
}

const Json& get(const tenon_options& options, std::string_view pointer) {
  const Json* const value = find(options, pointer);
  if (value == nullptr) {
    fail(options, pointer, TENON_NOT_FOUND, "options.not_found", "does not exist");
  }
  return *value;
}

uint32_t kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return TENON_OPTION_NULL;
    case Json::value_t::boolean:
      return TENON_OPTION_BOOL;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return TENON_OPTION_INT;
    case Json::value_t::number_float:
      return TENON_OPTION_DOUBLE;
    case Json::value_t::string:
      return TENON_OPTION_STRING;
    case Json::value_t::array:
      return TENON_OPTION_LIST;
    case Json::value_t::object:
      return TENON_OPTION_OBJECT;
    default:  // binary and discarded values do not occur in JSON text
      return TENON_OPTION_ABSENT;
  }
}

[[noreturn]] void fail_type(const tenon_options& options,
                            std::string_view pointer,
                            const char* wanted,
                            const Json& found) {
  fail(options,
       pointer,
       TENON_INVALID,
       "options.wrong_type",
       std::string("is read as ") + wanted + ", but is " + found.type_name());
}

// Accepts 3.0 as an integer, like JSON Schema and recipe validation.
std::optional<int64_t> as_int(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
               ? std::optional(static_cast<int64_t>(number))
               : std::nullopt;
  }
  if (value.is_number_integer()) {
    return value.get<int64_t>();
  }
  if (value.is_number_float()) {
    const double number = value.get<double>();
    const bool fits = number >= -0x1p63 && number < 0x1p63;  // false for NaN
    return fits && std::trunc(number) == number ? std::optional(static_cast<int64_t>(number))
                                                : std::nullopt;
  }
  return std::nullopt;
}

// Returns the text as a C string. Fails if it contains a NUL, which would truncate it.
const char* as_text(const tenon_options& options,
                    std::string_view pointer,
                    const std::string& text) {
  if (text.find('\0') != std::string::npos) {
    fail(options, pointer, TENON_INVALID, "options.wrong_type", "contains a NUL character");
  }
  return text.c_str();
}

// The body of each getter. Null arguments are errors; `read` receives the options and the pointer.
template <class Out, class Read>
tenon_status* getter(const tenon_options* options, const char* pointer, Out* out, Read&& read) {
  return guard(nullptr, [&] {
    if (options == nullptr || pointer == nullptr || out == nullptr) {
      throw StatusError(TENON_INVALID,
                        "options.null_argument",
                        "an options function was called with a null argument");
    }
    *out = read(*options, std::string_view(pointer));
  });
}

uint32_t kind(const tenon_options* options, const char* pointer) {
  uint32_t result = TENON_OPTION_ABSENT;
  // An invalid pointer also counts as absent.
  release(getter(options, pointer, &result, [](const tenon_options& all, std::string_view where) {
    const Json* const value = find(all, where);
    return value != nullptr ? kind_of(*value) : static_cast<uint32_t>(TENON_OPTION_ABSENT);
  }));
  return result;
}

tenon_status* get_bool(const tenon_options* options, const char* pointer, uint32_t* out) {
  return getter(options, pointer, out, [](const tenon_options& all, std::string_view where) {
    const Json& value = get(all, where);
    if (!value.is_boolean()) {
      fail_type(all, where, "a boolean", value);
    }
    return value.get<bool>() ? 1U : 0U;
  });
}

tenon_status* get_int(const tenon_options* options, const char* pointer, int64_t* out) {
  return getter(options, pointer, out, [](const tenon_options& all, std::string_view where) {
    const Json& value = get(all, where);
    if (!value.is_number()) {
      fail_type(all, where, "an integer", value);
    }
    const std::optional<int64_t> number = as_int(value);
    if (!number) {
      fail(all,
           where,
           TENON_INVALID,
           "options.wrong_type",
           "is read as a 64-bit integer, but is " + value.dump());
    }
    return *number;
  });
}

tenon_status* get_double(const tenon_options* options, const char* pointer, double* out) {
  return getter(options, pointer, out, [](const tenon_options& all, std::string_view where) {
    const Json& value = get(all, where);
    if (!value.is_number()) {
      fail_type(all, where, "a number", value);
    }
    return value.get<double>();
  });
}

tenon_status* get_string(const tenon_options* options, const char* pointer, const char** out_ref) {
  return getter(options, pointer, out_ref, [](const tenon_options& all, std::string_view where) {
    const Json& value = get(all, where);
    if (!value.is_string()) {
      fail_type(all, where, "a string", value);
    }
    return as_text(all, where, value.get_ref<const std::string&>());
  });
}

tenon_status* get_count(const tenon_options* options, const char* pointer, std::size_t* out) {
  return getter(options, pointer, out, [](const tenon_options& all, std::string_view where) {
    const Json& value = get(all, where);
    if (!value.is_structured()) {
      fail_type(all, where, "a list or an object", value);
    }
    return value.size();
  });
}

tenon_status* get_key(const tenon_options* options,
                      const char* pointer,
                      std::size_t i,
                      const char** out_ref) {
  return getter(options, pointer, out_ref, [i](const tenon_options& all, std::string_view where) {
    const Json& value = get(all, where);
    if (!value.is_object()) {
      fail_type(all, where, "an object", value);
    }
    if (i >= value.size()) {
      fail(all,
           where,
           TENON_NOT_FOUND,
           "options.not_found",
           formatted("has {} members, but number {} is read", value.size(), i));
    }
    const auto& members = value.get_ref<const Json::object_t&>();
    return as_text(all, where, std::next(members.begin(), static_cast<std::ptrdiff_t>(i))->first);
  });
}

tenon_status* get_json(const tenon_options* options, const char* pointer, const char** out_ref) {
  return getter(options, pointer, out_ref, [](const tenon_options& all, std::string_view where) {
    std::string text = get(all, where).dump();
    const std::lock_guard lock(all.mutex);
    return all.texts.emplace_back(std::move(text)).c_str();
  });
}

tenon_status* get_component(const tenon_options* options,
                            const char* pointer,
                            tenon_component_ref* out) {
  return guard(nullptr, [&] {
    if (options == nullptr || pointer == nullptr || out == nullptr) {
      throw StatusError(TENON_INVALID,
                        "options.null_argument",
                        "an options function was called with a null argument");
    }
    refuse_size(size_problem(*out));
    const Json& value = get(*options, pointer);
    const auto found = options->nested.find(pointer);
    if (found == options->nested.end()) {
      if (value.is_null()) {
        fail(*options, pointer, TENON_NOT_FOUND, "options.not_found", "is null");
      }
      fail(*options,
           pointer,
           TENON_INVALID,
           "options.wrong_type",
           "is read as a component, but its schema lacks \"x-tenon-component\"");
    }
    write_sized(*out, found->second);
  });
}

}  // namespace

Options::Options(const std::string& json,
                 const NamedComponents& nested,
                 const ComponentIdentity& identity) {
  auto options = std::make_unique<tenon_options>();
  options->root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  TENON_ASSERT(options->root.is_object(), "options come validated");
  options->nested = nested;
  options->identity = &identity;
  options_ = std::move(options);
}

Options::~Options() = default;

const tenon_options_api* options_service() noexcept {
  static constexpr tenon_options_api kApi = {.struct_size = sizeof(tenon_options_api),
                                             .kind = kind,
                                             .get_bool = get_bool,
                                             .get_int = get_int,
                                             .get_double = get_double,
                                             .get_string = get_string,
                                             .get_count = get_count,
                                             .get_key = get_key,
                                             .get_json = get_json,
                                             .get_component = get_component};
  return &kApi;
}

}  // namespace tenon
