/* Preloaded into a process: makes the n-th call that touches the database's files fail with EIO, and all after it.
 *
 * storage_arm(kind, n) arms it from inside (kind: 1 sync, 2 write, 3 read; n from 1; 0 only counts); the variable
 * STORAGE_FAILS_WHEN=<file> arms it from outside: once the file is there, each sync of them fails.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SYNC = 1, WRITE = 2, READ = 3 };
static atomic_int armed, after, seen[4];

void storage_arm(int kind, int n) {
    for (int i = 0; i < 4; i++) atomic_store(&seen[i], 0);
    atomic_store(&after, n);
    atomic_store(&armed, kind);
}

int storage_seen(int kind) { return atomic_load(&seen[kind]); }

static int ours(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return strstr(path, "bitong.db") && !strstr(path, "-shm");
}

static int fails(int kind, int fd) {
    if (!ours(fd)) return 0;
    int number = atomic_fetch_add(&seen[kind], 1) + 1;
    const char *when = getenv("STORAGE_FAILS_WHEN");
    if (when) return kind == SYNC && access(when, F_OK) == 0;
    int n = atomic_load(&after);
    return kind == atomic_load(&armed) && n > 0 && number >= n;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)
#define REFUSE(kind, fd) \
    if (fails(kind, fd)) { errno = EIO; return -1; }

int fsync(int fd) { REAL(int, "fsync", int); REFUSE(SYNC, fd) return real(fd); }
int fdatasync(int fd) { REAL(int, "fdatasync", int); REFUSE(SYNC, fd) return real(fd); }
ssize_t write(int fd, const void *b, size_t n) {
    REAL(ssize_t, "write", int, const void *, size_t); REFUSE(WRITE, fd) return real(fd, b, n); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) {
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t); REFUSE(WRITE, fd) return real(fd, b, n, o); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t); REFUSE(WRITE, fd) return real(fd, b, n, o); }
ssize_t read(int fd, void *b, size_t n) {
    REAL(ssize_t, "read", int, void *, size_t); REFUSE(READ, fd) return real(fd, b, n); }
ssize_t pread(int fd, void *b, size_t n, off_t o) {
    REAL(ssize_t, "pread", int, void *, size_t, off_t); REFUSE(READ, fd) return real(fd, b, n, o); }
ssize_t pread64(int fd, void *b, size_t n, off64_t o) {
    REAL(ssize_t, "pread64", int, void *, size_t, off64_t); REFUSE(READ, fd) return real(fd, b, n, o); }
