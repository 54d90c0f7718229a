// The first process of a sandbox on AArch64: launcher_x86_64.s says the same with more comments.
// aarch64-linux-gnu-as launcher_aarch64.s -o l.o && aarch64-linux-gnu-objcopy -O binary -j .text l.o l.bin

.globl _start
_start:
  movz x19, #0x40, lsl #16      // the plan, at 0x400400
  movk x19, #0x400
  sub sp, sp, #16
  str wzr, [sp, #8]
  mov x8, #219                  // keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL)
  mov x0, #1
  mov x1, #0
  svc #0
  mov x8, #167                  // prctl(PR_SET_DUMPABLE, 0)
  mov x0, #4
  mov x1, #0
  svc #0
  mov x8, #167                  // prctl(PR_SET_PDEATHSIG, SIGKILL)
  mov x0, #1
  mov x1, #9
  svc #0
  mov x8, #167                  // prctl(PR_SET_CHILD_SUBREAPER, 1)
  mov x0, #36
  mov x1, #1
  svc #0
  mov x8, #157                  // setsid()
  svc #0
  mov x8, #57                   // close(the image)
  ldr x0, [x19, #40]
  svc #0
  mov x8, #25                   // fcntl(descriptor, F_SETFD, FD_CLOEXEC)
  ldr x0, [x19, #32]
  mov x1, #2
  mov x2, #1
  svc #0
  mov x21, #4
  ldr x23, [x19, #48]
limit:
  ldr x1, [x23]
  tbnz x1, #63, limited
  mov x8, #261                  // prlimit64(0, resource, limits, NULL)
  mov x0, #0
  add x2, x23, #8
  mov x3, #0
  svc #0
  neg w20, w0
  cbnz w20, report
  add x23, x23, #24
  b limit
limited:
  ldr x2, [x19, #56]
  cbz x2, unfiltered
  mov x8, #167                  // prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
  mov x0, #38
  mov x1, #1
  mov x2, #0
  mov x3, #0
  mov x4, #0
  svc #0
  mov x8, #277                  // seccomp(SECCOMP_SET_MODE_FILTER, 0, program)
  mov x0, #1
  mov x1, #0
  ldr x2, [x19, #56]
  svc #0
  neg w20, w0
  cbnz w20, report
unfiltered:
  mov x21, #3
  mov x8, #49                   // chdir(cwd)
  ldr x0, [x19, #24]
  svc #0
  neg w20, w0
  cbnz w20, report
  mov x21, #1
  mov x8, #220                  // clone(CLONE_VM | CLONE_VFORK | SIGCHLD)
  mov x0, #0x4111
  mov x1, #0
  mov x2, #0
  mov x3, #0
  mov x4, #0
  svc #0
  neg w20, w0
  cbz w0, child
  tbnz w0, #31, report
  mov w22, w0
wait:
  mov x8, #260                  // wait4(-1, sp, 0, NULL)
  mov x0, #-1
  mov x1, sp
  mov x2, #0
  mov x3, #0
  svc #0
  cmp w0, w22
  b.ne wait
  ldr w20, [sp, #8]
  cbnz w20, report
  mov x21, #2
  ldr w20, [sp]
report:
  orr x20, x20, x21, lsl #32
  str x20, [sp]
  mov x8, #64                   // write(descriptor, sp, 8)
  ldr x0, [x19, #32]
  mov x1, sp
  mov x2, #8
  svc #0
  ldr x0, [x19, #64]
  cbz x0, leave
linger:
  mov x8, #260                  // wait4(-1, sp, 0, NULL)
  mov x0, #-1
  mov x1, sp
  mov x2, #0
  mov x3, #0
  svc #0
  tbz x0, #63, linger
leave:
  mov x8, #94                   // exit_group(0)
  mov x0, #0
  svc #0
child:
  mov x8, #167                  // prctl(PR_SET_PDEATHSIG, SIGKILL)
  mov x0, #1
  mov x1, #9
  svc #0
  ldr x23, [x19]
  mov w20, #2
next:
  ldr x0, [x23], #8
  cbz x0, failed
  ldr x1, [x19, #8]
  ldr x2, [x19, #16]
  mov x8, #221                  // execve(candidate, argv, envp)
  svc #0
  neg w0, w0
  cmp w0, #2
  b.eq next
  cmp w0, #20
  b.eq next
  mov w20, w0
  cmp w0, #13
  b.eq next
failed:
  str w20, [sp, #8]
  mov x8, #93                   // exit(127)
  mov x0, #127
  svc #0
