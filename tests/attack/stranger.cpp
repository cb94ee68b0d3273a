// SPDX-License-Identifier: Apache-2.0
//
// Another user of the machine at each port on which a run of two ranks listens: it asks the store
// for its keys and values, sets some, sends garbage and absurd lengths, and holds idle connections.
// The run is not disturbed, and the stranger reads no value. Needs root, to become another user.
//
// Source   the requests of c10d's TCPStore: torch/csrc/distributed/c10d/TCPStoreBackend.hpp
#include <nlohmann/json.hpp>

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <csignal>
#include <cstring>
#include <fstream>
#include <grp.h>
#include <memory>
#include <netinet/in.h>
#include <set>
#include <sstream>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/attack/attack.hpp"
#include "tests/attack/oracle.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;
constexpr std::size_t kIdle = 200;  // connections

// The inodes of the sockets that the processes of a run have open.
std::set<std::string> sockets_of(const std::vector<pid_t>& processes) {
  std::set<std::string> inodes;
  for (const pid_t process : processes) {
    std::error_code ignored;
    for (const auto& entry :
         fs::directory_iterator("/proc/" + std::to_string(process) + "/fd", ignored)) {
      const std::string target = fs::read_symlink(entry.path(), ignored).string();
      if (target.starts_with("socket:[")) {
        inodes.insert(target.substr(8, target.size() - 9));
      }
    }
  }
  return inodes;
}

// The TCP ports, of both versions of IP, on which a run listens.
std::set<std::uint16_t> listening_ports(const std::vector<pid_t>& processes) {
  const std::set<std::string> inodes = sockets_of(processes);
  std::set<std::uint16_t> ports;
  for (const char* const file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    for (const std::string& line : file_lines(file)) {
      std::istringstream fields(line);
      std::vector<std::string> words;
      for (std::string word; fields >> word;) {
        words.push_back(word);
      }
      constexpr const char* kListens = "0A";
      if (words.size() > 9 && words[3] == kListens && inodes.count(words[9]) > 0) {
        ports.insert(static_cast<std::uint16_t>(
            std::stoul(words[1].substr(words[1].find(':') + 1), nullptr, 16)));
      }
    }
  }
  return ports;
}

int connected(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const timeval limit{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    return fd;
  }
  ::close(fd);
  return -1;
}

// Sends bytes on a new connection, and returns what comes back within a second.
std::string answer_to(std::uint16_t port, const std::string& bytes) {
  const int fd = connected(port);
  std::string answer;
  if (fd < 0) {
    return answer;
  }
  (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  char buffer[65536];
  for (ssize_t n = 0;
       (n = ::recv(fd, buffer, sizeof(buffer), 0)) > 0 && answer.size() < 1'000'000;) {
    answer.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(fd);
  return answer;
}

std::string number_bytes(std::uint64_t number, std::size_t size) {
  std::string bytes(size, '\0');
  std::memcpy(bytes.data(), &number, size);
  return bytes;
}
std::string text_bytes(const std::string& text) {
  return number_bytes(text.size(), 8) + text;
}
std::string request(char type, const std::string& rest) {
  constexpr std::uint32_t kMagic = 0x3C85F7CE;  // of TCPStore's first request, which has type 0
  return std::string(1, '\0') + number_bytes(kMagic, 4) + type + rest;
}

// The first run of letters, digits and marks in bytes that is long enough for a key.
std::string first_text(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    if (std::isgraph(static_cast<unsigned char>(byte)) != 0) {
      text += byte;
    } else if (text.size() >= 6) {
      return text;
    } else {
      text.clear();
    }
  }
  return text.size() >= 6 ? text : "";
}

// The texts of an answer to LIST_KEYS: a count, and texts behind their lengths.
std::vector<std::string> texts_of(const std::string& answer) {
  std::vector<std::string> texts;
  for (std::size_t at = 8; at + 8 <= answer.size() && texts.size() < 1000;) {
    std::uint64_t size = 0;
    std::memcpy(&size, answer.data() + at, 8);
    at += 8;
    if (size > answer.size() - at) {
      break;
    }
    texts.push_back(answer.substr(at, size));
    at += size;
  }
  return texts;
}

// All that the stranger tries at one port. Returns what it read; "" if nothing.
std::string trouble(std::uint16_t port, std::uint64_t seed) {
  constexpr char kSet = 1;
  constexpr char kGet = 3;
  constexpr char kKeys = 17;
  std::string read;
  const std::string keys = answer_to(port, request(kKeys, ""));
  for (const std::string& key : texts_of(keys)) {
    if (const std::string value = first_text(answer_to(port, request(kGet, text_bytes(key))));
        read.empty() && !value.empty()) {
      read = "the value of " + key + ": " + value.substr(0, 80);
    }
    const std::size_t found = key.find("status/");
    if (found != std::string::npos) {  // as F1 of a run did: end it
      (void)answer_to(
          port,
          request(kSet, text_bytes(key.substr(0, found) + "failure/first") + text_bytes("{}")));
    }
  }
  if (read.empty() && !first_text(keys).empty()) {
    read = "the key " + first_text(keys).substr(0, 80);
  }
  (void)answer_to(port, request(kSet, text_bytes("junk") + text_bytes(std::string(1 << 20, 'x'))));
  (void)answer_to(port, request(kSet, number_bytes(UINT64_MAX, 8)));
  (void)answer_to(port, request(kGet, number_bytes(std::uint64_t{1} << 40, 8)));
  std::mt19937_64 random(seed + port);
  for (int i = 0; i < 10; ++i) {
    std::string garbage(1 + random() % 5000, '\0');
    for (char& byte : garbage) {
      byte = static_cast<char>(random());
    }
    (void)answer_to(port, garbage);
  }
  (void)answer_to(port, "GET / HTTP/1.1\r\n\r\n");
  std::vector<int> idle;
  for (std::size_t i = 0; i < kIdle; ++i) {
    idle.push_back(connected(port));
  }
  for (const int fd : idle) {
    if (fd >= 0) {
      ::close(fd);
    }
  }
  return read;
}

// Runs the stranger as another user. Returns what it read.
std::string read_as_nobody(const std::set<std::uint16_t>& ports, std::uint64_t seed) {
  int ends[2];
  if (::pipe(ends) != 0) {
    return "";
  }
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    ::close(ends[0]);
    std::string read;
    if (::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0) {
      for (const std::uint16_t port : ports) {
        const std::string found = trouble(port, seed);
        read += found.empty() ? "" : "at port " + std::to_string(port) + ", " + found + "; ";
      }
    }
    (void)!::write(ends[1], read.data(), std::min<std::size_t>(read.size(), 4000));
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string read(4096, '\0');
  const ssize_t n = ::read(ends[0], read.data(), read.size());
  read.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  ::close(ends[0]);
  ::waitpid(stranger, nullptr, 0);
  return read;
}

// Waits until the run has taken a step: it then listens wherever it does.
bool wait_for_step(const Child& child, const fs::path& run) {
  for (int i = 0; i < 3000 && !child.has_ended(); ++i) {
    if (!file_text(run / "last_step").empty()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

// A run that lasts until `stop` exists.
std::string long_recipe(const fs::path& stop) {
  nlohmann::json recipe = nlohmann::json::parse(attacked_recipes().front().text);
  recipe["train"]["steps"] = 100'000'000;
  recipe["train"]["log_every"] = 1000;
  recipe["train"]["kill_switch"] = stop.string();
  recipe["checkpoint"]["every_steps"] = 100'000;
  recipe["eval"]["every_steps"] = 1'000'000;
  return recipe.dump();
}

void disturb_once(Attack& attack, bool is_launched) {
  const fs::path folder = attack.folder() / "listening";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::string how = is_launched ? "--launch 2" : "two ranks started by hand";
  const fs::path stop = folder / "stop";
  const fs::path recipe = folder / "recipe.json";
  const fs::path run = folder / "run";
  std::ofstream(recipe) << long_recipe(stop);
  std::vector<std::unique_ptr<Child>> children;
  if (is_launched) {
    children.push_back(std::make_unique<Child>(run_words(recipe, run, 2), folder / "log-0"));
  } else {
    const std::string port = std::to_string(free_loopback_port());
    for (const char* const rank : {"0", "1"}) {
      children.push_back(
          std::make_unique<Child>(run_words(recipe, run, 1),
                                  folder / ("log-" + std::string(rank)),
                                  ChildOptions{.environment = {{"RANK", rank},
                                                               {"LOCAL_RANK", rank},
                                                               {"WORLD_SIZE", "2"},
                                                               {"LOCAL_WORLD_SIZE", "2"},
                                                               {"MASTER_ADDR", "127.0.0.1"},
                                                               {"MASTER_PORT", port}}}));
    }
  }
  const bool has_begun = wait_for_step(*children[0], run);
  std::set<std::uint16_t> ports;
  std::string read;
  if (has_begun) {
    std::vector<pid_t> processes;
    for (const auto& child : children) {
      const std::vector<pid_t> of_child = child->session();
      processes.insert(processes.end(), of_child.begin(), of_child.end());
    }
    ports = listening_ports(processes);
    read = read_as_nobody(ports, attack.below(UINT64_MAX));
  }
  std::ofstream(stop) << "stop\n";
  std::string wrong;
  for (const auto& child : children) {
    const std::optional<int> status = child->wait(std::chrono::seconds(120));
    wrong += bad_ending(status, child->log());
    if (wrong.empty() && status != 75) {
      wrong =
          "the run ended with status " + std::to_string(*status) + " " + error_id_of(child->log());
    }
  }
  if (!has_begun && !is_launched && wrong.find("status") != std::string::npos) {
    attack.survived(how + ": refused without a secret");
    return;
  }
  if (!read.empty()) {
    wrong = "another user reads " + read + (wrong.empty() ? "" : " and " + wrong);
  }
  if (!wrong.empty()) {
    attack.found(how + ": " + wrong, folder);
  } else {
    attack.survived(how + ": undisturbed, " + std::to_string(ports.size()) + " ports");
  }
}

}  // namespace

void attack_stranger(Attack& attack) {
  if (::geteuid() != 0) {
    attack.survived("skipped: only root can become another user");
    return;
  }
  for (std::uint64_t i = attack.first(); i < attack.first() + attack.count(); ++i) {
    attack.begin_case(i);
    disturb_once(attack, i % 2 == 0);
  }
}

}  // namespace tenon
