// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/tokenizer_proxy.hpp"

#include "host/error/plugin_text.hpp"
#include "host/error/status.hpp"
#include "host/plugin/interface_table.hpp"
#include "host/text/formatted.hpp"

namespace tenon {
namespace {

tenon_status* take_ids(void* context, const int32_t* ids, size_t n) noexcept {
  return guard(nullptr, [&] {
    auto& out = *static_cast<std::vector<int32_t>*>(context);
    out.insert(out.end(), ids, ids + n);
  });
}

tenon_status* take_tokens(void* context,
                          const int32_t* ids,
                          const int64_t* /*begins*/,
                          const int64_t* /*ends*/,
                          size_t n) noexcept {
  return take_ids(context, ids, n);
}

tenon_status* take_bytes(void* context, const char* bytes, size_t n) noexcept {
  return guard(nullptr, [&] { static_cast<std::string*>(context)->append(bytes, n); });
}

tenon_status* take_file(void* context, const char* name, const char* bytes, size_t n) noexcept {
  return guard(nullptr, [&] {
    static_cast<std::vector<std::pair<std::string, std::string>>*>(context)->emplace_back(
        name != nullptr ? name : "", std::string(bytes, n));
  });
}

}  // namespace

TokenizerProxy::TokenizerProxy(const ComponentInstance& instance)
    : instance_(instance),
      info_(describe_tokenizer(instance)),
      table_(table_of<tenon_tokenizer>(instance, TENON_TOKENIZER_ID)) {}

bool TokenizerProxy::has_pieces() const {
  return TENON_HAS(tenon_tokenizer, table_, encode_pieces);
}

void TokenizerProxy::check_ids(const std::vector<int32_t>& ids) const {
  for (const int32_t id : ids) {
    if (id < 0 || id >= info_.vocab_size) {
      instance_.identity().fail_result(
          formatted("encode returned the id {}, expected an id in [0, {})", id, info_.vocab_size));
    }
  }
}

std::vector<int32_t> TokenizerProxy::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  const tenon_encode_args args{sizeof(args), text.data(), text.size(), &take_ids, &ids};
  instance_.call("encode", [&] { return table_->encode(instance_.self(), &args); });
  check_ids(ids);
  return ids;
}

std::vector<int32_t> TokenizerProxy::encode(const std::vector<TextPiece>& pieces,
                                            bool adds_around) const {
  std::vector<tenon_text_piece> given;
  given.reserve(pieces.size());
  for (const TextPiece& piece : pieces) {
    given.push_back({sizeof(tenon_text_piece),
                     piece.text.data(),
                     piece.text.size(),
                     piece.is_template ? TENON_PIECE_TEMPLATE : TENON_PIECE_TEXT,
                     0});
  }
  std::vector<int32_t> ids;
  tenon_encode_pieces_args args{};
  args.struct_size = sizeof(args);
  args.pieces = given.data();
  args.num_pieces = given.size();
  args.flags = adds_around ? TENON_ENCODE_AROUND : 0;
  args.sink = &take_tokens;
  args.context = &ids;
  instance_.call("encode_pieces", [&] { return table_->encode_pieces(instance_.self(), &args); });
  check_ids(ids);
  return ids;
}

std::string TokenizerProxy::decode(const std::vector<int32_t>& ids) const {
  std::string bytes;
  const tenon_decode_args args{sizeof(args), ids.data(), ids.size(), &take_bytes, &bytes};
  instance_.call("decode", [&] { return table_->decode(instance_.self(), &args); });
  return bytes;
}

std::vector<std::pair<std::string, std::string>> TokenizerProxy::files() const {
  std::vector<std::pair<std::string, std::string>> files;
  if (!TENON_HAS(tenon_tokenizer, table_, files)) {
    return files;
  }
  tenon_tokenizer_files_args args{};
  args.struct_size = sizeof(args);
  args.sink = &take_file;
  args.context = &files;
  instance_.call("files", [&] { return table_->files(instance_.self(), &args); });
  for (const auto& [name, bytes] : files) {
    if (!name_problem(name).empty() || name.find('/') != std::string::npos || name[0] == '.') {
      instance_.identity().fail_result("files passed a name that is not that of a file: \"" +
                                       printable_line(name) + "\"");
    }
  }
  return files;
}

}  // namespace tenon
