// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/checkpoint_storage.hpp"

#include <filesystem>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

TEST_CASE("a run has one place in a storage, however its folder's path is written", "[train]") {
  const ScratchFolder folder;
  const std::string runs = folder.path().string();
  std::filesystem::create_directories(runs + "/mlp-7");
  for (const std::string path :
       {"/mlp-7", "/mlp-7/", "/./mlp-7//", "/other/../mlp-7", "/mlp-7/."}) {
    INFO(path);
    CHECK(storage_location(runs + path, "checkpoints") == "mlp-7/checkpoints");
  }
  // A folder that is not there yet has its name too.
  CHECK(storage_location(runs + "/mlp-8", "exports/hf") == "mlp-8/exports/hf");
  CHECK(storage_location(".", "checkpoints") ==
        std::filesystem::current_path().filename().string() + "/checkpoints");
}

}  // namespace tenon
