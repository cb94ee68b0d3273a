/* SPDX-License-Identifier: Apache-2.0
 *
 * Ignores SIGUSR1 from the first milliseconds of the program on. The signal asks a run for a
 * checkpoint, and its default action ends a process. The dynamic loader relocates libtorch before
 * any initializer runs, which takes tenths of a second on a busy machine. It calls the resolver
 * below when it relocates this library, which comes before libtorch: the loader starts with the
 * last library.
 *
 * Nothing of the C library is relocated for certain at that time, hence the system call. On other
 * processors the program ignores the signal as soon as it can (start_failure.cpp). */
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>

#if defined(__x86_64__) || defined(__aarch64__)

/* As the kernel has it. */
struct kernel_action {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)(void);
  unsigned long mask;
};

static void do_nothing(void) {}

/* The register variables below are not const: GCC puts the value of a const one where it likes. */

__attribute__((no_sanitize("address", "thread", "undefined"))) static void (*ignore_request(void))(
    void) {
  const struct kernel_action ignored = {.handler = SIG_IGN};
#if defined(__x86_64__)
  register const struct kernel_action* action __asm__("rsi") = &ignored;
  register void* old __asm__("rdx") = NULL;
  register size_t mask_bytes __asm__("r10") = sizeof(ignored.mask);
  long result = SYS_rt_sigaction;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"((long)SIGUSR1), "r"(action), "r"(old), "r"(mask_bytes)
                   : "rcx", "r11", "memory");
#else
  register long number __asm__("x8") = SYS_rt_sigaction;
  register long signal_number __asm__("x0") = SIGUSR1;
  register const struct kernel_action* action __asm__("x1") = &ignored;
  register void* old __asm__("x2") = NULL;
  register size_t mask_bytes __asm__("x3") = sizeof(ignored.mask);
  __asm__ volatile("svc #0"
                   : "+r"(signal_number)
                   : "r"(number), "r"(action), "r"(old), "r"(mask_bytes)
                   : "memory");
#endif
  return do_nothing;
}

static void at_start(void) __attribute__((ifunc("ignore_request")));

/* A relocation, for which the loader calls the resolver. */
__attribute__((used)) static void (*const volatile kAtStart)(void) = at_start;

#endif
