# The first process of a sandbox on x86-64. launcher.py says what it does, and holds these instructions as hexadecimal digits;
# a test assembles this file and compares.  as launcher_x86_64.s -o l.o && objcopy -O binary -j .text l.o l.bin

.intel_syntax noprefix
.globl _start
_start:
  mov ebp, 0x400400             # the plan, as launcher.py writes it
  sub rsp, 16                   # [rsp] the wait status; [rsp+8] why the program did not start
  mov dword ptr [rsp+8], 0
  mov eax, 250                  # keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL)
  mov edi, 1
  xor esi, esi
  syscall
  mov eax, 157                  # prctl(PR_SET_DUMPABLE, 0)
  mov edi, 4
  xor esi, esi
  syscall
  mov eax, 157                  # prctl(PR_SET_PDEATHSIG, SIGKILL)
  mov edi, 1
  mov esi, 9
  syscall
  mov eax, 157                  # prctl(PR_SET_CHILD_SUBREAPER, 1)
  mov edi, 36
  mov esi, 1
  syscall
  mov eax, 112                  # setsid(): refused where bubblewrap has done it
  syscall
  mov eax, 3                    # close(the image): refused where there is none
  mov rdi, [rbp+40]
  syscall
  mov eax, 72                   # fcntl(descriptor, F_SETFD, FD_CLOEXEC)
  mov rdi, [rbp+32]
  mov esi, 2
  mov edx, 1
  syscall
  mov r13d, 4                   # a failure from here on is one of shutting in
  mov rbx, [rbp+48]
limit:                          # resource, soft, hard; the last resource is -1
  mov rsi, [rbx]
  test rsi, rsi
  js limited
  mov eax, 302                  # prlimit64(0, resource, limits, NULL)
  xor edi, edi
  lea rdx, [rbx+8]
  xor r10d, r10d
  syscall
  mov r12d, eax
  neg r12d
  jnz report
  add rbx, 24
  jmp limit
limited:
  cmp qword ptr [rbp+56], 0
  je unfiltered
  mov eax, 157                  # prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
  mov edi, 38
  mov esi, 1
  xor edx, edx
  xor r10d, r10d
  xor r8d, r8d
  syscall
  mov eax, 317                  # seccomp(SECCOMP_SET_MODE_FILTER, 0, program)
  mov edi, 1
  xor esi, esi
  mov rdx, [rbp+56]
  syscall
  mov r12d, eax
  neg r12d
  jnz report
unfiltered:
  mov r13d, 3                   # and from here on one of chdir
  mov eax, 80                   # chdir(cwd)
  mov rdi, [rbp+24]
  syscall
  mov r12d, eax
  neg r12d
  jnz report
  mov r13d, 1                   # and from here on one of starting
  mov eax, 58                   # vfork(): shares memory, returns once the child has started or left
  syscall
  mov r12d, eax
  neg r12d
  test eax, eax
  js report
  jz child
  mov r14d, eax
wait:                           # as process 1 it also reaps whatever became an orphan
  or rdi, -1
  mov rsi, rsp
  xor edx, edx
  xor r10d, r10d
  mov eax, 61                   # wait4(-1, rsp, 0, NULL)
  syscall
  cmp eax, r14d
  jne wait
  mov r12d, [rsp+8]
  test r12d, r12d
  jnz report
  mov r13d, 2                   # it ran: the status as the kernel gave it
  mov r12d, [rsp]
report:                         # kind << 32 | value
  shl r13, 32
  or r13, r12
  mov [rsp], r13
  mov eax, 1                    # write(descriptor, rsp, 8)
  mov rdi, [rbp+32]
  mov rsi, rsp
  mov edx, 8
  syscall
  cmp dword ptr [rbp+64], 0
  je leave
linger:                         # without a namespace: until what is left behind has been ended from outside
  or rdi, -1
  mov rsi, rsp
  xor edx, edx
  xor r10d, r10d
  mov eax, 61                   # wait4(-1, rsp, 0, NULL)
  syscall
  test eax, eax
  jns linger
leave:
  xor edi, edi
  mov eax, 231                  # exit_group(0): the kernel kills all that is left in the namespace
  syscall
child:
  mov eax, 157                  # prctl(PR_SET_PDEATHSIG, SIGKILL)
  mov edi, 1
  mov esi, 9
  syscall
  mov rbx, [rbp]
  mov r12d, 2                   # ENOENT, if no candidate says more
next:
  mov rdi, [rbx]
  test rdi, rdi
  jz failed
  mov rsi, [rbp+8]
  mov rdx, [rbp+16]
  mov eax, 59                   # execve(candidate, argv, envp)
  syscall
  neg eax
  add rbx, 8
  cmp eax, 2                    # ENOENT, ENOTDIR: look further
  je next
  cmp eax, 20
  je next
  mov r12d, eax
  cmp eax, 13                   # EACCES: look further, but remember
  je next
failed:
  mov [rsp+8], r12d
  mov edi, 127
  mov eax, 60                   # exit(127)
  syscall
