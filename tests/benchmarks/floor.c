/* The least that an audited exec can cost: HTTP with keep-alive, one record made durable, one program spawned and read
 * to its end, one more record made durable, the answer. Built by floor.py.
 *
 *     floor FILE PROGRAM [ARGUMENT...]      prints its port on loopback, then serves until it is killed
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORD = 500, REQUEST = 64 * 1024, OUTPUT = 4096 };

static int record_fd;
static char **program;
static char *environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8", NULL};

static int append(void)
{
    char record[RECORD];
    memset(record, 'r', sizeof record);
    return write(record_fd, record, sizeof record) == (ssize_t)sizeof record && fdatasync(record_fd) == 0;
}

/* Spawn, read the pipe to its end, reap. Bytes read, or -1. */
static ssize_t run(char *output)
{
    int pipe_fd[2], status;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ssize_t total = 0, got;

    if (pipe2(pipe_fd, O_CLOEXEC))
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fd[1], 1);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    int failed = posix_spawn(&pid, program[0], &actions, &attributes, program, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(pipe_fd[1]);
    while (!failed && (got = read(pipe_fd[0], output + total, OUTPUT - total)) > 0)
        total += got;
    close(pipe_fd[0]);
    if (failed || waitpid(pid, &status, 0) != pid)
        return -1;
    return status == 0 ? total : -1;
}

static int answer(int fd)
{
    char output[OUTPUT], text[OUTPUT + 256];
    ssize_t size = append() ? run(output) : -1;
    int good = size >= 0 && append();
    int length = snprintf(text, sizeof text,
                          "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zd\r\n\r\n",
                          good ? "200 OK" : "500 Internal Server Error", good ? size : (ssize_t)0);
    if (good) {
        memcpy(text + length, output, size);
        length += size;
    }
    return write(fd, text, length) == length;
}

static void *serve(void *argument)
{
    int fd = (int)(long)argument, one = 1;
    char *buffer = malloc(REQUEST + 1);
    size_t held = 0;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (;;) {
        buffer[held] = 0;
        char *end = strstr(buffer, "\r\n\r\n");
        if (end) {
            char *length = strcasestr(buffer, "content-length:");
            size_t whole = end + 4 - buffer + (length && length < end ? strtoul(length + 15, NULL, 10) : 0);
            if (held >= whole) {
                if (!answer(fd))
                    break;
                held -= whole;
                memmove(buffer, buffer + whole, held);
                continue;
            }
        }
        ssize_t got = held < REQUEST ? read(fd, buffer + held, REQUEST - held) : 0;
        if (got <= 0)
            break;
        held += got;
    }
    free(buffer);
    close(fd);
    return NULL;
}

int main(int count, char **arguments)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (count < 3)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    program = arguments + 2;
    record_fd = open(arguments[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (record_fd < 0 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 128) ||
        getsockname(listener, (struct sockaddr *)&address, &size)) {
        perror("floor");
        return 1;
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        pthread_t thread;
        if (fd >= 0 && !pthread_create(&thread, NULL, serve, (void *)(long)fd))
            pthread_detach(thread);
    }
}
