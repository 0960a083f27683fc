/* Counts the syncs of one kind of file in a process it is loaded into (LD_PRELOAD), and the time they take.
 *
 * REGENT_SYNC_COUNT names a file of two 64-bit numbers, host order: how many, and nanoseconds in all. REGENT_SYNC_FILE_BYTES
 * is the size of the files that count: log files are told from queues and indexes by their size, which is all that msync of a
 * mapping shows. A sync counts when it has succeeded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static _Atomic unsigned long long *counts;
static unsigned long long file_bytes;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("REGENT_SYNC_COUNT"), *size = getenv("REGENT_SYNC_FILE_BYTES");
    if (!path || !size) return;
    int fd = open(path, O_RDWR);
    if (fd < 0) return;
    void *found = mmap(0, 2 * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (found == MAP_FAILED) return;
    file_bytes = strtoull(size, 0, 10);
    counts = found;
}

static unsigned long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

static void counted(int result, unsigned long long began_ns) {
    if (result) return;
    atomic_fetch_add(&counts[0], 1);
    atomic_fetch_add(&counts[1], now_ns() - began_ns);
}

static int is_log(int fd) {
    struct stat found;
    return counts && !fstat(fd, &found) && (unsigned long long)found.st_size == file_bytes;
}

#define BY_FILE(name)                                                        \
    int name(int fd) {                                                       \
        static int (*real)(int);                                             \
        if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, #name);             \
        unsigned long long began_ns = now_ns();                              \
        int result = real(fd);                                               \
        if (is_log(fd)) counted(result, began_ns);                           \
        return result;                                                       \
    }

BY_FILE(fdatasync)
BY_FILE(fsync)

int msync(void *start, size_t length, int flags) {
    static int (*real)(void *, size_t, int);
    if (!real) real = (int (*)(void *, size_t, int))dlsym(RTLD_NEXT, "msync");
    unsigned long long began_ns = now_ns();
    int result = real(start, length, flags);
    if (counts && length >= file_bytes) counted(result, began_ns);
    return result;
}
