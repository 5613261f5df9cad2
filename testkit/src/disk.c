// A disk that is full or slow, for a process that believes it is the machine's. The file DLOCK_DISK has two numbers of four bytes:
// files grow no more while the first one is not zero, and each fsync takes longer by the second one, in milliseconds.
//
// Loaded before the C library's own functions. What lies within a file can still be written, as on a full disk.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct state {
    uint32_t is_full;
    uint32_t delay;
};

static volatile const struct state *disk;

__attribute__((constructor)) static void find(void) {
    const char *path = getenv("DLOCK_DISK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(0, sizeof(struct state), PROT_READ, MAP_SHARED, file, 0);
    // A process that asks for another disk must not get the machine's unnoticed.
    if (page == MAP_FAILED) abort();
    close(file);
    disk = page;
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t at) {
    struct stat now;
    if (disk && disk->is_full && !fstat(file, &now) && S_ISREG(now.st_mode) && at + (off_t)length > now.st_size) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, file, bytes, length, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off_t at) {
    return pwrite(file, bytes, length, at);
}

// The whole delay also passes if signals arrive meanwhile.
static void be_slow(void) {
    uint32_t delay = disk ? disk->delay : 0;
    struct timespec rest = {delay / 1000, (long)(delay % 1000) * 1000000};
    int before = errno;
    while (delay && nanosleep(&rest, &rest) && errno == EINTR) {
    }
    errno = before;
}

int fsync(int file) {
    be_slow();
    return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file) {
    be_slow();
    return (int)syscall(SYS_fdatasync, file);
}
