// SPDX-License-Identifier: Apache-2.0
/*
 * probe - tries, one after the other, what a service's sandbox has to refuse and
 * what it has to leave, and prints for each, with tabs between: refused or left,
 * the action, the answer expected inside (alternatives by comma), the answer got.
 * Nothing it does outside a sandbox changes more than files of its own: dangerous
 * calls have arguments that the kernel refuses after the permission check.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* the answer of a call: "done", or the errno's name */
static void said(const char *kind, const char *action, const char *want, long r)
{
	printf("%s\t%s\t%s\t%s\n", kind, action, want, r < 0 ? strerrorname_np(errno) : "done");
	fflush(stdout);
}

static void refused(const char *action, const char *want, long r) { said("refused", action, want, r); }
static void left(const char *action, const char *want, long r) { said("left", action, want, r); }

static long writes(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return -1;
	close(fd);
	return unlink(path);
}

static long opens(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	return fd < 0 ? -1 : close(fd);
}

/* writes back what a file holds */
static long rewrites(const char *path)
{
	char b[256];
	ssize_t n;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -1;
	n = read(fd, b, sizeof(b));
	if (n >= 0)
		n = pwrite(fd, b, n, 0);
	close(fd);
	return n;
}

static long sockets(int family, int type)
{
	int fd = socket(family, type | SOCK_CLOEXEC, 0);

	return fd < 0 ? -1 : close(fd);
}

/* runs a call in a child, so that what it changes ends with it; the errno is handed over */
static long apart(long (*call)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(call() < 0 ? errno : 0);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
	return errno ? -1 : 0;
}

static long new_user_ns(void) { return unshare(CLONE_NEWUSER); }
static long new_mount_ns(void) { return unshare(CLONE_NEWNS); }
static long become(void) { return syscall(SYS_setuid, 1000); }
static long traced(void) { return ptrace(PTRACE_TRACEME, 0, 0, 0); }
static long no_random(void) { return personality(ADDR_NO_RANDOMIZE); }

static long realtime(void)
{
	struct sched_param p = { .sched_priority = 1 };

	return sched_setscheduler(0, SCHED_FIFO, &p);
}

static long write_and_run(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}

static long run_what_was_written(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? -1 : mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

/* a program cannot gain what its file would give */
static long gains(void)
{
	int no = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);

	errno = EPERM;
	return no == 1 ? -1 : 0;
}

static long suid(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), e;
	long r;

	if (fd < 0)
		return -1;
	r = fchmod(fd, 04755);
	e = errno;
	unlink(path);
	close(fd);
	errno = e;
	return r;
}

static long given_away(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), e;
	long r;

	if (fd < 0)
		return -1;
	r = fchown(fd, 1000, 1000);
	e = errno;
	unlink(path);
	close(fd);
	errno = e;
	return r;
}

static long node(const char *path)
{
	long r = mknod(path, S_IFCHR | 0600, makedev(1, 11));

	if (r == 0)
		unlink(path);
	return r;
}

static long asks_systemd(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "/run/systemd/private" };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	long r = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&a, sizeof(a));

	if (fd >= 0)
		close(fd);
	return r;
}

static void files(void)
{
	refused("write to /etc", "EROFS", writes("/etc/probe"));
	refused("write to /usr", "EROFS", writes("/usr/probe"));
	refused("write to /opt", "EROFS", writes("/opt/probe"));
	refused("write to /var/lib", "EROFS", writes("/var/lib/probe"));
	refused("write to /run", "EROFS", writes("/run/probe"));
	refused("write to its configuration", "EROFS", writes("/etc/quner/probe"));
	refused("look into a home", "EACCES,ENOENT", opens("/home/ada/.profile", O_RDONLY));
	refused("look into root's home", "EACCES,ENOENT", opens("/root/.profile", O_RDONLY));
	refused("write to a control group", "EROFS", rewrites("/sys/fs/cgroup/cgroup.subtree_control"));
	refused("mount", "EPERM", mount("none", "/mnt", "tmpfs", 0, NULL));
}

static void network(void)
{
	refused("internet socket", "EAFNOSUPPORT", sockets(AF_INET, SOCK_STREAM));
	refused("internet socket, version 6", "EAFNOSUPPORT", sockets(AF_INET6, SOCK_DGRAM));
	refused("netlink socket", "EAFNOSUPPORT", sockets(AF_NETLINK, SOCK_RAW));
	refused("packet socket", "EAFNOSUPPORT", sockets(AF_PACKET, SOCK_RAW));
}

static void privileges(void)
{
	union bpf_attr none;
	struct timespec when = { .tv_nsec = -1 };

	memset(&none, 0, sizeof(none));
	refused("gain what a set-uid program gives", "EPERM", gains());
	refused("make a set-uid file", "EPERM", suid("/var/lib/quner/probe"));
	refused("give a file away", "EPERM", given_away("/var/lib/quner/probe"));
	refused("become another user", "EPERM", apart(become));
	refused("new user namespace", "EPERM", apart(new_user_ns));
	refused("new mount namespace", "EPERM", apart(new_mount_ns));
	refused("memory to write and to run", "EPERM", apart(write_and_run));
	refused("run memory that was written", "EPERM", apart(run_what_was_written));
	refused("real-time scheduling", "EPERM", apart(realtime));
	refused("turn off address randomisation", "EPERM", apart(no_random));
	refused("be traced", "EPERM", apart(traced));
	refused("load a program into the kernel", "EPERM", syscall(SYS_bpf, BPF_MAP_CREATE, &none, sizeof(none)));
	refused("load a kernel module", "EPERM", syscall(SYS_init_module, NULL, 0, ""));
	refused("replace the kernel", "EPERM", syscall(SYS_kexec_load, 0, 0, NULL, ~0UL));
	refused("reboot", "EPERM", syscall(SYS_reboot, 0, 0, 0, NULL));
	refused("set the clock", "EPERM", syscall(SYS_clock_settime, CLOCK_REALTIME, &when));
	refused("set the host's name", "EPERM", syscall(SYS_sethostname, "quner-test", 10));
	refused("read the kernel's log", "EPERM", klogctl(10, NULL, 0));
}

static void devices(void)
{
	refused("make a device node", "EPERM", node("/dev/probe"));
	refused("open another device (/dev/net/tun)", "EPERM", opens("/dev/net/tun", O_RDWR));
	/* let through to the kernel, which has no such driver */
	left("open NVIDIA's board", "ENXIO", opens("/dev/nvidia0", O_RDWR));
	left("open NVIDIA's control node", "ENXIO", opens("/dev/nvidiactl", O_RDWR));
	left("open NVIDIA's memory node", "ENXIO", opens("/dev/nvidia-uvm", O_RDWR));
}

static void needed(void)
{
	left("write its state", "done", writes("/var/lib/quner/probe"));
	left("write its runtime directory", "done", writes("/run/quner/probe"));
	left("write the admin directory", "done", writes("/run/quner-admin/probe"));
	left("write a CPU governor", "done", rewrites("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor"));
	left("write a package's power limit", "done",
	     rewrites("/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw"));
	left("read a package's energy", "done", opens("/sys/class/powercap/intel-rapl:0/energy_uj", O_RDONLY));
	left("see other processes", "done", opens("/proc/1/comm", O_RDONLY));
	left("unix socket", "done", sockets(AF_UNIX, SOCK_STREAM));
	left("ask systemd whether the machine goes down", "done", asks_systemd());
	/* allowed by the filter; there is no such file descriptor */
	left("give back a process's memory", "EBADF", syscall(SYS_process_mrelease, -1, 0));
}

int main(void)
{
	files();
	network();
	privileges();
	devices();
	needed();
	return 0;
}
