// SPDX-License-Identifier: Apache-2.0
//
// Tokenizers, from both sides: a base class, and TokenizerRef for a component whose options name
// one. <tenon/tokenizer.h> defines the contract.
#ifndef TENON_CPP_TOKENIZER_HPP
#define TENON_CPP_TOKENIZER_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/tokenizer.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Receives the result of an encode or decode, in one or several calls.
 *
 * Errors   those of the receiver, passed on
 * Owner    data is borrowed until the call returns */
template <class T, class Function>
class Sink {
 public:
  Sink(const Host& host, Function function, void* context)
      : host_(host), function_(function), context_(context) {}
  void operator()(const T* data, size_t n) const { host_.check(function_(context_, data, n)); }

 private:
  const Host& host_;
  Function function_;
  void* context_;
};
using IdsSink = Sink<int32_t, tenon_ids_sink>;
using BytesSink = Sink<char, tenon_bytes_sink>;

/* A piece of text, see tenon_text_piece. */
struct TextPiece {
  std::string_view bytes;
  bool is_template = false; /* special tokens in it are recognized */
};

/* A token and the range of bytes that it stands for, see tenon_tokens_sink. */
struct Token {
  int32_t id = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

/* Receives the result of `encode_pieces`, in one or several calls. Errors and owner as in Sink. */
class TokensSink {
 public:
  TokensSink(const Host& host, tenon_tokens_sink function, void* context)
      : host_(host), function_(function), context_(context) {}
  void operator()(const int32_t* ids, const int64_t* begins, const int64_t* ends, size_t n) const {
    host_.check(function_(context_, ids, begins, ends, n));
  }

 private:
  const Host& host_;
  tenon_tokens_sink function_;
  void* context_;
};

/* Receives the files of a tokenizer. Errors and owner as in Sink. */
class FilesSink {
 public:
  FilesSink(const Host& host, tenon_file_sink function, void* context)
      : host_(host), function_(function), context_(context) {}
  void operator()(const std::string& name, std::string_view bytes) const {
    host_.check(function_(context_, name.c_str(), bytes.data(), bytes.size()));
  }

 private:
  const Host& host_;
  tenon_file_sink function_;
  void* context_;
};

/* Base class of tokenizers. All functions may be called concurrently. */
class Tokenizer : public Component {
 public:
  using Kind = Tokenizer;
  static constexpr const char* kKind = "tokenizer";
  static constexpr const char* kInterfaceId = TENON_TOKENIZER_ID;

  /* Sets vocab_size, and, if they differ from the defaults, bos, eos, pad (-1) and bytes_per_token
   * (0).
   *
   * Errors   any exception ends the run before the first step
   * Threads  [any] */
  virtual void describe(tenon_tokenizer_info& info) const = 0;
  /* Encodes text and passes the ids to `sink`, in order.
   *
   * Errors   TENON_INVALID for text it cannot encode, with the byte offset; errors of the sink
   * Threads  [any]
   * Owner    all arguments are borrowed until return */
  virtual void encode(std::string_view bytes, const IdsSink& sink) const = 0;
  /* Decodes `n` ids and passes the bytes to `sink`, in order.
   *
   * Errors   TENON_INVALID for an id outside of the vocabulary; errors of the sink
   * Threads  [any]
   * Owner    all arguments are borrowed until return */
  virtual void decode(const int32_t* ids, size_t n, const BytesSink& sink) const = 0;
  /* Encodes one text that consists of `pieces`, and passes the tokens to `sink`, in order. A
   * special token is recognized only if all of its text lies in pieces with `is_template`; the
   * borders of pieces have no other effect. `flags` is TENON_ENCODE_*. A class that does not
   * override it has no such ability.
   *
   * Errors   as for `encode`
   * Threads  [any]
   * Owner    all arguments are borrowed until return */
  virtual void encode_pieces(const std::vector<TextPiece>& /*pieces*/,
                             uint32_t /*flags*/,
                             const TokensSink& /*sink*/) const {
    TENON_FAIL(TENON_UNSUPPORTED, "no_pieces", "this tokenizer cannot encode chats");
  }
  /* Passes the files that describe the tokenizer to other programs. A class that does not override
   * it has none.
   *
   * Errors   TENON_IO; errors of the sink
   * Threads  [main]
   * Owner    `sink` is borrowed until return */
  virtual void files(const FilesSink& /*sink*/) const {}

  template <class T>
  static const void* table() {
    constexpr bool kHasPieces =
        !std::is_same_v<decltype(&T::encode_pieces), decltype(&Tokenizer::encode_pieces)>;
    constexpr bool kHasFiles = !std::is_same_v<decltype(&T::files), decltype(&Tokenizer::files)>;
    static const tenon_tokenizer calls{sizeof(tenon_tokenizer),
                                       on_describe,
                                       on_encode,
                                       on_decode,
                                       kHasPieces ? on_encode_pieces : nullptr,
                                       kHasFiles ? on_files : nullptr};
    return &calls;
  }

 private:
  static tenon_status* on_describe(void* self, tenon_tokenizer_info* out) noexcept {
    return call_on<Tokenizer>(self, [&](Tokenizer& tokenizer) {
      TENON_CHECK(out != nullptr, "out is null");
      out->bos = out->eos = out->pad = -1;
      tokenizer.describe(*out);
    });
  }
  static tenon_status* on_encode(void* self, const tenon_encode_args* args) noexcept {
    return call_on<Tokenizer>(self, [&](Tokenizer& tokenizer) {
      TENON_CHECK(args != nullptr && (args->bytes != nullptr || args->num_bytes == 0) &&
                      args->sink != nullptr,
                  "an argument of encode is null");
      tokenizer.encode({args->bytes, args->num_bytes},
                       IdsSink(tokenizer.host(), args->sink, args->context));
    });
  }
  static tenon_status* on_decode(void* self, const tenon_decode_args* args) noexcept {
    return call_on<Tokenizer>(self, [&](Tokenizer& tokenizer) {
      TENON_CHECK(
          args != nullptr && (args->ids != nullptr || args->num_ids == 0) && args->sink != nullptr,
          "an argument of decode is null");
      tokenizer.decode(
          args->ids, args->num_ids, BytesSink(tokenizer.host(), args->sink, args->context));
    });
  }
  static tenon_status* on_encode_pieces(void* self, const tenon_encode_pieces_args* args) noexcept {
    return call_on<Tokenizer>(self, [&](Tokenizer& tokenizer) {
      TENON_CHECK(args != nullptr && (args->pieces != nullptr || args->num_pieces == 0) &&
                      args->sink != nullptr,
                  "an argument of encode_pieces is null");
      std::vector<TextPiece> pieces;
      pieces.reserve(args->num_pieces);
      const auto* at = reinterpret_cast<const char*>(args->pieces);
      for (size_t i = 0; i < args->num_pieces; ++i) {
        const auto& piece = *reinterpret_cast<const tenon_text_piece*>(at);
        TENON_CHECK(piece.bytes != nullptr || piece.num_bytes == 0, "piece ", i, " is null");
        pieces.push_back({{piece.bytes, piece.num_bytes}, piece.kind == TENON_PIECE_TEMPLATE});
        at += piece.struct_size;
      }
      tokenizer.encode_pieces(
          pieces, args->flags, TokensSink(tokenizer.host(), args->sink, args->context));
    });
  }
  static tenon_status* on_files(void* self, const tenon_tokenizer_files_args* args) noexcept {
    return call_on<Tokenizer>(self, [&](Tokenizer& tokenizer) {
      TENON_CHECK(args != nullptr && args->sink != nullptr, "an argument of files is null");
      tokenizer.files(FilesSink(tokenizer.host(), args->sink, args->context));
    });
  }
};

/* A tokenizer that the host created for an option. It outlives the component whose option it is.
 *
 * Errors   those of the tokenizer
 * Threads  [any] */
class TokenizerRef {
 public:
  /* Takes the tokenizer from an option.
   *
   * Errors   TENON_INVALID if the option is null or names another interface */
  TokenizerRef(const Host& host, const ComponentOption& option)
      : host_(host), self_(option.ref.self) {
    TENON_CHECK(option && option.ref.interface_id != nullptr &&
                    std::strcmp(option.ref.interface_id, TENON_TOKENIZER_ID) == 0,
                "the option does not name a tokenizer");
    table_ = static_cast<const tenon_tokenizer*>(option.ref.table);
  }
  tenon_tokenizer_info describe() const {
    tenon_tokenizer_info info{};
    info.struct_size = sizeof(info);
    host_.check(table_->describe(self_, &info));
    return info;
  }
  std::vector<int32_t> encode(std::string_view bytes) const {
    std::vector<int32_t> out;
    const tenon_encode_args args{
        sizeof(args), bytes.data(), bytes.size(), append<int32_t>, collect(out)};
    host_.check(table_->encode(self_, &args));
    return out;
  }
  std::string decode(const int32_t* ids, size_t n) const {
    std::vector<char> out;
    const tenon_decode_args args{sizeof(args), ids, n, append<char>, collect(out)};
    host_.check(table_->decode(self_, &args));
    return {out.begin(), out.end()};
  }
  /* Returns true if `encode_pieces` works. */
  bool has_pieces() const { return TENON_HAS(tenon_tokenizer, table_, encode_pieces); }
  /* Encodes one text that consists of pieces; see Tokenizer::encode_pieces.
   *
   * Errors   also TENON_UNSUPPORTED if the tokenizer lacks the ability */
  std::vector<Token> encode_pieces(const std::vector<TextPiece>& pieces, uint32_t flags = 0) const {
    if (!has_pieces()) {
      TENON_FAIL(TENON_UNSUPPORTED, "no_pieces", "the tokenizer cannot encode chats");
    }
    std::vector<tenon_text_piece> raw;
    raw.reserve(pieces.size());
    for (const TextPiece& piece : pieces) {
      raw.push_back({sizeof(tenon_text_piece),
                     piece.bytes.data(),
                     piece.bytes.size(),
                     piece.is_template ? TENON_PIECE_TEMPLATE : TENON_PIECE_TEXT,
                     0});
    }
    std::vector<Token> out;
    const tenon_encode_pieces_args args{
        sizeof(args), raw.data(), raw.size(), flags, 0, append_tokens, collect(out)};
    host_.check(table_->encode_pieces(self_, &args));
    return out;
  }
  /* Returns names and contents of the files that describe the tokenizer; empty if it has none. */
  std::vector<std::pair<std::string, std::string>> files() const {
    std::vector<std::pair<std::string, std::string>> out;
    if (TENON_HAS(tenon_tokenizer, table_, files)) {
      const tenon_tokenizer_files_args args{sizeof(args), append_file, &out};
      host_.check(table_->files(self_, &args));
    }
    return out;
  }

 private:
  /* Returns the ABI table of class T. */
  template <class T>
  static void* collect(std::vector<T>& out) {
    return &out;
  }
  template <class T>
  static tenon_status* append(void* context, const T* data, size_t n) noexcept {
    return guard(nullptr, [&] {
      auto& out = *static_cast<std::vector<T>*>(context);
      out.insert(out.end(), data, data + n);
    });
  }
  static tenon_status* append_file(void* context,
                                   const char* name,
                                   const char* bytes,
                                   size_t num_bytes) noexcept {
    return guard(nullptr, [&] {
      static_cast<std::vector<std::pair<std::string, std::string>>*>(context)->emplace_back(
          name, std::string(bytes, num_bytes));
    });
  }
  static tenon_status* append_tokens(void* context,
                                     const int32_t* ids,
                                     const int64_t* begins,
                                     const int64_t* ends,
                                     size_t n) noexcept {
    return guard(nullptr, [&] {
      auto& out = *static_cast<std::vector<Token>*>(context);
      for (size_t i = 0; i < n; ++i) {
        out.push_back({ids[i], begins[i], ends[i]});
      }
    });
  }

  Host host_;
  const tenon_tokenizer* table_ = nullptr;
  void* self_;
};

TENON_NAMESPACE_END

#endif
