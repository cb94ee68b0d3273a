// SPDX-License-Identifier: Apache-2.0
#include "file_list.hpp"

#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <arrow/config.h>
#include <arrow/filesystem/localfs.h>
#include <charconv>
#include <dlfcn.h>
#include <filesystem>
#include <fnmatch.h>
#include <mutex>
#include <set>
#include <string_view>

#include "arrow_status.hpp"

namespace tenon {
namespace {

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::string_view last_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// "." for a name without a folder.
std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

bool is_skipped_name(std::string_view name) {
  return name.empty() || name.front() == '.' || name.front() == '_' || ends_with(name, ".tmp") ||
         ends_with(name, ".part") || name == "dataset_info.json" || name == "state.json";
}

// True if the file, or a folder of the relative path `below`, has a skipped name.
bool is_hidden(std::string_view below) {
  while (!below.empty()) {
    const size_t slash = std::min(below.find('/'), below.size());
    if (is_skipped_name(below.substr(0, slash))) {
      return true;
    }
    below.remove_prefix(std::min(slash + 1, below.size()));
  }
  return false;
}

// Remote file systems are in separate libraries next to Arrow's. They are loaded on first use.
void load_file_system(const std::string& scheme) {
  static std::mutex mutex;
  static std::vector<std::string> loaded;
  const std::lock_guard lock(mutex);
  if (std::find(loaded.begin(), loaded.end(), scheme) != loaded.end()) {
    return;
  }
  loaded.push_back(scheme);
  Dl_info info{};
  const auto* symbol = reinterpret_cast<const void*>(&arrow::GetBuildInfo);
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) {
    return;
  }
  // libarrow.so.2600 -> libarrow_s3.so.2600
  const std::filesystem::path arrow(info.dli_fname);
  std::string name = arrow.filename().string();
  const size_t dot = name.find(".so");
  if (dot == std::string::npos) {
    return;
  }
  name.insert(dot, "_" + scheme);
  const std::string library = (arrow.parent_path() / name).string();
  std::error_code failure;
  if (std::filesystem::exists(library, failure)) {
    check_arrow(arrow::fs::LoadFileSystemFactories(library.c_str()),
                library,
                "the file system for " + scheme + ":// cannot be loaded");
  }
}

// Threads of remote file systems must end before the objects they use are destroyed. So this
// handler is registered after those objects were created, with the first file system of each
// scheme. All plugin instances are destroyed by then.
void end_file_systems_at_exit(const std::string& scheme) {
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard<std::mutex> lock(mutex);
  if (known.insert(scheme).second) {
    std::atexit([] { arrow::fs::EnsureFinalized(); });
  }
}

// Decodes "%20" and the like, which Hive, Spark and Arrow write. Other percent signs stay.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const bool is_code = text[i] == '%' && i + 2 < text.size() &&
                         std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr ==
                             text.data() + i + 3;
    out += is_code ? static_cast<char>(byte) : text[i];
    i += is_code ? 2 : 0;
  }
  return out;
}

void add_partitions(DataFile& file) {
  constexpr std::string_view kNull = "__HIVE_DEFAULT_PARTITION__";
  std::string_view rest = file.path;
  for (size_t slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    const std::string_view folder = rest.substr(0, slash);
    const size_t equals = folder.find('=');
    if (equals != std::string_view::npos && equals > 0) {
      const std::string_view value = folder.substr(equals + 1);
      file.partitions.emplace_back(
          percent_decoded(folder.substr(0, equals)),
          value == kNull ? std::nullopt : std::optional(percent_decoded(value)));
    }
    rest.remove_prefix(slash + 1);
  }
}

[[noreturn]] void fail_missing(const std::string& name) {
  TENON_FAIL(TENON_NOT_FOUND, "columnar.no_file", name, " does not exist");
}

}  // namespace

FileList::FileList(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    Source source;
    const size_t scheme_end = path.find("://");
    if (scheme_end != std::string::npos) {
      const std::string scheme = path.substr(0, scheme_end);
      if (scheme != "file") {
        load_file_system(scheme);
      }
      // A pattern may contain characters that a URI may not, so only the prefix is parsed as a URI.
      const size_t query = path.find('?', scheme_end);
      const size_t options = query != std::string::npos &&
                                     path.find('=', query) != std::string::npos &&
                                     path.find('/', query) == std::string::npos
                                 ? query
                                 : std::string::npos;
      const std::string plain = path.substr(0, options);
      const size_t wild = plain.find_first_of("*?[", scheme_end + 3);
      const std::string base =
          wild == std::string::npos ? plain : plain.substr(0, plain.rfind('/', wild) + 1);
      std::string inside;
      auto made = arrow::fs::FileSystemFromUri(
          base + (options == std::string::npos ? "" : path.substr(options)), &inside);
      if (!made.ok()) {
        TENON_FAIL(TENON_INVALID,
                   "columnar.bad_path",
                   plain,
                   " is not a valid URI: ",
                   made.status().message());
      }
      source.file_system = std::move(made).ValueUnsafe();
      end_file_systems_at_exit(scheme);
      source.prefix = scheme == "file" ? "" : scheme + "://";
      source.path = inside;
      if (wild != std::string::npos) {
        if (!source.path.empty() && source.path.back() == '/') {
          source.path.pop_back();
        }
        source.path += "/" + plain.substr(base.size());
      }
    } else {
      source.file_system = std::make_shared<arrow::fs::LocalFileSystem>();
      source.path = path;
    }
    while (source.path.size() > 1 && source.path.back() == '/') {
      source.path.pop_back();
    }
    const size_t wild = source.path.find_first_of("*?[");
    std::error_code ignored;
    if (wild != std::string::npos &&
        (!source.prefix.empty() || !std::filesystem::exists(source.path, ignored))) {
      source.pattern = source.path;
      const size_t slash = source.path.rfind('/', wild);
      source.root = slash == std::string::npos ? "." : source.path.substr(0, slash);
    }
    sources_.push_back(std::move(source));
  }
}

std::vector<arrow::fs::FileInfo> FileList::found(const Source& source, std::string& base) {
  const std::string shown = source.prefix + source.path;
  arrow::fs::FileSelector selector;
  selector.recursive = true;
  if (source.pattern.empty()) {
    const arrow::fs::FileInfo info =
        value_of(source.file_system->GetFileInfo(source.path), shown, "cannot read file metadata");
    if (info.type() == arrow::fs::FileType::NotFound) {
      fail_missing(shown);
    }
    if (info.type() == arrow::fs::FileType::File) {
      return {info};
    }
    if (info.type() == arrow::fs::FileType::Unknown) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.no_file",
                 shown,
                 " is a FIFO, a device or a socket, not a regular file or a folder");
    }
    base = selector.base_dir = source.path;
    return value_of(source.file_system->GetFileInfo(selector), shown, "cannot list the folder");
  }
  base = selector.base_dir = source.root;
  selector.allow_not_found = true;
  const auto depth = std::count(source.pattern.begin(), source.pattern.end(), '/') -
                     std::count(source.root.begin(), source.root.end(), '/');
  selector.max_recursion = static_cast<int32_t>(std::max<int64_t>(depth - 1, 0));
  selector.recursive = selector.max_recursion > 0;
  return value_of(
      source.file_system->GetFileInfo(selector), shown, "cannot list the folders of the pattern");
}

void FileList::add_files(const Source& source, std::vector<DataFile>& out) {
  std::string base;
  const std::vector<arrow::fs::FileInfo> all = found(source, base);
  const bool is_one_file = source.pattern.empty() && base.empty();
  const std::string folder = source.prefix + (is_one_file ? folder_of(source.path) : base);
  std::vector<DataFile> files;
  for (const arrow::fs::FileInfo& info : all) {
    if (info.type() != arrow::fs::FileType::File) {
      continue;
    }
    if (!source.pattern.empty() &&
        ::fnmatch(source.pattern.c_str(), info.path().c_str(), FNM_PATHNAME) != 0) {
      continue;
    }
    // Skipped folders hide their contents. Folders named in the recipe are never skipped.
    std::string_view below = info.path();
    below.remove_prefix(is_one_file ? 0 : std::min(below.size(), base.size() + 1));
    if (!is_one_file && is_hidden(below)) {
      continue;
    }
    DataFile file;
    file.file_system = source.file_system;
    file.path = info.path();
    file.name = source.prefix + info.path();
    file.below = is_one_file ? std::string(last_name(info.path())) : std::string(below);
    file.folder = folder;
    file.size = info.size();
    file.changed = info.mtime() == arrow::fs::kNoTime
                       ? 0
                       : info.mtime().time_since_epoch() / std::chrono::nanoseconds(1);
    add_partitions(file);
    files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(), [](const DataFile& a, const DataFile& b) {
    return a.path < b.path;
  });
  std::move(files.begin(), files.end(), std::back_inserter(out));
}

std::vector<DataFile> FileList::list() const {
  std::vector<DataFile> files;
  for (const Source& source : sources_) {
    add_files(source, files);
  }
  return files;
}

std::string FileList::unmatched() const {
  constexpr size_t kMost = 4;
  std::string text;
  bool has_folders = false;
  for (size_t i = 0; i < sources_.size() && i < kMost; ++i) {
    const Source& source = sources_[i];
    std::string base;
    const std::vector<arrow::fs::FileInfo> all =
        source.pattern.empty() ? std::vector<arrow::fs::FileInfo>() : found(source, base);
    has_folders =
        has_folders || std::any_of(all.begin(), all.end(), [&](const auto& info) {
          return info.type() == arrow::fs::FileType::Directory &&
                 ::fnmatch(source.pattern.c_str(), info.path().c_str(), FNM_PATHNAME) == 0;
        });
    text += (i > 0 ? ", " : "") + source.prefix + source.path;
  }
  text += sources_.size() > kMost ? concat(" and ", sources_.size() - kMost, " more") : "";
  return has_folders
             ? concat(text, " matches folders only; add \"/*.parquet\" to match their files")
             : text;
}

bool FileList::has_marker(const std::string& name) const {
  return std::any_of(sources_.begin(), sources_.end(), [&](const Source& source) {
    const std::string path = (source.pattern.empty() ? source.path : source.root) + "/" + name;
    const auto info = source.file_system->GetFileInfo(path);
    return info.ok() && info->type() == arrow::fs::FileType::File;
  });
}

arrow::fs::FileInfo stat_file(const DataFile& file) {
  arrow::fs::FileInfo info =
      value_of(file.file_system->GetFileInfo(file.path), file.name, "cannot read file metadata");
  if (info.type() == arrow::fs::FileType::NotFound) {
    TENON_FAIL(TENON_NOT_FOUND,
               "columnar.vanished",
               file.name,
               " was removed after its window was listed");
  }
  const int64_t changed = info.mtime() == arrow::fs::kNoTime
                              ? 0
                              : info.mtime().time_since_epoch() / std::chrono::nanoseconds(1);
  if (info.size() != file.size || changed != file.changed) {
    TENON_FAIL(TENON_IO,
               "columnar.changed",
               file.name,
               " changed after its window was listed (had ",
               file.size,
               " bytes, now ",
               info.size(),
               "); write files under a temporary name and rename them when complete");
  }
  return info;
}

FileFormat format_of(const DataFile& file) {
  std::string_view name = last_name(file.path);
  const auto is_any = [&](std::initializer_list<const char*> ends) {
    return std::any_of(
        ends.begin(), ends.end(), [&](const char* end) { return ends_with(name, end); });
  };
  for (const char* compressed : {".gz", ".zst", ".bz2", ".lz4", ".br"}) {
    if (ends_with(name, compressed)) {
      name.remove_suffix(std::string_view(compressed).size());
      break;
    }
  }
  if (is_any({".parquet", ".pq"})) {
    return FileFormat::kParquet;
  }
  if (is_any({".orc"})) {
    return FileFormat::kOrc;
  }
  if (is_any({".feather", ".arrow", ".ipc"})) {
    return FileFormat::kFeather;
  }
  if (is_any({".csv", ".tsv"})) {
    return FileFormat::kCsv;
  }
  TENON_FAIL(TENON_INVALID,
             "columnar.unknown_format",
             file.name,
             " has an unknown extension (expected .parquet, .orc, .feather, .arrow, .csv or .tsv); "
             "set `format`");
}

}  // namespace tenon
