// SPDX-License-Identifier: Apache-2.0
#include "chat_file.hpp"

#include <tenon/cpp/guard.hpp>

#include <filesystem>

#include "json_chat_file.hpp"
#include "parquet_chat_file.hpp"

namespace tenon {

std::unique_ptr<ChatFile> open_chat_file(const std::string& path, const IgnoredKeys& ignored) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".parquet") {
    return open_parquet_chat_file(path, ignored);
  }
  if (extension == ".arrow" || extension == ".feather") {
    TENON_FAIL(TENON_UNSUPPORTED,
               "chat.unsupported",
               path,
               ": the dataset reads JSON lines, JSON lists and Parquet (found ",
               extension,
               "); convert the file to Parquet");
  }
  return std::make_unique<JsonChatFile>(path, ignored);
}

}  // namespace tenon
