/* Holds back what a process it is loaded into (LD_PRELOAD) asks of its disk, for files below one folder.
 *
 * REGENT_HELD_BELOW is that folder, an absolute path. REGENT_HOLD is the beginning of two paths: while REGENT_HOLD.flush is
 * there, fsync and fdatasync do not return; while REGENT_HOLD.all is there, nothing that changes a file, its size or its name
 * returns, as on a frozen file system. Reading goes on. Whoever waits can be killed, unlike one that waits for a real disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define LOOK_US 10000

static char below[PATH_MAX], hold_flush[PATH_MAX], hold_all[PATH_MAX];

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("REGENT_HELD_BELOW"), *hold = getenv("REGENT_HOLD");
    if (!folder || !hold || strlen(folder) + 2 > PATH_MAX || strlen(hold) + 8 > PATH_MAX) return;
    snprintf(hold_flush, sizeof hold_flush, "%s.flush", hold);
    snprintf(hold_all, sizeof hold_all, "%s.all", hold);
    snprintf(below, sizeof below, "%s", folder);
}

static int is_below(const char *path) {
    size_t length = strlen(below);
    return length && !strncmp(path, below, length) && (path[length] == '/' || !path[length]);
}

static int is_held(int flush) {
    return below[0] && (!access(hold_all, F_OK) || (flush && !access(hold_flush, F_OK)));
}

static void wait_for(int flush) {
    while (is_held(flush)) usleep(LOOK_US);
}

/* The name of a file that is open; a socket's does not begin with a slash. */
static void wait_fd(int fd, int flush) {
    char link[64], path[PATH_MAX];
    if (!is_held(flush)) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    if (is_below(path)) wait_for(flush);
}

static void wait_path(const char *path) {
    if (is_held(0) && is_below(path)) wait_for(0);
}

#define REAL(name)                                                           \
    static __typeof__(&name) real;                                           \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define OF_FD(type, name, flush, given, passed)                              \
    type name given {                                                        \
        REAL(name);                                                          \
        wait_fd(fd, flush);                                                  \
        return real passed;                                                  \
    }

OF_FD(int, fsync, 1, (int fd), (fd))
OF_FD(int, fdatasync, 1, (int fd), (fd))
OF_FD(ssize_t, write, 0, (int fd, const void *data, size_t count), (fd, data, count))
OF_FD(ssize_t, writev, 0, (int fd, const struct iovec *data, int count), (fd, data, count))
OF_FD(ssize_t, pwrite, 0, (int fd, const void *data, size_t count, off_t at), (fd, data, count, at))
OF_FD(ssize_t, pwrite64, 0, (int fd, const void *data, size_t count, off64_t at), (fd, data, count, at))
OF_FD(ssize_t, pwritev, 0, (int fd, const struct iovec *data, int count, off_t at), (fd, data, count, at))
OF_FD(ssize_t, pwritev64, 0, (int fd, const struct iovec *data, int count, off64_t at), (fd, data, count, at))
OF_FD(int, ftruncate, 0, (int fd, off_t size), (fd, size))
OF_FD(int, ftruncate64, 0, (int fd, off64_t size), (fd, size))
OF_FD(int, posix_fallocate, 0, (int fd, off_t at, off_t size), (fd, at, size))
OF_FD(int, posix_fallocate64, 0, (int fd, off64_t at, off64_t size), (fd, at, size))

/* Names are absolute where the product uses them: of others nothing is known here. */
#define OF_PATH(type, name, given, passed)                                   \
    type name given {                                                        \
        REAL(name);                                                          \
        wait_path(path);                                                     \
        return real passed;                                                  \
    }

OF_PATH(int, unlink, (const char *path), (path))
OF_PATH(int, rename, (const char *path, const char *to), (path, to))
OF_PATH(int, mkdir, (const char *path, mode_t mode), (path, mode))

#define OPENS(name)                                                          \
    int name(const char *path, int flags, ...) {                             \
        REAL(name);                                                          \
        va_list more;                                                        \
        va_start(more, flags);                                               \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                        \
        if (flags & (O_CREAT | O_TRUNC)) wait_path(path);                    \
        return real(path, flags, mode);                                      \
    }

OPENS(open)
OPENS(open64)
