// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/made_tokenizer.hpp"

#include "tests/plugins/made_component.hpp"

namespace tenon {

MadeTokenizer::MadeTokenizer(const std::string& type, const nlohmann::json& options)
    : made_(
          std::make_shared<ComponentInstance>(make_component("tokenizer", type, options.dump()))) {}

tenon_tokenizer_info MadeTokenizer::info() const {
  tenon_tokenizer_info info{};
  info.struct_size = sizeof info;
  made_->check(table().describe(made_->self(), &info));
  return info;
}

std::map<std::string, std::pair<std::string, int64_t>> MadeTokenizer::specials() const {
  const tenon_tokenizer_info described = info();
  std::map<std::string, std::pair<std::string, int64_t>> out;
  for (size_t i = 0; i < described.num_specials; ++i) {
    const tenon_special_token& one = described.specials_ref[i];
    out[one.name] = {one.text, one.id};
  }
  return out;
}

std::vector<int32_t> MadeTokenizer::encode(const std::string& text) const {
  std::vector<int32_t> ids;
  const auto sink = [](void* context, const int32_t* given, size_t n) -> tenon_status* {
    auto& out = *static_cast<std::vector<int32_t>*>(context);
    out.insert(out.end(), given, given + n);
    return nullptr;
  };
  const tenon_encode_args args{sizeof args, text.data(), text.size(), sink, &ids};
  made_->check(table().encode(made_->self(), &args));
  return ids;
}

Encoded MadeTokenizer::encode_pieces(const std::vector<Piece>& pieces, uint32_t flags) const {
  std::vector<tenon_text_piece> raw;
  for (const Piece& piece : pieces) {
    raw.push_back({sizeof(tenon_text_piece), piece.text.data(), piece.text.size(), piece.kind, 0});
  }
  Encoded out;
  const auto sink = [](void* context,
                       const int32_t* ids,
                       const int64_t* begins,
                       const int64_t* ends,
                       size_t n) -> tenon_status* {
    auto& all = *static_cast<Encoded*>(context);
    all.ids.insert(all.ids.end(), ids, ids + n);
    all.begins.insert(all.begins.end(), begins, begins + n);
    all.ends.insert(all.ends.end(), ends, ends + n);
    return nullptr;
  };
  const tenon_encode_pieces_args args{sizeof args, raw.data(), raw.size(), flags, 0, sink, &out};
  made_->check(table().encode_pieces(made_->self(), &args));
  return out;
}

std::string MadeTokenizer::decode(const std::vector<int32_t>& ids) const {
  std::string out;
  const auto sink = [](void* context, const char* bytes, size_t n) -> tenon_status* {
    static_cast<std::string*>(context)->append(bytes, n);
    return nullptr;
  };
  const tenon_decode_args args{sizeof args, ids.data(), ids.size(), sink, &out};
  made_->check(table().decode(made_->self(), &args));
  return out;
}

std::map<std::string, std::string> MadeTokenizer::files() const {
  std::map<std::string, std::string> out;
  const auto sink =
      [](void* context, const char* name, const char* bytes, size_t n) -> tenon_status* {
    (*static_cast<std::map<std::string, std::string>*>(context))[name] = std::string(bytes, n);
    return nullptr;
  };
  const tenon_tokenizer_files_args args{sizeof args, sink, &out};
  made_->check(table().files(made_->self(), &args));
  return out;
}

const tenon_tokenizer& MadeTokenizer::table() const {
  return *static_cast<const tenon_tokenizer*>(made_->descriptor().table);
}

}  // namespace tenon
