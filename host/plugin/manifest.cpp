// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/manifest.hpp"

#include <tenon/manifest.h>

#include "host/plugin/kinds.hpp"
#include "host/text/formatted.hpp"
#include "host/trust/elf/elf_notes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

namespace tenon {
namespace {

constexpr std::size_t kMaxNameLength = 64;
constexpr std::size_t kMaxIdLength = 128;

bool is_lower(char c) noexcept {
  return c >= 'a' && c <= 'z';
}
bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

// Splits at each `separator`; "" yields one empty part.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

// True for "1.2.3" with three parts. At most nine digits per part, so that each fits an int.
bool is_version(std::string_view text, std::size_t num_parts) {
  const std::vector<std::string_view> parts = split(text, '.');
  return parts.size() == num_parts && std::ranges::all_of(parts, [](std::string_view part) {
           return !part.empty() && part.size() <= 9 && std::ranges::all_of(part, is_digit);
         });
}

bool is_plugin_id(std::string_view id) {
  const std::vector<std::string_view> labels = split(id, '.');
  return id.size() <= kMaxIdLength && labels.size() >= 2 &&
         std::ranges::all_of(labels, [](std::string_view label) {
           return !label.empty() && std::ranges::all_of(label, [](char c) {
             return is_lower(c) || is_digit(c) || c == '_' || c == '-';
           });
         });
}

// Returns the numbers of "1.2", which is_version() has accepted.
std::array<uint32_t, 2> version_numbers(std::string_view text) {
  std::array<uint32_t, 2> numbers{};
  const std::vector<std::string_view> parts = split(text, '.');
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::from_chars(parts[i].data(), parts[i].data() + parts[i].size(), numbers[i]);
  }
  return numbers;
}

// Parses "0.4" or "1.0..1.3". Returns the empty range for anything else.
AbiRange parse_abi_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  const std::string_view min = text.substr(0, dots);
  const std::string_view max = dots == std::string_view::npos ? min : text.substr(dots + 2);
  if (!is_version(min, 2) || !is_version(max, 2)) {
    return {};
  }
  const auto [min_major, min_minor] = version_numbers(min);
  const auto [max_major, max_minor] = version_numbers(max);
  if (min_major != max_major || min_minor > max_minor) {
    return {};
  }
  return {.major = min_major, .min_minor = min_minor, .max_minor = max_minor};
}

// True for "tenon.op/1": a dotted name in lower case, and a version from 1.
bool is_service_id(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos || !is_plugin_id(text.substr(0, slash))) {
    return false;
  }
  const std::string_view version = text.substr(slash + 1);
  return !version.empty() && version.size() <= 9 && version.front() != '0' &&
         std::ranges::all_of(version, is_digit);
}

// True if a message can contain the text unchanged: printable ASCII without control characters.
bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

class Parser {
 public:
  std::string run(std::string_view text) {
    for (const std::string_view line : split(text, '\n')) {
      if (line.empty()) {
        continue;
      }
      const std::size_t equals = line.find('=');
      if (!is_printable(line) || equals == std::string_view::npos) {
        return "it has a line that is not key=value";
      }
      if (std::string why = take(line.substr(0, equals), std::string(line.substr(equals + 1)));
          !why.empty()) {
        return why;
      }
    }
    return missing();
  }

  Manifest manifest;

 private:
  // `given_key` may start with '!': a host that does not know the key must not use the plugin.
  std::string take(std::string_view given_key, std::string value) {
    const std::string_view key = given_key.substr(given_key.starts_with('!') ? 1 : 0);
    if (key == "component") {
      return take_component(value);
    }
    if (key == "requires") {
      return take_service(std::move(value));
    }
    std::string* const field = key == "id"        ? &manifest.id
                               : key == "version" ? &manifest.version
                               : key == "abi"     ? &abi_
                               : key == "lane"    ? &manifest.lane
                               : key == "torch"   ? &manifest.torch
                                                  : nullptr;
    if (field == nullptr) {  // a key of a later SDK
      if (key != given_key && manifest.unknown_key.empty()) {
        manifest.unknown_key = given_key;
      }
      return {};
    }
    if (!field->empty()) {
      return "it has \"" + std::string(key) + "\" twice";
    }
    if (value.empty()) {
      return "its \"" + std::string(key) + "\" is empty";
    }
    const bool is_legal = key == "id"        ? is_plugin_id(value)
                          : key == "version" ? is_version(value, 3)
                          : key == "abi"     ? !parse_abi_range(value).is_empty()
                                             : true;
    if (!is_legal) {
      return "its " + std::string(key) + " is \"" + value + "\", expected " +
             (key == "id"        ? "a reverse domain in lower case (com.example.focal)"
              : key == "version" ? "MAJOR.MINOR.PATCH"
                                 : "MAJOR.MINOR, or MIN..MAX of one major version (1.0..1.3)");
    }
    *field = std::move(value);
    if (key == "abi") {
      manifest.abi = parse_abi_range(abi_);
    }
    return {};
  }

  std::string take_service(std::string value) {
    if (!is_service_id(value)) {
      return "its requires is \"" + value + "\", expected a service and its version (tenon.op/1)";
    }
    manifest.services.push_back(std::move(value));
    return {};
  }

  std::string take_component(const std::string& value) {
    const std::size_t colon = value.find(':');
    if (colon == std::string::npos) {
      return "its component \"" + value + "\" is not kind:type";
    }
    ComponentName name{value.substr(0, colon), value.substr(colon + 1)};
    if (!is_type_name(name.kind) || !is_type_name(name.type)) {
      return "its component \"" + value + "\" is not kind:type in lower case, digits and \"_\"";
    }
    if (std::ranges::find(manifest.components, name) != manifest.components.end()) {
      return "it lists the component \"" + value + "\" twice";
    }
    manifest.components.push_back(std::move(name));
    return {};
  }

  std::string missing() const {
    for (const auto& [key, value] : {std::pair("id", &manifest.id),
                                     std::pair("version", &manifest.version),
                                     std::pair("abi", &abi_),
                                     std::pair("lane", &manifest.lane)}) {
      if (value->empty()) {
        return std::string("it has no \"") + key + "\"";
      }
    }
    if (manifest.lane == "torch" && manifest.torch.empty()) {
      return "it has no \"torch\", which lane=torch needs";
    }
    if (manifest.components.empty()) {
      return "it has no \"component\"";
    }
    return {};
  }

  std::string abi_;  // as the manifest has it
};

}  // namespace

bool is_type_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= kMaxNameLength && is_lower(name.front()) &&
         std::ranges::all_of(name, [](char c) { return is_lower(c) || is_digit(c) || c == '_'; });
}

Manifest parse_manifest(std::string_view text, std::string& problem) {
  Parser parser;
  // The note is padded with NULs.
  problem = parser.run(text.substr(0, text.find('\0')));
  return std::move(parser.manifest);
}

ManifestFile read_manifest(const std::string& file) {
  ElfNotes elf = read_elf_notes(file);
  std::erase_if(elf.notes, [](const ElfNote& note) {
    return note.owner != TENON_MANIFEST_OWNER || note.type != TENON_MANIFEST_TYPE;
  });
  ManifestFile result;
  result.is_native_library = elf.reading == ElfReading::kOk;
  if (elf.reading == ElfReading::kNotElf) {
    result.problem = "it is not a shared library";
    return result;
  }
  if (elf.reading == ElfReading::kUnreadable || elf.reading == ElfReading::kBroken) {
    result.reading =
        elf.reading == ElfReading::kBroken ? ManifestReading::kBad : ManifestReading::kUnreadable;
    result.problem = elf.problem;
  } else if (elf.notes.empty()) {
    result.reading = ManifestReading::kNoManifest;
    // Manifests of other byte orders and word sizes are not read.
    result.problem = elf.reading == ElfReading::kForeign
                         ? elf.problem
                         : "it has no manifest (an ELF note in section .note.tenon)";
  } else if (elf.notes.size() > 1) {
    result.reading = ManifestReading::kBad;
    result.problem = formatted(
        "it has {} manifests; use TENON_MANIFEST in only one file of a plugin", elf.notes.size());
  } else {
    result.reading =
        elf.reading == ElfReading::kForeign ? ManifestReading::kForeign : ManifestReading::kOk;
  }
  // Messages should name the plugin even if it cannot be used.
  if (!elf.notes.empty()) {
    std::string problem;
    result.manifest = parse_manifest(elf.notes.front().content, problem);
    if (result.reading == ManifestReading::kForeign) {
      result.problem = elf.problem;
    } else if (result.reading == ManifestReading::kOk && !problem.empty()) {
      result.reading = ManifestReading::kBad;
      result.problem = problem;
    }
  }
  return result;
}

}  // namespace tenon
