// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/sequence_parts.hpp"

#include <numeric>

namespace tenon {
namespace {

thread_local SequenceScope* scope_here = nullptr;

}  // namespace

int64_t SequenceParts::begin_of(uint32_t rank) const {
  return std::accumulate(lengths.begin(), lengths.begin() + rank, int64_t{0});
}

int64_t SequenceParts::whole() const {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

SequenceScope::SequenceScope(const SequenceParts* parts) : parts_(parts), before_(scope_here) {
  scope_here = this;
}

SequenceScope::~SequenceScope() {
  scope_here = before_;
}

SequenceScope* SequenceScope::current() {
  return scope_here;
}

const SequenceParts* sequence_parts() {
  return scope_here == nullptr ? nullptr : scope_here->parts();
}

}  // namespace tenon
