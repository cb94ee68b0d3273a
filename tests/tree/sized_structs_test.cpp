// SPDX-License-Identifier: Apache-2.0
//
// Structs of the ABI with a struct_size cross the boundary in one way: those that a plugin
// allocates through host/tensor/sized_struct.hpp, and nothing else in the host reads a struct_size.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"

namespace fs = std::filesystem;

namespace {

// Structs without function pointers that only the host allocates, apart from the arguments and
// results of functions of components.
const std::set<std::string> kStructsOfHost = {"tenon_chat_piece",
                                              "tenon_column",
                                              "tenon_column_out",
                                              "tenon_column_type",
                                              "tenon_create_args",
                                              "tenon_event",
                                              "tenon_feature_call",
                                              "tenon_mesh",
                                              "tenon_metric_record",
                                              "tenon_row_layout",
                                              "tenon_text_piece",
                                              "tenon_window"};

std::string code_only(const std::string& text) {
  std::string code;
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "/*") == 0) {
      i = std::min(text.find("*/", i), text.size() - 2) + 2;
    } else if (text.compare(i, 2, "//") == 0) {
      i = std::min(text.find('\n', i), text.size());
    } else {
      code += text[i++];
    }
  }
  return code;
}

// The structs NAME_args and NAME_info that functions of components take, whose first argument is
// `self`: the host allocates them.
std::set<std::string> structs_of_functions(const std::string& code) {
  std::set<std::string> names;
  const std::regex functions(R"(\(void\* self,([^)]*)\))");
  const std::regex structs(R"((tenon_\w+_(?:args|info))\*)");
  for (std::sregex_iterator i(code.begin(), code.end(), functions), end; i != end; ++i) {
    const std::string parameters = (*i)[1];
    for (std::sregex_iterator k(parameters.begin(), parameters.end(), structs); k != end; ++k) {
      names.insert((*k)[1]);
    }
  }
  return names;
}

std::vector<fs::path> sources_below(const fs::path& folder, const std::set<std::string>& kinds) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(tenon::source_dir() / folder)) {
    if (entry.is_regular_file() && kinds.count(entry.path().extension().string()) != 0) {
      files.push_back(entry.path());
    }
  }
  return files;
}

}  // namespace

TEST_CASE("every struct with a size is read through read_sized, or is allocated by the host",
          "[tree]") {
  const std::string known = tenon::file_text(tenon::source_dir() / "host/tensor/sized_struct.hpp");
  const std::regex structs(R"(struct (tenon_\w+) \{\s*size_t struct_size;([^}]*)\})");
  size_t num_found = 0;
  for (const fs::path& header : sources_below("sdk/include/tenon", {".h"})) {
    const std::string code = code_only(tenon::file_text(header));
    const std::set<std::string> of_functions = structs_of_functions(code);
    for (std::sregex_iterator i(code.begin(), code.end(), structs), end; i != end; ++i) {
      const std::string name = (*i)[1];
      const bool has_functions = (*i)[2].str().find("(*") != std::string::npos;
      const bool is_listed = known.find("(" + name + ",") != std::string::npos;
      const bool is_of_host = kStructsOfHost.contains(name) || of_functions.contains(name);
      INFO(name << " in " << header.filename()
                << ": if plugins allocate it, list it in host/tensor/sized_struct.hpp; if only the "
                   "host does, in this test");
      CHECK((has_functions || is_listed || is_of_host));
      CHECK_FALSE((is_listed && is_of_host));
      ++num_found;
    }
  }
  CHECK(num_found > 60);
}

TEST_CASE("nothing else in the host reads a struct_size", "[tree]") {
  // Registration checks descriptors and tables, whose functions it tests one by one.
  const std::set<std::string> readers = {"sized_struct.hpp", "registration.cpp"};
  const std::regex reading(R"((\.|->)struct_size\b(?!\s*=[^=]))");
  for (const fs::path& file : sources_below("host", {".cpp", ".hpp"})) {
    if (readers.count(file.filename().string()) != 0) {
      continue;
    }
    const std::string code = code_only(tenon::file_text(file));
    INFO(file.string() << ": use read_sized(), read_element() or write_sized()");
    CHECK_FALSE(std::regex_search(code, reading));
  }
}
