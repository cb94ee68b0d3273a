// SPDX-License-Identifier: Apache-2.0
#include "host/tools/new_plugin/plugin_templates.hpp"

#include "host/error/error.hpp"
#include "host/io/regular_file.hpp"
#include "host/json/bounded_json.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr char kShared[] = "project";
constexpr char kDescription[] = "template.json";
constexpr std::array kSourceExtensions = {".c", ".cpp", ".rs"};
constexpr std::uint64_t kMaxFileBytes = 1 << 20;

[[noreturn]] void fail_templates(const fs::path& path, const std::string& problem) {
  throw Error("usage.no_templates",
              path.string() + ": " + problem + "; install the SDK of this release again");
}

std::string read_text(const fs::path& file) {
  FileText read = read_file_text(file.string(), kMaxFileBytes);
  if (!read.problem.empty()) {
    fail_templates(file, read.problem);
  }
  return std::move(read.text);
}

// Returns the regular files below a folder, except its description, sorted.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  fs::recursive_directory_iterator entry(folder, failed);
  for (; !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored) && entry->path() != folder / kDescription) {
      files.push_back(entry->path());
    }
  }
  if (failed) {
    fail_templates(folder, failed.message());
  }
  std::ranges::sort(files);
  return files;
}

// The description of a folder: its values of type string, or lists of them.
class Description {
 public:
  explicit Description(const fs::path& folder) : file_(folder / kDescription) {
    try {
      json_ = parse_bounded_json(read_text(file_));
    } catch (const BadJson& error) {
      fail_templates(file_, error.what());
    }
  }

  std::string word(const char* key) const { return get<std::string>(key); }
  std::vector<std::string> words(const char* key) const {
    return json_.contains(key) ? get<std::vector<std::string>>(key) : std::vector<std::string>();
  }
  std::map<std::string, std::string> table(const char* key) const {
    return get<std::map<std::string, std::string>>(key);
  }

 private:
  template <class T>
  T get(const char* key) const {
    try {
      return json_.at(key).get<T>();
    } catch (const nlohmann::json::exception&) {
      fail_templates(file_, formatted("`{}` is missing or has another type", key));
    }
  }

  fs::path file_;
  nlohmann::json json_;
};

// "loss-cpp": a loss in c++. "dataset-cpp-stream": a dataset in c++-stream, a variant of c++.
// Nothing for a folder of another name.
std::optional<PluginTemplate> template_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const std::size_t dash = name.find('-');
  if (dash == std::string::npos || dash == 0 || dash + 1 == name.size()) {
    return std::nullopt;
  }
  std::string language = name.substr(dash + 1);
  if (language.starts_with("cpp")) {
    language.replace(0, 3, "c++");
  }
  return PluginTemplate{name.substr(0, dash), language, folder};
}

// Smaller for a language that is a better default.
int preference(const std::string& language) {
  static const std::vector<std::string> kOrder = {"torch", "c++", "c", "rust"};
  return static_cast<int>(std::ranges::find(kOrder, language) - kOrder.begin());
}

}  // namespace

fs::path templates_folder(const fs::path& program) {
  std::string looked;
  for (const char* const relative :
       {"../sdk-stage/share/tenon/templates", TENON_INSTALLED_TEMPLATES}) {
    const fs::path folder = (program.parent_path() / relative).lexically_normal();
    std::error_code ignored;  // an inaccessible folder counts as missing
    if (fs::is_directory(folder, ignored)) {
      return folder;
    }
    looked += (looked.empty() ? "" : " nor ") + folder.string();
  }
  throw Error("usage.no_templates",
              "--new-plugin needs the templates of the SDK, and there is neither " + looked +
                  "; install the SDK of this release beside the program");
}

std::vector<PluginTemplate> list_templates(const fs::path& folder) {
  std::vector<PluginTemplate> templates;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    if (std::optional<PluginTemplate> found = template_of(entry->path())) {
      templates.push_back(*std::move(found));
    }
  }
  if (failed || templates.empty()) {
    fail_templates(folder, failed ? failed.message() : "the folder has no template");
  }
  std::ranges::sort(
      templates, {}, [](const PluginTemplate& one) { return std::pair(one.kind, one.language); });
  return templates;
}

const PluginTemplate& choose_template(const std::vector<PluginTemplate>& templates,
                                      const std::string& kind,
                                      const std::string& language) {
  std::vector<std::string> kinds;
  std::vector<std::string> languages;
  const PluginTemplate* chosen = nullptr;
  for (const PluginTemplate& one : templates) {
    if (kinds.empty() || kinds.back() != one.kind) {
      kinds.push_back(one.kind);
    }
    if (one.kind != kind) {
      continue;
    }
    languages.push_back(one.language);
    if (language.empty()
            ? chosen == nullptr || preference(one.language) < preference(chosen->language)
            : one.language == language) {
      chosen = &one;
    }
  }
  if (languages.empty()) {
    fail_word("new-plugin", kind, kinds);
  }
  if (chosen == nullptr) {
    fail_usage(formatted("--lang: there is no template for {} in {} (expected {})",
                         kind,
                         in_quotes(language),
                         joined(languages)));
  }
  return *chosen;
}

TemplateText read_template(const PluginTemplate& variant) {
  const Description description(variant.folder);
  TemplateText result{.summary = description.word("summary"),
                      .lane = description.word("lane"),
                      .flags = description.words("flags"),
                      .link = description.words("link"),
                      .required_services = description.words("requires")};
  const fs::path shared = variant.folder.parent_path() / kShared;
  const std::map<std::string, std::string> contents = Description(shared).table("files");
  for (const fs::path& folder : {shared, variant.folder}) {
    for (const fs::path& file : files_below(folder)) {
      const std::string path = file.lexically_relative(folder).string();
      const auto content = contents.find(path);
      if (std::ranges::find(kSourceExtensions, file.extension()) != kSourceExtensions.end()) {
        result.sources.push_back(path);
      }
      result.files.push_back(
          {path, read_text(file), content != contents.end() ? content->second : result.summary});
    }
  }
  std::ranges::sort(result.files, {}, &TemplateFile::path);
  return result;
}

}  // namespace tenon
