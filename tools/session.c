/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands on another host, as ssh runs them on a cluster. `plait-hosts on HOST COMMAND` sends a request to the first
 * process of its own host, at an abstract socket in that host's network namespace, with its stdin, stdout and stderr
 * and a pipe for the exit status. The request goes to the supervisor and from there to HOST. Nothing has a name in the
 * file system.
 */
#include "hosts.h"

#include "message.h"
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_SESSION 255 /* exit status, as of ssh(1) */

static socklen_t address(struct sockaddr_un *out)
{
    static const char name[] = "plait-hosts"; /* after a zero byte: an abstract name */

    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    memcpy(out->sun_path + 1, name, sizeof name - 1);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof name);
}

/* ---- The command line -------------------------------------------------------------------------- */

static _Noreturn void refuse(const char *text)
{
    tell("on: %s", text);
    exit(NO_SESSION);
}

/* "host3", "3" or its address. */
static bool find_host(const char *name, uint32_t *out)
{
    char number[16], text[HOSTS_ADDRESS_SIZE];

    for (uint32_t h = 0; h < HOSTS_MAX; h++) {
        snprintf(number, sizeof number, "host%u", h);
        wires_address(h, text);
        *out = h;
        if (strcmp(name, number) == 0 || strcmp(name, number + 4) == 0 || strcmp(name, text) == 0)
            return true;
    }
    return false;
}

/*
 * Pack working directory and command, each ended by a zero. The words are joined and parsed again by the other host's
 * shell, as by ssh.
 */
static size_t pack(char *text, char *const words[])
{
    size_t n;

    if (getcwd(text, HOST_TEXT_MOST) == NULL)
        refuse(strerror(errno));
    n = strlen(text) + 1;
    for (; *words != NULL; words++) {
        const size_t length = strlen(*words);
        if (n + length + 1 > HOST_TEXT_MOST)
            refuse("the command is too long");
        memcpy(text + n, *words, length);
        n += length;
        text[n++] = words[1] != NULL ? ' ' : '\0';
    }
    return n;
}

int session_run(char *const words[])
{
    static struct host_request request;
    const int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un to;
    const socklen_t size = address(&to);
    int result[2], status;
    uint32_t h;

    if (words[0] == NULL || words[1] == NULL || !find_host(words[0], &h))
        refuse("needs a host, such as host1, and a command");
    if (s < 0 || connect(s, (struct sockaddr *)&to, size) != 0)
        refuse("not on a virtual host; use it in commands that plait-hosts runs");
    if (pipe2(result, O_CLOEXEC) != 0)
        refuse(strerror(errno));
    request.length = pack(request.text, words + 1);
    memcpy(request.fds, (int[]){ STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, result[1] }, sizeof request.fds);
    if (!host_pass(s, h, &request))
        refuse(strerror(errno));
    close(result[1]);
    if (read(result[0], &status, sizeof status) != (ssize_t)sizeof status)
        refuse("there is no such host, or it runs too many commands");
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- The host ---------------------------------------------------------------------------------- */

static struct {
    pid_t pid; /* 0: free */
    int result;
} sessions[HOSTS_MAX];

int session_listen(void)
{
    const int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un here;
    const socklen_t size = address(&here);

    if (s < 0 || bind(s, (struct sockaddr *)&here, size) != 0 || listen(s, HOSTS_MAX) != 0)
        give_up(HOSTS_FAILED, "a host's socket for commands: %s", strerror(errno));
    return s;
}

void session_forget(struct host_request *request)
{
    for (int i = 0; i < HOST_FDS; i++)
        if (request->fds[i] >= 0)
            close(request->fds[i]);
}

void session_pass(int listener, int channel)
{
    static struct host_request request;
    const int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    struct host_message m;

    if (s < 0)
        return;
    if (host_receive(s, &m, &request)) {
        if (m.kind == HOST_COMMAND)
            host_pass(channel, m.rank, &request);
        session_forget(&request);
    }
    close(s);
}

static _Noreturn void run_session(const struct host_request *request)
{
    const char *folder = request->text, *command = folder + strlen(folder) + 1;
    sigset_t none;

    setsid();
    for (int i = 0; i < 3; i++)
        dup2(request->fds[i], i);
    if (chdir(folder) != 0)
        tell("the working directory %s: %s", folder, strerror(errno));
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

void session_start(struct host_request *request)
{
    uint32_t i = 0;

    while (i < HOSTS_MAX && sessions[i].pid != 0)
        i++;
    if (i < HOSTS_MAX && request->fds[HOST_FDS - 1] >= 0) {
        const pid_t pid = fork();
        if (pid == 0)
            run_session(request);
        if (pid > 0) {
            sessions[i].pid = pid;
            sessions[i].result = request->fds[HOST_FDS - 1];
            request->fds[HOST_FDS - 1] = -1;
        }
    }
    session_forget(request);
}

void session_end(pid_t pid, int status)
{
    for (uint32_t i = 0; i < HOSTS_MAX; i++)
        if (sessions[i].pid == pid) {
            (void)!write(sessions[i].result, &status, sizeof status);
            close(sessions[i].result);
            sessions[i].pid = 0;
        }
}
