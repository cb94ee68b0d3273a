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

  template <class T>
  static const void* table() {
    static const tenon_tokenizer calls{sizeof(tenon_tokenizer), on_describe, on_encode, on_decode};
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

  Host host_;
  const tenon_tokenizer* table_ = nullptr;
  void* self_;
};

TENON_NAMESPACE_END

#endif
