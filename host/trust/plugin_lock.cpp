// SPDX-License-Identifier: Apache-2.0
#include "host/trust/plugin_lock.hpp"

#include <tenon/abi.h>

#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/io/regular_file.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <tenon_build.hpp>
#include <utility>

namespace tenon {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLockFormat = 1;
constexpr uint64_t kMaxLockBytes = uint64_t{16} << 20;
constexpr std::string_view kHashStart = "sha256:";  // of content_hash()
constexpr std::size_t kHashDigits = 64;
constexpr std::size_t kShownDigits = 12;

constexpr char kRenew[] = "; remove it, and write it again with --lock";

[[noreturn]] void fail_lock(const std::string& file, const std::string& what) {
  throw Error("plugin.bad_lock", file + " " + what);
}

// Following a link would read or replace a file elsewhere.
void check_lock_kind(const std::string& file) {
  std::error_code ignored;  // reading reports the error
  const fs::file_status status = fs::symlink_status(file, ignored);
  if (fs::is_symlink(status)) {
    fail_lock(file, "is a symbolic link; replace it by a copy of its target");
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    fail_lock(file, std::string("is not a regular file") + kRenew);
  }
}

bool is_sha256(std::string_view text) {
  return text.size() == kHashDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

LockedPlugin read_locked(const nlohmann::json& json) {
  LockedPlugin plugin{.id = json.at("id"),
                      .version = json.at("version"),
                      .sha256 = json.at("sha256"),
                      .file = json.at("file"),
                      .components = json.at("components"),
                      .recipes = json.at("recipes")};
  return plugin;
}

std::string locked_name(const LockedPlugin& plugin) {
  return plugin.id + " " + plugin.version;
}

std::string sha256_of(const UsedPluginFile& plugin) {
  return plugin.hash.starts_with(kHashStart) ? plugin.hash.substr(kHashStart.size()) : plugin.hash;
}

LockedPlugin locked(const UsedPluginFile& plugin) {
  return {.id = plugin.id,
          .version = plugin.version,
          .sha256 = sha256_of(plugin),
          .file = fs::path(plugin.file).filename().string(),
          .components = plugin.components,
          .recipes = {}};
}

bool is_used_by(const LockedPlugin& plugin, const std::string& recipe) {
  return std::ranges::find(plugin.recipes, recipe) != plugin.recipes.end();
}

// Why the plugin is not the locked one; "" if it is.
std::string lock_difference(const LockedPlugin& was, const UsedPluginFile& plugin) {
  const LockedPlugin is = locked(plugin);
  if (was.version != is.version) {
    return formatted("{}: version {} (locked {}), {}", is.id, is.version, was.version, plugin.file);
  }
  if (was.sha256 != is.sha256) {
    return formatted("{}: {} has other bytes (SHA-256 {}..., locked {}...)",
                     locked_name(is),
                     plugin.file,
                     is.sha256.substr(0, kShownDigits),
                     was.sha256.substr(0, kShownDigits));
  }
  return "";
}

}  // namespace

std::string lock_file_of(const std::string& recipe) {
  return (fs::path(recipe).parent_path() / "plugins.lock").string();
}

std::optional<PluginLock> read_plugin_lock(const std::string& file) {
  constexpr int kMaxDepth = 4;  // a name in a list of an entry in the list in the object
  check_lock_kind(file);
  const FileText in = read_file_text(file, kMaxLockBytes);
  if (in.is_missing) {
    return std::nullopt;
  }
  if (in.is_too_large || !in.problem.empty()) {
    fail_lock(file,
              in.is_too_large ? formatted("has more than {} bytes", kMaxLockBytes) + kRenew
                              : "cannot be read: " + in.problem + "; make it readable");
  }
  const auto is_shallow = [](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    return depth <= kMaxDepth;
  };
  const nlohmann::json json =
      nlohmann::json::parse(in.text, is_shallow, /*allow_exceptions=*/false);
  PluginLock lock;
  try {
    const std::int64_t format = json.at("format").get<std::int64_t>();
    if (format > kLockFormat) {
      fail_lock(
          file,
          formatted(
              "has format {}, this host reads format {}; use a newer host", format, kLockFormat));
    }
    if (format != kLockFormat) {
      fail_lock(file, formatted("has the unknown format {}", format) + kRenew);
    }
    lock.abi = json.at("abi");
    for (const nlohmann::json& one : json.at("plugins")) {
      lock.plugins.push_back(read_locked(one));
      if (lock.plugins.back().id.empty() || !is_sha256(lock.plugins.back().sha256)) {
        fail_lock(
            file,
            "is corrupt: an entry has no id or no SHA-256 of 64 digits" + std::string(kRenew));
      }
    }
  } catch (const nlohmann::json::exception&) {
    fail_lock(file,
              (json.is_discarded() ? "is corrupt: it is not valid JSON"
                                   : "is corrupt: a key is missing or has a wrong type") +
                  std::string(kRenew));
  }
  return lock;
}

void write_plugin_lock(const std::string& file, const PluginLock& lock) {
  check_lock_kind(file);
  Json plugins = Json::array();
  for (const LockedPlugin& plugin : lock.plugins) {
    plugins.push_back({{"id", plugin.id},
                       {"version", plugin.version},
                       {"sha256", plugin.sha256},
                       {"file", plugin.file},
                       {"components", plugin.components},
                       {"recipes", plugin.recipes}});
  }
  const Json json = {{"format", kLockFormat}, {"abi", lock.abi}, {"plugins", std::move(plugins)}};
  // File names may not be valid UTF-8.
  replace_file(file, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

PluginLock lock_with(PluginLock lock,
                     const std::string& recipe,
                     std::span<const UsedPluginFile> used) {
  for (LockedPlugin& plugin : lock.plugins) {
    std::erase(plugin.recipes, recipe);
  }
  for (const UsedPluginFile& plugin : used) {
    LockedPlugin fresh = locked(plugin);
    const auto known = std::ranges::find(lock.plugins, fresh.id, &LockedPlugin::id);
    if (known != lock.plugins.end()) {
      fresh.recipes = known->recipes;
      lock.plugins.erase(known);
    }
    fresh.recipes.push_back(recipe);
    std::ranges::sort(fresh.recipes);
    lock.plugins.push_back(std::move(fresh));
  }
  std::erase_if(lock.plugins, [](const LockedPlugin& plugin) { return plugin.recipes.empty(); });
  std::ranges::sort(lock.plugins, {}, &LockedPlugin::id);
  lock.abi = TENON_ABI_STRING;
  return lock;
}

bool is_locked(const PluginLock& lock, const std::string& recipe) {
  return std::ranges::any_of(
      lock.plugins, [&](const LockedPlugin& plugin) { return is_used_by(plugin, recipe); });
}

std::vector<std::string> lock_differences(const PluginLock& lock,
                                          const std::string& recipe,
                                          std::span<const UsedPluginFile> used) {
  std::vector<std::string> texts;
  if (lock.abi != TENON_ABI_STRING) {
    texts.push_back("the host has ABI " TENON_ABI_STRING " (locked " + lock.abi + ")");
  }
  for (const LockedPlugin& plugin : lock.plugins) {
    const auto found = std::ranges::find(used, plugin.id, &UsedPluginFile::id);
    if (found != used.end()) {
      if (std::string text = lock_difference(plugin, *found); !text.empty()) {
        texts.push_back(std::move(text));
      }
    } else if (is_used_by(plugin, recipe)) {
      texts.push_back(locked_name(plugin) + " (" + plugin.file + ") is locked and not loaded");
    }
  }
  for (const UsedPluginFile& plugin : used) {
    if (std::ranges::find(lock.plugins, plugin.id, &LockedPlugin::id) == lock.plugins.end()) {
      texts.push_back(plugin.id + " " + plugin.version + " (" + plugin.file +
                      ") is loaded and not locked");
    }
  }
  return texts;
}

}  // namespace tenon
