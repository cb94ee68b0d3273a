// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/disk_recorder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <set>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

enum class Work { kOpen, kWrite, kTruncate, kMakeFolder, kRemove, kRename, kLink, kSync, kSyncAll };

// A system call: what it does, and its arguments that are a descriptor (of the file, or of the
// folder that a path is relative to) and a path; -1 if it has none.
struct WatchedCall {
  long number;
  Work work;
  int fd = -1;
  int path = -1;
  int fd_to = -1;
  int path_to = -1;
};

constexpr WatchedCall kCalls[] = {
#ifdef SYS_open  // calls that newer machines do not have
    {SYS_open, Work::kOpen},
    {SYS_creat, Work::kOpen},
    {SYS_mkdir, Work::kMakeFolder, -1, 0},
    {SYS_rmdir, Work::kRemove, -1, 0},
    {SYS_unlink, Work::kRemove, -1, 0},
    {SYS_rename, Work::kRename, -1, 0, -1, 1},
    {SYS_link, Work::kLink, -1, 0, -1, 1},
    {SYS_symlink, Work::kLink, -1, -1, -1, 1},
#endif
    {SYS_openat, Work::kOpen},
    {SYS_openat2, Work::kOpen},
    {SYS_mkdirat, Work::kMakeFolder, 0, 1},
    {SYS_unlinkat, Work::kRemove, 0, 1},
    {SYS_renameat, Work::kRename, 0, 1, 2, 3},
    {SYS_renameat2, Work::kRename, 0, 1, 2, 3},
    {SYS_linkat, Work::kLink, 0, 1, 2, 3},
    {SYS_symlinkat, Work::kLink, -1, -1, 1, 2},
    {SYS_write, Work::kWrite, 0},
    {SYS_writev, Work::kWrite, 0},
    {SYS_pwrite64, Work::kWrite, 0},
    {SYS_pwritev, Work::kWrite, 0},
    {SYS_pwritev2, Work::kWrite, 0},
    {SYS_ftruncate, Work::kWrite, 0},
    {SYS_fallocate, Work::kWrite, 0},
    {SYS_sendfile, Work::kWrite, 0},
    {SYS_copy_file_range, Work::kWrite, 2},
    {SYS_truncate, Work::kTruncate, -1, 0},
    {SYS_fsync, Work::kSync, 0},
    {SYS_fdatasync, Work::kSync, 0},
    {SYS_syncfs, Work::kSyncAll},
    {SYS_sync, Work::kSyncAll},
};

const WatchedCall* watched(int64_t number) {
  const auto* const at = std::ranges::find(kCalls, number, &WatchedCall::number);
  return at != std::end(kCalls) ? at : nullptr;
}

// From now on, each watched call of this process and its children stops for the recorder.
void watch_calls() {
  std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const WatchedCall& call : kCalls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<__u32>(call.number), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    ::_exit(126);
  }
}

std::string link_text(const std::string& link) {
  char target[PATH_MAX];
  const ssize_t n = ::readlink(link.c_str(), target, sizeof target);
  return n > 0 ? std::string(target, static_cast<size_t>(n)) : "";
}

std::string file_of(pid_t task, uint64_t fd) {
  return "/proc/" + std::to_string(task) + "/fd/" + std::to_string(static_cast<int>(fd));
}

// A text in the memory of a process. It may end shortly before memory that is not mapped.
std::string text_at(pid_t task, uint64_t address) {
  constexpr uint64_t kPage = 4096;
  std::string text;
  while (text.size() < PATH_MAX) {
    std::array<char, kPage> page;
    const size_t size = kPage - address % kPage;
    const iovec to{page.data(), size};
    const iovec from{reinterpret_cast<void*>(address), size};
    const ssize_t n = ::process_vm_readv(task, &to, 1, &from, 1, 0);
    if (n <= 0) {
      break;
    }
    const size_t length = ::strnlen(page.data(), static_cast<size_t>(n));
    text.append(page.data(), length);
    if (length < static_cast<size_t>(n)) {
      break;
    }
    address += static_cast<uint64_t>(n);
  }
  return text;
}

std::string path_at(pid_t task, const uint64_t* args, int fd, int path) {
  const std::string text = text_at(task, args[path]);
  if (text.starts_with('/')) {
    return fs::path(text).lexically_normal().string();
  }
  const bool is_current = fd < 0 || static_cast<int>(args[fd]) == AT_FDCWD;
  const std::string folder = is_current ? link_text("/proc/" + std::to_string(task) + "/cwd")
                                        : link_text(file_of(task, args[fd]));
  return (fs::path(folder) / text).lexically_normal().string();
}

pid_t start_watched(const std::vector<std::string>& words,
                    const std::string& folder,
                    const std::string& out) {
  std::vector<char*> pointers;
  for (const std::string& word : words) {
    pointers.push_back(const_cast<char*>(word.c_str()));
  }
  pointers.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t process = ::fork();
  if (process == 0) {
    ::setsid();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setenv("LSAN_OPTIONS", "detect_leaks=0", 1);  // it does not work in a watched process
    const int file = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    if (::dup2(file, STDOUT_FILENO) < 0 || ::dup2(file, STDERR_FILENO) < 0 ||
        ::chdir(folder.c_str()) != 0 || ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
      ::_exit(125);
    }
    ::raise(SIGSTOP);
    watch_calls();
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  return process;
}

long options() {
  return PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
         PTRACE_O_TRACEEXEC | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD;
}

}  // namespace

DiskRecorder::DiskRecorder(const fs::path& root) : root_(fs::canonical(root).string()) {}

bool DiskRecorder::is_possible(std::string& reason) {
  const pid_t process = start_watched({"/bin/true"}, "/", "/dev/null");
  int status = 0;
  ::waitpid(process, &status, 0);
  const bool is_stopped = WIFSTOPPED(status);
  if (!is_stopped || ::ptrace(PTRACE_SETOPTIONS, process, nullptr, options()) != 0) {
    reason = std::string("the system does not allow ptrace: ") + std::strerror(errno);
  }
  if (is_stopped) {
    ::kill(process, SIGKILL);
    ::waitpid(process, &status, 0);
  }
  return reason.empty();
}

int DiskRecorder::run(const std::vector<std::string>& words,
                      const fs::path& out,
                      const std::function<bool(const DiskEvent&)>& kill_after) {
  kill_after_ = kill_after;
  out_ = out.string();
  said_.clear();
  process_ = start_watched(words, root_, out_);
  std::map<pid_t, Call> calls;  // begun
  std::set<pid_t> known;
  int result = 0;
  int status = 0;
  for (pid_t task; (task = ::waitpid(-1, &status, __WALL)) > 0 || errno == EINTR;) {
    if (task <= 0) {
      continue;
    }
    if (!WIFSTOPPED(status)) {
      if (task == process_) {
        result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      calls.erase(task);
      continue;
    }
    const int signal = WSTOPSIG(status);
    if (known.insert(task).second && signal == SIGSTOP) {  // the first stop of a new task
      if (task == process_) {
        ::ptrace(PTRACE_SETOPTIONS, task, nullptr, options());
      }
      ::ptrace(PTRACE_CONT, task, nullptr, nullptr);
      continue;
    }
    if (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)) {
      Call call{};
      const bool is_watched = begin_call(task, call);
      if (is_watched) {
        calls[task] = call;
      }
      ::ptrace(is_watched ? PTRACE_SYSCALL : PTRACE_CONT, task, nullptr, nullptr);
    } else if (signal == (SIGTRAP | 0x80)) {
      __ptrace_syscall_info info{};
      ::ptrace(PTRACE_GET_SYSCALL_INFO, task, sizeof info, &info);
      const auto call = calls.extract(task);
      if (!call.empty() && info.op == PTRACE_SYSCALL_INFO_EXIT && info.exit.rval >= 0) {
        end_call(task, call.mapped(), info.exit.rval);
      }
      ::ptrace(PTRACE_CONT, task, nullptr, nullptr);
    } else {
      stop_at_signal(task, status);
    }
  }
  return result;
}

// Events of new tasks need nothing; a signal is delivered.
void DiskRecorder::stop_at_signal(pid_t task, int status) {
  const int signal = status >> 16 != 0 ? 0 : WSTOPSIG(status);
  ::ptrace(PTRACE_CONT, task, nullptr, static_cast<long>(signal));
}

bool DiskRecorder::begin_call(pid_t task, Call& call) const {
  __ptrace_syscall_info info{};
  if (::ptrace(PTRACE_GET_SYSCALL_INFO, task, sizeof info, &info) <= 0 ||
      info.op != PTRACE_SYSCALL_INFO_SECCOMP) {
    return false;
  }
  call.number = static_cast<int64_t>(info.seccomp.nr);
  std::copy_n(info.seccomp.args, 6, call.args);
  const WatchedCall* const watch = watched(call.number);
  if (watch == nullptr) {
    return false;
  }
  // Before the call, because it may change where a relative path begins.
  if (watch->path >= 0) {
    call.from = path_at(task, call.args, watch->fd, watch->path);
  }
  if (watch->path_to >= 0) {
    call.to = path_at(task, call.args, watch->fd_to, watch->path_to);
  }
  return true;
}

void DiskRecorder::end_call(pid_t task, const Call& call, int64_t result) {
  const WatchedCall& watch = *watched(call.number);
  switch (watch.work) {
    case Work::kOpen:
      return opened(task, result);
    case Work::kWrite:
      return written(file_of(task, call.args[watch.fd]));
    case Work::kTruncate:
      return written(call.from);
    case Work::kMakeFolder:
      return made(NodeKind::kFolder, call.from);
    case Work::kRemove:
      return removed(call.from);
    case Work::kRename:
      return renamed(call.from, call.to);
    case Work::kLink:
      return made(watch.path < 0 ? NodeKind::kLink : NodeKind::kFile, call.to);
    case Work::kSync:
      return synced(task, call.args[0]);
    case Work::kSyncAll:
      return add({.kind = DiskEvent::Kind::kSyncAll, .call = "sync"});
  }
}

bool DiskRecorder::is_below(const std::string& path, std::string& relative) const {
  if (path == root_) {
    relative.clear();
    return true;
  }
  if (!path.starts_with(root_ + "/")) {
    return false;
  }
  relative = path.substr(root_.size() + 1);
  return true;
}

size_t DiskRecorder::node_at(const std::string& relative) const {
  size_t node = kRootNode;
  for (const fs::path& part : fs::path(relative)) {
    const auto at = folders_[node].find(part.string());
    if (at == folders_[node].end()) {
      return kNoNode;
    }
    node = at->second;
  }
  return node;
}

DiskEvent::Entry DiskRecorder::entry_at(const std::string& relative, size_t node) const {
  const fs::path path(relative);
  const size_t folder = node_at(path.parent_path().string());
  if (folder == kNoNode) {
    throw std::logic_error("no folder is known for " + relative);
  }
  return {folder, path.filename().string(), node};
}

void DiskRecorder::add(DiskEvent event) {
  for (const DiskEvent::Entry& entry : event.entries) {
    if (entry.node == kNoNode) {
      folders_[entry.folder].erase(entry.name);
    } else {
      folders_[entry.folder][entry.name] = entry.node;
    }
  }
  if (event.kind == DiskEvent::Kind::kContent) {
    contents_[event.node] = event.content;
  }
  log_.events.push_back(std::move(event));
  if (kill_after_ != nullptr && kill_after_(log_.events.back())) {
    kill_after_ = nullptr;
    ::kill(process_, SIGKILL);
  }
}

void DiskRecorder::opened(pid_t task, int64_t fd) {
  const std::string file = file_of(task, static_cast<uint64_t>(fd));
  const std::string path = link_text(file);
  std::string relative;
  struct stat status {};
  if (!is_below(path, relative) || ::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_nlink == 0) {
    return;
  }
  if (node_at(relative) == kNoNode) {
    made(NodeKind::kFile, path);
  }
  written(file);  // it may have been truncated
}

void DiskRecorder::made(NodeKind kind, const std::string& path) {
  std::string relative;
  struct stat status {};
  if (!is_below(path, relative) || ::lstat(path.c_str(), &status) != 0) {
    return;
  }
  size_t node = log_.nodes.size();
  const FileId id{status.st_dev, status.st_ino};
  if (kind == NodeKind::kFile && status.st_nlink > 1) {  // another name of a known file
    node = files_.at(id);
  } else {
    log_.nodes.push_back(kind);
    folders_.emplace_back();
    contents_.push_back(0);
    files_[id] = node;
  }
  add({.kind = DiskEvent::Kind::kEntries,
       .call = "create " + relative,
       .entries = {entry_at(relative, node)}});
  if (kind == NodeKind::kLink) {
    compare(node, link_text(path), "link " + relative);
  }
}

void DiskRecorder::written(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return;
  }
  const std::string path = file.starts_with("/proc/") ? link_text(file) : file;
  if (path == out_) {
    return said(file_text(out_));
  }
  std::string relative;
  const auto known = files_.find({status.st_dev, status.st_ino});
  if (is_below(path, relative) && known != files_.end() && status.st_nlink > 0) {
    compare(known->second, file_text(file), "write " + relative);
  }
}

void DiskRecorder::compare(size_t node, const std::string& text, const std::string& call) {
  const size_t content = log_.contents.add(text);
  if (content != contents_[node]) {
    add({.kind = DiskEvent::Kind::kContent, .call = call, .node = node, .content = content});
  }
}

void DiskRecorder::said(const std::string& text) {
  for (size_t end; (end = text.find('\n', said_.size())) != std::string::npos;) {
    add({.kind = DiskEvent::Kind::kSaid, .call = text.substr(said_.size(), end - said_.size())});
    said_ = text.substr(0, end + 1);
  }
}

void DiskRecorder::removed(const std::string& path) {
  std::string relative;
  if (is_below(path, relative)) {
    add({.kind = DiskEvent::Kind::kEntries,
         .call = "remove " + relative,
         .entries = {entry_at(relative, kNoNode)}});
  }
}

void DiskRecorder::renamed(const std::string& from, const std::string& to) {
  std::string relative;
  std::string relative_to;
  const bool is_from_here = is_below(from, relative);
  if (is_from_here != is_below(to, relative_to)) {
    throw std::logic_error("a rename into or out of the folder: " + from + " -> " + to);
  }
  if (is_from_here && from != to) {
    const size_t node = node_at(relative);
    add({.kind = DiskEvent::Kind::kEntries,
         .call = "rename " + relative + " -> " + relative_to,
         .entries = {entry_at(relative, kNoNode), entry_at(relative_to, node)}});
  }
}

void DiskRecorder::synced(pid_t task, uint64_t fd) {
  const std::string path = link_text(file_of(task, fd));
  std::string relative;
  if (!is_below(path, relative)) {
    return;
  }
  const size_t node = node_at(relative);
  if (node != kNoNode) {
    const bool is_folder = log_.nodes[node] == NodeKind::kFolder;
    add({.kind = is_folder ? DiskEvent::Kind::kSyncFolder : DiskEvent::Kind::kSyncFile,
         .call = "sync " + relative,
         .node = node});
  }
}

DiskImage DiskRecorder::image() const {
  DiskImage image;
  std::vector<std::pair<size_t, std::string>> open = {{kRootNode, ""}};
  while (!open.empty()) {
    const auto [folder, path] = open.back();
    open.pop_back();
    for (const auto& [name, node] : folders_[folder]) {
      const NodeKind kind = log_.nodes[node];
      image[path + name] = {kind, kind == NodeKind::kFolder ? 0 : contents_[node]};
      if (kind == NodeKind::kFolder) {
        open.emplace_back(node, path + name + "/");
      }
    }
  }
  return image;
}

}  // namespace tenon
