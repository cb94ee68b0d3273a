// SPDX-License-Identifier: Apache-2.0
//
// Lists the files that a recipe names: paths, patterns and folders, local or on a remote file
// system that Arrow supports. Opens no file.
// Invariant: files of one pattern or folder are sorted by path, in whatever order the file system
// lists them.
// Threads: owned by one thread; any thread may read the results.
#pragma once

#include <arrow/filesystem/filesystem.h>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

enum class FileFormat { kAuto, kParquet, kOrc, kFeather, kCsv };

struct DataFile {
  std::shared_ptr<arrow::fs::FileSystem> file_system;
  std::string path;    // path within the file system
  std::string name;    // display name, with the scheme, e.g. "s3://"
  std::string below;   // path relative to the named folder or the pattern's root
  std::string folder;  // the named folder, the pattern's root, or the folder of a named file
  int64_t size = 0;
  int64_t changed = 0;  // modification time, ns; 0: unknown
  // From folders named KEY=VALUE in the path, outermost first, percent-decoded. No value is a null:
  // __HIVE_DEFAULT_PARTITION__.
  std::vector<std::pair<std::string, std::optional<std::string>>> partitions;
};

class FileList {
 public:
  // `paths` are files, folders, or patterns with *, ? and [...]; each may be a URI.
  //
  // Errors   columnar.bad_path for a URI that Arrow does not accept
  explicit FileList(const std::vector<std::string>& paths);

  // Lists the existing files. Skips names that begin with . or _, empty folders, files that end
  // with .tmp or .part, and the two JSON files that Hugging Face datasets writes beside its data.
  //
  // Errors   columnar.no_file: TENON_NOT_FOUND for a file or folder that does not exist,
  //          TENON_INVALID for a FIFO or a device; columnar.read
  std::vector<DataFile> list() const;

  // The sources, for the message that no file matches. Names patterns that match folders only.
  std::string unmatched() const;

  // True if a file of this name exists in one of the folders, or next to the files of a pattern.
  bool has_marker(const std::string& name) const;

 private:
  struct Source {
    std::shared_ptr<arrow::fs::FileSystem> file_system;
    std::string path;
    std::string prefix;   // of display names: "s3://" or empty
    std::string pattern;  // "" if not a pattern
    std::string root;     // for a pattern: the folder above its first * or ?
  };
  // Files and folders of a source, and the folder that was listed; "" for a single file.
  static std::vector<arrow::fs::FileInfo> found(const Source& source, std::string& base);
  static void add_files(const Source& source, std::vector<DataFile>& out);

  std::vector<Source> sources_;
};

// The file's current state. If the file no longer exists, throws as list() does.
arrow::fs::FileInfo stat_file(const DataFile& file);

// Format by extension, ignoring a compression suffix: ".csv.gz" is CSV.
//
// Errors   columnar.unknown_format
FileFormat format_of(const DataFile& file);

}  // namespace tenon
