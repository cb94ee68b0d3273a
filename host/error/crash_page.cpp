// SPDX-License-Identifier: Apache-2.0
#include "host/error/crash_page.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

// Maps a page of `file`, or of memory without a file if it is -1. Null if that fails.
CrashPage* mapped(int file) {
  const int flags = file >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;
  void* const memory = ::mmap(nullptr, sizeof(CrashPage), PROT_READ | PROT_WRITE, flags, file, 0);
  return memory != MAP_FAILED ? static_cast<CrashPage*>(memory) : nullptr;
}

}  // namespace

std::string CrashPage::report() const {
  return {text.data(), bytes.load(std::memory_order_acquire)};
}

CrashPage* map_own_crash_page() {
  CrashPage* page = nullptr;
  if (const char* const number = std::getenv(kCrashPageVariable)) {
    const int file = std::atoi(number);
    ::unsetenv(kCrashPageVariable);
    // A number that is no descriptor of a page, for example of an unrelated program, is ignored.
    if (file > STDERR_FILENO && ::lseek(file, 0, SEEK_END) == off_t{sizeof(CrashPage)}) {
      page = mapped(file);
      ::close(file);
    }
  }
  if (page == nullptr) {
    page = mapped(-1);
  }
  if (page == nullptr) {
    page = new CrashPage{};
  }
  page->is_used.store(1, std::memory_order_relaxed);
  return page;
}

ChildCrashPage::ChildCrashPage() : file_(::memfd_create("tenon-crash-page", MFD_CLOEXEC)) {
  if (file_ >= 0 && ::ftruncate(file_, sizeof(CrashPage)) == 0) {
    page_ = mapped(file_);
  }
  if (page_ == nullptr && file_ >= 0) {
    ::close(std::exchange(file_, -1));
  }
}

ChildCrashPage::ChildCrashPage(ChildCrashPage&& other) noexcept
    : file_(std::exchange(other.file_, -1)), page_(std::exchange(other.page_, nullptr)) {}

ChildCrashPage& ChildCrashPage::operator=(ChildCrashPage&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(page_, other.page_);
  return *this;
}

ChildCrashPage::~ChildCrashPage() {
  if (file_ >= 0) {
    ::close(file_);
  }
  if (page_ != nullptr) {
    ::munmap(page_, sizeof(CrashPage));
  }
}

std::string id_of_report(const std::string& report) {
  const std::size_t end = report.find(']');
  return report.starts_with('[') && end != std::string::npos ? report.substr(1, end - 1) : "";
}

}  // namespace tenon
