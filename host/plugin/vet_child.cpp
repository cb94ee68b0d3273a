// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/vet_child.hpp"

#include "host/plugin/plugin_loader.hpp"
#include "host/plugin/vet_answer.hpp"
#include "host/plugin/vet_components.hpp"

#include <cerrno>
#include <cstdint>
#include <exception>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace tenon {
namespace {

std::string vet(const PluginInfo& plugin, const ServiceTable& services, ChildNote& note) {
  Verdict answer;
  try {
    set_note(note, "");
    const LoadedPlugin& loaded = load_plugin(plugin, services);
    answer.hash = loaded.hash;
    vet_components(loaded, [&](std::string_view call) { set_note(note, call); });
  } catch (const Error& error) {
    answer.id = error.id();
    answer.message = error.message().substr(0, kMaxAnswerBytes / 8);  // escaping makes it longer
  } catch (...) {
    std::terminate();  // with the exception active, so that the output names it
  }
  return vet_answer_text(answer);
}

}  // namespace

std::string_view vet_request(const uint32_t& index) noexcept {
  return {reinterpret_cast<const char*>(&index), sizeof(index)};
}

void serve_vetting(int socket,
                   std::span<const PluginInfo* const> plugins,
                   const ServiceTable& services,
                   ChildNote& note) noexcept {
  while (true) {
    uint32_t index = 0;
    const ssize_t n = recv(socket, &index, sizeof(index), 0);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n != static_cast<ssize_t>(sizeof(index)) || index >= plugins.size()) {
      return;
    }
    const std::string answer = vet(*plugins[index], services, note);
    if (send(socket, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) {
      _exit(1);
    }
  }
}

}  // namespace tenon
