// SPDX-License-Identifier: Apache-2.0
#include "host/trust/secrets/psk_channel.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <new>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <utility>

namespace tenon {
namespace {

constexpr const char* kCipher = "TLS_AES_256_GCM_SHA384";
constexpr std::array<unsigned char, 2> kCipherId = {0x13, 0x02};
constexpr std::string_view kIdentity = "tenon run";
constexpr long kSessionSeconds = 3'000'000'000;  // a clock that jumps must not make a key expire

// The session that TLS resumes: in TLS 1.3, a pre-shared key is one. Null on failure.
SSL_SESSION* session_of(SSL* ssl) {
  const auto* const key = static_cast<const RunKey*>(SSL_get_app_data(ssl));
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kCipherId.data());
  SSL_SESSION* const session = SSL_SESSION_new();
  if (session == nullptr || cipher == nullptr ||
      SSL_SESSION_set1_master_key(session, key->data(), key->size()) != 1 ||
      SSL_SESSION_set_cipher(session, cipher) != 1 ||
      SSL_SESSION_set_timeout(session, kSessionSeconds) != 1 ||
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int offer_key(
    SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* size, SSL_SESSION** session) {
  *session = session_of(ssl);
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *size = kIdentity.size();
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** session) {
  const std::string_view named(reinterpret_cast<const char*>(identity), size);
  *session = named == kIdentity ? session_of(ssl) : nullptr;
  return 1;
}

using Settings = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

// Neither side has a certificate, so a handshake without the key cannot succeed.
Settings make_settings(PskChannel::Role role) {
  // Threads that wait for a store may outlive main(), so libcrypto must not be cleaned up at exit.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  Settings settings(SSL_CTX_new(TLS_method()), &SSL_CTX_free);
  if (settings == nullptr || SSL_CTX_set_min_proto_version(settings.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(settings.get(), kCipher) != 1 ||
      SSL_CTX_set_num_tickets(settings.get(), 0) != 1) {
    throw std::runtime_error("OpenSSL cannot use TLS 1.3 with a pre-shared key");
  }
  SSL_CTX_set_session_cache_mode(settings.get(), SSL_SESS_CACHE_OFF);
  if (role == PskChannel::Role::kServer) {
    SSL_CTX_set_psk_find_session_callback(settings.get(), &find_key);
  } else {
    SSL_CTX_set_verify(settings.get(), SSL_VERIFY_PEER, nullptr);  // refuses a server's certificate
    SSL_CTX_set_psk_use_session_callback(settings.get(), &offer_key);
  }
  return settings;
}

// Lives until the process ends, as the threads that use it may.
SSL_CTX* settings_for(PskChannel::Role role) {
  static SSL_CTX* const server = make_settings(PskChannel::Role::kServer).release();
  static SSL_CTX* const client = make_settings(PskChannel::Role::kClient).release();
  return role == PskChannel::Role::kServer ? server : client;
}

[[noreturn]] void fail_channel(bool is_open) {
  const unsigned long code = ERR_peek_error();
  char text[256] = "unknown error";
  if (code != 0) {
    ERR_error_string_n(code, text, sizeof(text));
  }
  const int reason = ERR_GET_REASON(code);
  ERR_clear_error();
  // An alert of the peer, or a failed proof here.
  const bool is_key = reason > SSL_AD_REASON_OFFSET || reason == SSL_R_BINDER_DOES_NOT_VERIFY ||
                      reason == SSL_R_CERTIFICATE_VERIFY_FAILED ||
                      reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM ||
                      reason == SSL_R_NO_SHARED_CIPHER;
  if (!is_open && is_key) {
    throw WrongKey("the other side does not have the secret of this run");
  }
  throw std::runtime_error(is_open ? std::string("the connection was tampered with: ") + text
                                   : "the other side does not use TLS");
}

}  // namespace

struct PskChannel::Impl {
  Impl(Role role, const RunKey& key) : ssl(SSL_new(settings_for(role)), &SSL_free) {
    from_peer = BIO_new(BIO_s_mem());
    to_peer = BIO_new(BIO_s_mem());
    if (ssl == nullptr || from_peer == nullptr || to_peer == nullptr) {
      throw std::bad_alloc();
    }
    SSL_set_bio(ssl.get(), from_peer, to_peer);  // takes both
    SSL_set_app_data(ssl.get(), const_cast<RunKey*>(&key));
    role == Role::kServer ? SSL_set_accept_state(ssl.get()) : SSL_set_connect_state(ssl.get());
  }

  std::unique_ptr<SSL, decltype(&SSL_free)> ssl;
  BIO* from_peer = nullptr;
  BIO* to_peer = nullptr;
  std::string received;
  bool is_open = false;
};

PskChannel::PskChannel(Role role, const RunKey& key) : impl_(std::make_unique<Impl>(role, key)) {}
PskChannel::~PskChannel() = default;
PskChannel::PskChannel(PskChannel&&) noexcept = default;
PskChannel& PskChannel::operator=(PskChannel&&) noexcept = default;

bool PskChannel::is_open() const {
  return impl_->is_open;
}

void PskChannel::start() {
  advance();
}

void PskChannel::take(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto part = static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX));
    if (BIO_write(impl_->from_peer, bytes.data(), part) != part) {
      throw std::bad_alloc();
    }
    bytes.remove_prefix(static_cast<size_t>(part));
  }
  advance();
}

// Continues the handshake, and then reads.
void PskChannel::advance() {
  SSL* const ssl = impl_->ssl.get();
  ERR_clear_error();
  if (!impl_->is_open) {
    const int done = SSL_do_handshake(ssl);
    if (done != 1) {
      if (SSL_get_error(ssl, done) != SSL_ERROR_WANT_READ) {
        fail_channel(false);
      }
      return;
    }
    if (SSL_session_reused(ssl) != 1) {
      throw WrongKey("the other side does not have the secret of this run");
    }
    impl_->is_open = true;
  }
  std::array<char, 16384> text;
  for (;;) {
    size_t count = 0;
    const int done = SSL_read_ex(ssl, text.data(), text.size(), &count);
    if (done != 1) {
      if (SSL_get_error(ssl, done) != SSL_ERROR_WANT_READ) {
        fail_channel(true);
      }
      return;
    }
    impl_->received.append(text.data(), count);
  }
}

void PskChannel::send(std::string_view text) {
  ERR_clear_error();
  size_t count = 0;
  if (!text.empty() && SSL_write_ex(impl_->ssl.get(), text.data(), text.size(), &count) != 1) {
    fail_channel(true);
  }
}

std::string PskChannel::take_outgoing() {
  std::string bytes(BIO_ctrl_pending(impl_->to_peer), '\0');
  if (!bytes.empty()) {
    BIO_read(impl_->to_peer, bytes.data(), static_cast<int>(bytes.size()));
  }
  return bytes;
}

std::string PskChannel::take_received() {
  return std::exchange(impl_->received, "");
}

}  // namespace tenon
