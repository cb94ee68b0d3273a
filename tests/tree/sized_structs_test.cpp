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

// Structs without function pointers that only the host allocates.
const std::set<std::string>& structs_of_host() {
  static const std::set<std::string> names = {"tenon_after_update_args",
                                              "tenon_backward_args",
                                              "tenon_chat_piece",
                                              "tenon_clip_args",
                                              "tenon_clipper_info",
                                              "tenon_column",
                                              "tenon_column_out",
                                              "tenon_column_type",
                                              "tenon_create_args",
                                              "tenon_dataset_info",
                                              "tenon_decode_args",
                                              "tenon_effective_args",
                                              "tenon_effective_backward_args",
                                              "tenon_encode_args",
                                              "tenon_encode_pieces_args",
                                              "tenon_end_step_args",
                                              "tenon_event",
                                              "tenon_evaluation_values_args",
                                              "tenon_feature_call",
                                              "tenon_fill_buffer_args",
                                              "tenon_generation_args",
                                              "tenon_generation_info",
                                              "tenon_hook_info",
                                              "tenon_infer_args",
                                              "tenon_lengths_args",
                                              "tenon_loss_backward_args",
                                              "tenon_loss_compute_args",
                                              "tenon_loss_count_args",
                                              "tenon_loss_info",
                                              "tenon_lr_factor_args",
                                              "tenon_lr_scheduler_info",
                                              "tenon_materialize_args",
                                              "tenon_mesh",
                                              "tenon_metric_compute_args",
                                              "tenon_metric_info",
                                              "tenon_metric_merge_args",
                                              "tenon_metric_record",
                                              "tenon_metric_reset_args",
                                              "tenon_metric_update_args",
                                              "tenon_next_args",
                                              "tenon_optimizer_info",
                                              "tenon_parameter_average_args",
                                              "tenon_parametrization_info",
                                              "tenon_parametrization_start_args",
                                              "tenon_product_args",
                                              "tenon_read_args",
                                              "tenon_row_layout",
                                              "tenon_seek_args",
                                              "tenon_source_files_args",
                                              "tenon_sparse_optimizer_info",
                                              "tenon_source_files_args",
                                              "tenon_sparse_update_args",
                                              "tenon_step_sums_info",
                                              "tenon_storage_checkpoint_args",
                                              "tenon_storage_close_args",
                                              "tenon_storage_connect_args",
                                              "tenon_storage_create_args",
                                              "tenon_storage_list_args",
                                              "tenon_storage_open_args",
                                              "tenon_storage_read_args",
                                              "tenon_storage_size_args",
                                              "tenon_storage_write_args",
                                              "tenon_text_piece",
                                              "tenon_tokenizer_files_args",
                                              "tenon_tokenizer_info",
                                              "tenon_update_args",
                                              "tenon_window"};
  return names;
}

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
    for (std::sregex_iterator i(code.begin(), code.end(), structs), end; i != end; ++i) {
      const std::string name = (*i)[1];
      const bool has_functions = (*i)[2].str().find("(*") != std::string::npos;
      const bool is_listed = known.find("(" + name + ",") != std::string::npos;
      const bool is_of_host = structs_of_host().count(name) != 0;
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
