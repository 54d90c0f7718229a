// The start-up self-test's program on AArch64: probe_x86_64.s says the same with more comments.

.globl _start
_start:
  movz x19, #0x40, lsl #16      // the table, at 0x400400
  movk x19, #0x400
  sub sp, sp, #4096
  mov x20, sp
call:
  ldr x8, [x19]
  tbnz x8, #63, done
  ldp x0, x1, [x19, #8]
  ldp x2, x3, [x19, #24]
  ldp x4, x5, [x19, #40]
  svc #0
  str x0, [x20], #8
  ldr x21, [x19, #56]
  add x19, x19, #64
  cbnz x0, call
  cbz x21, call
  mov x19, x21
  b call
done:
  mov x8, #64                   // write(1, sp, as many as there are)
  mov x0, #1
  mov x1, sp
  sub x2, x20, x1
  svc #0
  mov x8, #94                   // exit_group(0)
  mov x0, #0
  svc #0
