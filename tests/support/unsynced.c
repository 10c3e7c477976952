/* Loaded before a process's libraries: keeps what has reached the disk, and dies at a sync.

   After each sync of a file in the folder $SYNCED_FROM, a copy of the whole file lies in $SYNCED_TO,
   and the file syncs there is a byte longer.
   The process kills itself before its sync number $DIES_AT, so what it has written since is lost. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number = 0;

static int synced(int descriptor, const char *name) {
    int (*real)(int) = dlsym(RTLD_NEXT, name);
    const char *from = getenv("SYNCED_FROM"), *to = getenv("SYNCED_TO"), *at = getenv("DIES_AT");
    char link[64], path[4096], copy[4200], part[65536];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0 || !from || !to) return real(descriptor);
    path[length] = 0;
    if (strncmp(path, from, strlen(from))) return real(descriptor);
    if (at && ++number == atoi(at)) kill(getpid(), SIGKILL);
    int done = real(descriptor);
    snprintf(copy, sizeof copy, "%s/%s", to, strrchr(path, '/') + 1);
    char count[4200];
    snprintf(count, sizeof count, "%s/syncs", to);
    int counted = open(count, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(counted, ".", 1) != 1) abort();
    close(counted);
    int source = open(path, O_RDONLY), target = open(copy, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (ssize_t got; (got = read(source, part, sizeof part)) > 0;)
        if (write(target, part, got) != got) abort();
    close(source);
    close(target);
    return done;
}

int fsync(int descriptor) { return synced(descriptor, "fsync"); }

int fdatasync(int descriptor) { return synced(descriptor, "fdatasync"); }
