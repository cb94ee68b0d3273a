// SPDX-License-Identifier: Apache-2.0
//
// Lists the files that a component reads, so that a resume notices changed files. A component
// derives from SourceFiles in addition to its kind, and returns SourceFilesCalls<T>::find(id) from
// `extension`. <tenon/draft/source_files.h> defines the contract.
#ifndef TENON_CPP_SOURCE_FILES_HPP
#define TENON_CPP_SOURCE_FILES_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/services.hpp>
#include <tenon/draft/source_files.h>

#include <cstdint>
#include <cstring>
#include <string>

TENON_NAMESPACE_BEGIN

/* Receives the files from `list_files`.
 *
 * Threads  those of `list_files`, and only during it */
class SourceFileList {
 public:
  SourceFileList(const Host& host, const tenon_source_files_args& args)
      : host_(host), args_(args) {}
  /* Adds a local file. The host hashes it, unless `version` is a hash of its content. */
  void add(const std::string& path, const std::string& version = "", uint32_t flags = 0) {
    pass({sizeof(tenon_source_file),
          path.c_str(),
          path.c_str(),
          version.empty() ? nullptr : version.c_str(),
          -1,
          flags,
          0});
  }
  /* Adds a file that the host cannot read. `version` is a text that differs if the content does,
   * such as an ETag; "": unknown. `size` in bytes; -1: unknown. */
  void add_remote(const std::string& name,
                  int64_t size,
                  const std::string& version = "",
                  uint32_t flags = 0) {
    pass({sizeof(tenon_source_file),
          name.c_str(),
          nullptr,
          version.empty() ? nullptr : version.c_str(),
          size,
          flags,
          0});
  }

 private:
  void pass(const tenon_source_file& file) { host_.check(args_.sink(args_.context, &file)); }

  const Host& host_;
  const tenon_source_files_args& args_;
};

/* Base class of components that read files; derive from it in addition to a kind. */
class SourceFiles {
 public:
  virtual ~SourceFiles() = default;
  /* Adds the files that the component reads, in order: those of the open window, or all if `window`
   * is null.
   *
   * Errors   any exception ends the run
   * Threads  [main], after `describe`; with a window, while no read is running
   * Owner    all arguments are borrowed until return */
  virtual void list_files(const tenon_window* window, SourceFileList& files) = 0;
};

/* The ABI table of a class. `self` is that of the kind's tables. */
template <class T>
struct SourceFilesCalls {
  static tenon_status* list(void* self, const tenon_source_files_args* args) noexcept {
    using Kind = typename T::Kind;
    return call_on<Kind>(self, [&](Kind& kind) {
      TENON_CHECK(args != nullptr && args->sink != nullptr, "an argument of list_sources is null");
      SourceFileList files(kind.host(), *args);
      static_cast<T&>(kind).list_files(args->window, files);
    });
  }
  /* Returns the table if `id` is TENON_SOURCE_FILES_ID, otherwise null. */
  static const void* find(const char* id) {
    static const tenon_source_files calls{sizeof(tenon_source_files), list};
    return std::strcmp(id, TENON_SOURCE_FILES_ID) == 0 ? &calls : nullptr;
  }
};

TENON_NAMESPACE_END

#endif
