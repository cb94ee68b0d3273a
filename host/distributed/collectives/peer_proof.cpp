// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/peer_proof.hpp"

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <ATen/ops/empty.h>

#include <cstring>
#include <string_view>
#include <vector>

namespace tenon {
namespace {

constexpr int64_t kProofBytes = sizeof(RunKey);
// No collective has these numbers when a group begins.
constexpr uint64_t kNonceTag = (uint64_t{1} << 31) - 2;
constexpr uint64_t kProofTag = (uint64_t{1} << 31) - 1;

at::Tensor bytes_for(const RunKey& bytes) {
  at::Tensor tensor = at::empty({kProofBytes}, at::kByte);
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string_view text_in(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.numel())};
}

// What `from` sends to `to`, who has sent `nonce`.
RunKey proof_of(const RunKey& key,
                const std::string& group,
                uint32_t from,
                uint32_t to,
                std::string_view nonce) {
  return authenticator(key, formatted("{}\n{} {}\n{}", group, from, to, nonce));
}

}  // namespace

void prove_peers(PeerExchange& exchange,
                 const RunKey& key,
                 const std::string& group,
                 std::chrono::steady_clock::time_point deadline) {
  RunKey nonce{};
  fill_random(nonce.data(), nonce.size());
  const at::Tensor own = bytes_for(nonce);
  std::vector<PeerTensor> nonces;
  std::vector<PeerTensor> sent;
  for (uint32_t peer = 0; peer < exchange.size(); ++peer) {
    if (peer != exchange.rank()) {
      nonces.push_back({peer, at::empty({kProofBytes}, at::kByte)});
      sent.push_back({peer, own});
    }
  }
  exchange.start(kNonceTag, nonces, sent).wait(deadline);
  std::vector<PeerTensor> proofs;
  for (size_t i = 0; i < nonces.size(); ++i) {
    const uint32_t peer = nonces[i].peer;
    proofs.push_back({peer, at::empty({kProofBytes}, at::kByte)});
    sent[i].tensor =
        bytes_for(proof_of(key, group, exchange.rank(), peer, text_in(nonces[i].tensor)));
  }
  exchange.start(kProofTag, proofs, sent).wait(deadline);
  for (const PeerTensor& proof : proofs) {
    const RunKey expected = proof_of(key, group, proof.peer, exchange.rank(), text_in(own));
    if (!is_authentic(expected, text_in(proof.tensor))) {
      throw Error(
          "distributed.unauthenticated",
          formatted("the program that connected as rank {} does not have the secret of this "
                    "run; another user or program has taken its place, or the ranks have "
                    "different secrets (docs/security.md)",
                    exchange.rank_in_world(proof.peer)));
    }
  }
}

}  // namespace tenon
