// SPDX-License-Identifier: Apache-2.0
#include <tenon/plugin.h>

#include "host/plugin/manifest.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/subject.hpp"
#include "host/trust/elf/elf_dynamic.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <gnu/libc-version.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr std::size_t kMaxNames = 5;

// "foo, bar and 3 more".
std::string some_names(const std::vector<std::string>& names) {
  std::vector<std::string> first(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMaxNames)));
  std::string text = joined(first);
  if (names.size() > kMaxNames) {
    text += formatted(" and {} more", names.size() - kMaxNames);
  }
  return text;
}

// The checks run after static.elf has passed, so the file can be read.
ElfDynamic dynamic_of(const Subject& subject) {
  return read_elf_dynamic(subject.info().file).value_or(ElfDynamic{});
}

// True for a C++ symbol of these namespaces: "_ZN2at", "_ZNK3c10", "_ZTIN5torch".
bool is_of_namespace(std::string_view symbol, std::string_view name) {
  if (!symbol.starts_with("_Z")) {
    return false;
  }
  symbol.remove_prefix(2);
  const std::string part = formatted("{}{}", name.size(), name);
  for (const std::string_view start : {"", "N", "NK", "TIN", "TVN", "TSN", "TI", "TV", "TS"}) {
    if (symbol.starts_with(start) && symbol.substr(start.size()).starts_with(part)) {
      return true;
    }
  }
  return false;
}

// The libraries that a process must have once: those of the host, its libtorch and its C++ runtime.
constexpr auto kRuntimes = std::to_array<std::string_view>(
    {"libc10", "libtorch", "libtorch_cpu", "libtorch_cuda", "libstdc++", "libgcc_s", "libgomp"});

// True for "libc10.so", "libc10.so.2" and "libc10-0a1b2c3d.so", a name that packaging tools give.
bool is_runtime(std::string_view file) {
  return std::ranges::any_of(kRuntimes, [&](std::string_view name) {
    return file.starts_with(name) && (file.substr(name.size()).starts_with(".so") ||
                                      file.substr(name.size()).starts_with("-"));
  });
}

bool is_renamed_runtime(std::string_view file) {
  return is_runtime(file) && file.find('-') != std::string_view::npos;
}

// Returns the folders of a library path, with $ORIGIN replaced.
std::vector<std::filesystem::path> folders_of(const std::string& path, const std::string& file) {
  std::vector<std::filesystem::path> folders;
  std::string_view rest = path;
  while (!rest.empty()) {
    std::string part(rest.substr(0, rest.find(':')));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    for (const std::string name : {"${ORIGIN}", "$ORIGIN"}) {
      if (part.starts_with(name)) {
        part = std::filesystem::absolute(file).parent_path().string() + part.substr(name.size());
      }
    }
    folders.emplace_back(part);
  }
  return folders;
}

// Parses "GLIBC_2.34".
std::optional<std::pair<int, int>> glibc_version(std::string_view text) {
  constexpr std::string_view kPrefix = "GLIBC_";
  if (!text.starts_with(kPrefix)) {
    return std::nullopt;
  }
  text.remove_prefix(kPrefix.size());
  std::pair<int, int> version{0, 0};
  const char* const end = text.data() + text.size();
  const auto [dot, failed] = std::from_chars(text.data(), end, version.first);
  if (failed != std::errc() || dot == end ||
      std::from_chars(dot + 1, end, version.second).ec != std::errc()) {
    return std::nullopt;
  }
  return version;
}

// Orders "GLIBCXX_3.4.9" before "GLIBCXX_3.4.29".
bool is_older(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace

CheckResult check_elf(Subject& subject) {
  const ManifestFile file = read_manifest(subject.info().file);
  const bool is_other = file.reading == ManifestReading::kNotElf ||
                        file.reading == ManifestReading::kForeign ||
                        file.reading == ManifestReading::kUnreadable;
  if (is_other) {
    return failed(file.problem);
  }
  return read_elf_dynamic(subject.info().file) ? passed()
                                               : failed("the file is truncated or corrupt");
}

CheckResult check_manifest(Subject& subject) {
  const ManifestFile file = read_manifest(subject.info().file);
  return file.reading == ManifestReading::kOk ? passed() : failed(file.problem);
}

CheckResult check_compatible(Subject& subject) {
  const std::optional<Error>& refusal = subject.info().refusal;
  // Another check finds these.
  if (!refusal || refusal->id() == "plugin.shared_symbol") {
    return passed();
  }
  return failed(refusal->what());
}

CheckResult check_one_export(Subject& subject) {
  std::vector<std::string> exported = dynamic_of(subject).exported;
  if (std::erase(exported, TENON_ENTRY_SYMBOL) == 0) {
    return failed("the file does not export " TENON_ENTRY_SYMBOL +
                      (exported.empty() ? "" : ", but " + some_names(exported)),
                  "define it with TENON_EXPORT; in C++, TENON_PLUGIN(...) defines it");
  }
  return exported.empty() ? passed() : failed("the file also exports " + some_names(exported));
}

CheckResult check_unique_symbols(Subject& subject) {
  const std::vector<std::string> unique = dynamic_of(subject).unique;
  return unique.empty() ? passed() : failed("the file defines " + some_names(unique));
}

CheckResult check_host_symbols(Subject& subject) {
  std::vector<std::string> symbols = dynamic_of(subject).undefined;
  std::erase_if(symbols, [](const std::string& symbol) {
    return !symbol.starts_with("tenon_") && !is_of_namespace(symbol, "tenon");
  });
  return symbols.empty() ? passed() : failed("the file needs " + some_names(symbols));
}

CheckResult check_torch_symbols(Subject& subject) {
  const std::string& lane = subject.info().manifest.lane;
  if (lane != "stable") {
    return skipped("the lane of the plugin is " + lane);
  }
  std::vector<std::string> symbols = dynamic_of(subject).undefined;
  std::erase_if(symbols, [](const std::string& symbol) {
    return !is_of_namespace(symbol, "at") && !is_of_namespace(symbol, "c10") &&
           !is_of_namespace(symbol, "torch") && !is_of_namespace(symbol, "caffe2");
  });
  return symbols.empty() ? passed() : failed("the file needs " + some_names(symbols));
}

CheckResult check_library_path(Subject& subject) {
  const std::string path = dynamic_of(subject).library_path;
  for (const std::filesystem::path& folder : folders_of(path, subject.info().file)) {
    if (folder.is_relative()) {
      return failed("the library path " + path + " depends on the working directory");
    }
    std::error_code failed_to_read;  // a folder that does not exist holds nothing
    for (const auto& entry : std::filesystem::directory_iterator(folder, failed_to_read)) {
      if (const std::string name = entry.path().filename().string(); is_runtime(name)) {
        return failed("the library path " + path + " has a folder with " + name);
      }
    }
  }
  return passed(path.empty() ? "" : "library path: " + path);
}

CheckResult check_runtimes(Subject& subject) {
  for (const std::string& library : dynamic_of(subject).needed) {
    if (library.find('/') != std::string::npos) {
      return failed("the file needs " + library + ", a path",
                    "link with the library's soname, without a folder");
    }
    if (is_renamed_runtime(library)) {
      return failed("the file needs " + library + ", a second copy of a library of the host");
    }
  }
  return passed();
}

CheckResult check_text_relocations(Subject& subject) {
  return dynamic_of(subject).has_text_relocations
             ? failed("the dynamic linker must change the file's code to load it")
             : passed();
}

CheckResult check_stack(Subject& subject) {
  return dynamic_of(subject).has_executable_stack
             ? failed("the file asks for an executable stack, which all threads then have")
             : passed();
}

CheckResult check_static_tls(Subject& subject) {
  return dynamic_of(subject).has_static_tls
             ? failed("the file has the flag STATIC_TLS; few such libraries fit into a process")
             : passed();
}

CheckResult check_system_versions(Subject& subject) {
  std::string newest_glibc;
  std::string newest_cxx;
  for (const std::string& version : dynamic_of(subject).versions) {
    if (glibc_version(version) &&
        (newest_glibc.empty() || glibc_version(newest_glibc) < glibc_version(version))) {
      newest_glibc = version;
    }
    if (version.starts_with("GLIBCXX_") && (newest_cxx.empty() || is_older(newest_cxx, version))) {
      newest_cxx = version;
    }
  }
  const std::string here = "GLIBC_" + std::string(gnu_get_libc_version());
  if (!newest_glibc.empty() && glibc_version(here) < glibc_version(newest_glibc)) {
    return failed("the file needs " + newest_glibc + ", this system has " + here);
  }
  std::vector<std::string> newest;
  for (const std::string& version : {newest_glibc, newest_cxx}) {
    if (!version.empty()) {
      newest.push_back(version);
    }
  }
  return passed(newest.empty() ? "" : "newest versions that it needs: " + joined(newest));
}

}  // namespace tenon
