// SPDX-License-Identifier: Apache-2.0

#include "host/trust/vet_child.hpp"

#include "host/trust/vet_answer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace tenon {
namespace {

std::string vet(std::size_t index, const VetTrial& trial, ChildNote& note) {
  set_note(note, "");
  Verdict answer = trial(index, [&](std::string_view call) { set_note(note, call); });
  answer.message.resize(  // escaping makes it longer
      std::min(answer.message.size(), kMaxAnswerBytes / 8));
  return vet_answer_text(answer);
}

}  // namespace

std::string_view vet_request(const uint32_t& index) noexcept {
  return {reinterpret_cast<const char*>(&index), sizeof(index)};
}

void serve_vetting(int socket,
                   std::size_t num_plugins,
                   const VetTrial& trial,
                   ChildNote& note) noexcept {
  while (true) {
    uint32_t index = 0;
    const ssize_t n = recv(socket, &index, sizeof(index), 0);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n != static_cast<ssize_t>(sizeof(index)) || index >= num_plugins) {
      return;
    }
    const std::string answer = vet(index, trial, note);
    if (send(socket, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) {
      _exit(1);
    }
  }
}

}  // namespace tenon
