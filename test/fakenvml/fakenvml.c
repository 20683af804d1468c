// SPDX-License-Identifier: Apache-2.0
/*
 * fakenvml - a libnvidia-ml.so.1 for tests of power daemons; no GPU, no driver.
 *
 * The machine is a folder, $FAKENVML (default /run/fakenvml), one sub-folder a
 * GPU, named 0, 1, ...; each value is a small text file, so a test changes it
 * with a plain write and state outlives the processes that use the library:
 *   power_mw util_pct mem_pct pstate    what the GPU would do uncapped
 *   instant_mw                          field 186; left out: not supported
 *   samples                             lines "TIMESTAMP_US MW", the driver's own power samples; left out: not supported
 *   arch pci_id                         NVML's number of the architecture; hex, device id and vendor id
 *   module_mw c2c_links                 of a board on a module with a CPU: the
 *                                       module's power, chip-to-chip links
 *   limit_mw                            the cap (written by the library too)
 *   enforced_mw                         the cap in force; left out: limit_mw
 *   min_mw max_mw default_mw            its range
 *   energy                              "uJ ns": integrated, min(power, limit)
 *   no_counter                          there: the energy counter is not supported
 *   name uuid vbios pci pids            pci: "0:1:0", hex; pids: "pid pid ..."
 *   mig persistence                     0 or 1
 *   reasons reasons_supported           why clocks are low, why they may be: NVML's bits
 *   sw_therm_ns hw_therm_ns brake_ns    fields 269, 270, 271: time slowed down
 *   thermal_ns                          time of thermal violations
 *   fail                                lines "FUNCTION ERRNO", "*" for all
 *   noperm                              there: setting the cap is not permitted
 *   delay_us                            every call on this GPU costs this long
 *   hang                                calls do not return while it is there
 * $FAKENVML/fail likewise covers nvmlInit_v2 and the like. No folder: init
 * answers 9, driver not loaded.
 *
 * -DOLD leaves out what a driver of 2016 did not have: the energy counter,
 * field values, the enforced limit, the architecture and the newer name of the
 * reasons why clocks are low.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct dev { int id; } *dev_t_;
enum { OK, UNINIT, INVALID, NOT_SUPPORTED, NO_PERM, NOT_FOUND = 6, TOO_SMALL = 7, NO_DRIVER = 9 };
#define API __attribute__((visibility("default")))
#define MAXGPU 16

static struct dev devs[MAXGPU];
static int users;	/* of nvmlInit */

static const char *root(void)
{
	const char *r = getenv("FAKENVML");
	return r ? r : "/run/fakenvml";
}

/* reads $FAKENVML[/ID]/NAME; the length, or -1 */
static int get(int id, const char *name, char *buf, size_t n)
{
	char path[512];
	ssize_t got;
	int fd;

	if (id < 0)
		snprintf(path, sizeof(path), "%s/%s", root(), name);
	else
		snprintf(path, sizeof(path), "%s/%d/%s", root(), id, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	got = read(fd, buf, n - 1);
	close(fd);
	if (got < 0)
		return -1;
	while (got > 0 && buf[got - 1] == '\n')
		got--;
	buf[got] = 0;
	return got;
}

static int num(int id, const char *name, u64 *v)
{
	char b[64], *end;

	if (get(id, name, b, sizeof(b)) < 1)
		return NOT_SUPPORTED;	/* a file left out: a GPU without the feature */
	*v = strtoull(b, &end, 10);
	return end == b ? NOT_SUPPORTED : OK;
}

static int put(int id, const char *name, const char *fmt, ...)
{
	char path[512], tmp[520];
	va_list ap;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%d/%s", root(), id, name);
	snprintf(tmp, sizeof(tmp), "%s.new", path);
	f = fopen(tmp, "we");
	if (!f)
		return NO_PERM;
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	return fclose(f) || rename(tmp, path) ? NO_PERM : OK;
}

static int there(int id, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%d/%s", root(), id, name);
	return !access(path, F_OK);
}

static int injected(int id, const char *fn)
{
	char b[4096], *line, *save, name[128];
	int err;

	if (get(id, "fail", b, sizeof(b)) > 0)
		for (line = strtok_r(b, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
			if (sscanf(line, "%127s %d", name, &err) == 2 &&
			    (!strcmp(name, fn) || !strcmp(name, "*")))
				return err;
	return OK;
}

static int enter(dev_t_ d, const char *fn)
{
	u64 us;

	if (!users)
		return UNINIT;
	if (!d || d < devs || d >= devs + MAXGPU)
		return INVALID;
	if (num(d->id, "delay_us", &us) == OK)
		usleep(us);
	while (there(d->id, "hang"))
		usleep(2000);
	return injected(d->id, fn);
}
#define ENTER(d) do { int e_ = enter(d, __func__); if (e_) return e_; } while (0)
#define NEED(p) do { if (!(p)) return INVALID; } while (0)

/* the power now, and the energy up to now; serialised between processes */
static int settle(int id, u64 *mw, u64 *mj)
{
	u64 limit = ~0ULL, uj = 0, last = 0, now;
	struct timespec ts;
	char path[512], b[64];
	int err, fd;

	snprintf(path, sizeof(path), "%s/%d", root(), id);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 15;	/* GPU is lost */
	flock(fd, LOCK_EX);
	err = num(id, "power_mw", mw);
	if (!err) {
		num(id, "limit_mw", &limit);
		if (*mw > limit)
			*mw = limit;
		clock_gettime(CLOCK_BOOTTIME, &ts);
		now = ts.tv_sec * 1000000000ULL + ts.tv_nsec;
		if (get(id, "energy", b, sizeof(b)) > 0)
			sscanf(b, "%llu %llu", &uj, &last);
		if (last && now > last)
			uj += (u64)((double)*mw * (now - last) / 1e9 * 1000);
		*mj = uj / 1000;
		put(id, "energy", "%llu %llu\n", uj, now);
	}
	close(fd);
	return err;
}

API int nvmlInitWithFlags(u32 flags)
{
	struct stat st;
	int e = injected(-1, "nvmlInit_v2");

	(void)flags;
	if (e)
		return e;
	if (stat(root(), &st))
		return NO_DRIVER;
	for (int i = 0; i < MAXGPU; i++)
		devs[i].id = i;
	users++;
	return OK;
}
API int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API int nvmlInit(void) { return nvmlInitWithFlags(0); }
API int nvmlShutdown(void) { return users ? (users--, OK) : UNINIT; }

API const char *nvmlErrorString(int e)
{
	static const char *const s[] = { "Success", "Uninitialized", "Invalid Argument",
		"Not Supported", "Insufficient Permissions", "Already Initialized", "Not Found",
		"Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout",
		"Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found",
		"Corrupted infoROM", "GPU is lost", "GPU requires restart" };
	return e >= 0 && e < (int)(sizeof(s) / sizeof(*s)) ? s[e] : "Unknown Error";
}

static int text(int id, const char *file, const char *def, char *out, u32 n)
{
	char b[128];

	NEED(out);
	if (get(id, file, b, sizeof(b)) < 1)
		snprintf(b, sizeof(b), "%s", def);
	if (strlen(b) >= n)
		return TOO_SMALL;
	strcpy(out, b);
	return OK;
}

API int nvmlSystemGetDriverVersion(char *v, u32 n)
{
	return users ? text(-1, "driver", "550.0", v, n) : UNINIT;
}

API int nvmlSystemGetNVMLVersion(char *v, u32 n)
{
	return users ? text(-1, "nvml", "12.550.0", v, n) : UNINIT;
}

API int nvmlDeviceGetCount_v2(u32 *n)
{
	struct stat st;
	char path[512];
	int e = injected(-1, __func__);

	NEED(n);
	if (!users || e)
		return users ? e : UNINIT;
	for (*n = 0; *n < MAXGPU; (*n)++) {
		snprintf(path, sizeof(path), "%s/%u", root(), *n);
		if (stat(path, &st))
			break;
	}
	return OK;
}
API int nvmlDeviceGetCount(u32 *n) { return nvmlDeviceGetCount_v2(n); }

API int nvmlDeviceGetHandleByIndex_v2(u32 i, dev_t_ *d)
{
	u32 n;
	int e = nvmlDeviceGetCount_v2(&n);

	NEED(d);
	if (e || i >= n)
		return e ? e : INVALID;
	e = injected(i, __func__);
	*d = e ? NULL : &devs[i];
	return e;
}
API int nvmlDeviceGetHandleByIndex(u32 i, dev_t_ *d) { return nvmlDeviceGetHandleByIndex_v2(i, d); }

API int nvmlDeviceGetIndex(dev_t_ d, u32 *i) { ENTER(d); NEED(i); *i = d->id; return OK; }
API int nvmlDeviceGetMinorNumber(dev_t_ d, u32 *i) { ENTER(d); NEED(i); *i = d->id; return OK; }
API int nvmlDeviceGetName(dev_t_ d, char *s, u32 n) { ENTER(d); return text(d->id, "name", "Fake GPU", s, n); }

API int nvmlDeviceGetUUID(dev_t_ d, char *s, u32 n)
{
	char def[64];

	ENTER(d);
	snprintf(def, sizeof(def), "GPU-00000000-0000-0000-0000-%012d", d->id);
	return text(d->id, "uuid", def, s, n);
}

API int nvmlDeviceGetVbiosVersion(dev_t_ d, char *s, u32 n)
{
	char b[8];

	ENTER(d);
	return get(d->id, "vbios", b, sizeof(b)) < 1 ? NOT_SUPPORTED : text(d->id, "vbios", "", s, n);
}

struct pci { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; };
API int nvmlDeviceGetPciInfo_v3(dev_t_ d, struct pci *p)
{
	char b[64], id[16];

	ENTER(d);
	NEED(p);
	if (get(d->id, "pci", b, sizeof(b)) < 1)
		return NOT_SUPPORTED;
	memset(p, 0, sizeof(*p));
	if (get(d->id, "pci_id", id, sizeof(id)) > 0)
		p->id = strtoul(id, NULL, 16);
	if (sscanf(b, "%x:%x:%x", &p->domain, &p->bus, &p->device) != 3)
		return NOT_SUPPORTED;
	snprintf(p->bus_id, sizeof(p->bus_id), "%08X:%02X:%02X.0", p->domain, p->bus, p->device);
	snprintf(p->legacy, sizeof(p->legacy), "%04X:%02X:%02X.0", p->domain & 0xffff, p->bus & 0xff, p->device & 0xff);
	return OK;
}

API int nvmlDeviceGetPowerUsage(dev_t_ d, u32 *v)
{
	u64 mw, mj;
	int e;

	ENTER(d);
	NEED(v);
	e = settle(d->id, &mw, &mj);
	if (!e)
		*v = mw;
	return e;
}

#ifndef OLD
API int nvmlDeviceGetTotalEnergyConsumption(dev_t_ d, u64 *v)
{
	u64 mw;

	ENTER(d);
	NEED(v);
	return there(d->id, "no_counter") ? NOT_SUPPORTED : settle(d->id, &mw, v);
}
#endif

/* as the driver's buffer: the count without room for them, else as many as fit */
struct sample { u64 at; union { u32 ui; u64 ull; } v; };
API int nvmlDeviceGetSamples(dev_t_ d, int type, u64 seen, int *kind, u32 *n, struct sample *out)
{
	char b[4096], *line, *save;
	u32 room, k = 0;
	u64 at, mw;

	ENTER(d);
	NEED(kind);
	NEED(n);
	if (type != 0 || get(d->id, "samples", b, sizeof(b)) < 0)
		return NOT_SUPPORTED;	/* 0: total power */
	room = out ? *n : ~0u;
	NEED(room);
	for (line = strtok_r(b, "\n", &save); line && k < room; line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "%llu %llu", &at, &mw) != 2 || at <= seen)
			continue;
		if (out)
			out[k] = (struct sample){ .at = at, .v.ui = mw };
		k++;
	}
	*kind = 1;	/* unsigned int */
	*n = k;
	return k ? OK : NOT_FOUND;
}

static int num32(dev_t_ d, const char *file, u32 *v)
{
	u64 x = 0;
	int e;

	NEED(v);
	e = num(d->id, file, &x);
	if (!e)
		*v = x;
	return e;
}
API int nvmlDeviceGetPowerManagementLimit(dev_t_ d, u32 *v) { ENTER(d); return num32(d, "limit_mw", v); }
API int nvmlDeviceGetPowerManagementDefaultLimit(dev_t_ d, u32 *v) { ENTER(d); return num32(d, "default_mw", v); }
API int nvmlDeviceGetPerformanceState(dev_t_ d, u32 *v) { ENTER(d); return num32(d, "pstate", v); }

#ifndef OLD
API int nvmlDeviceGetArchitecture(dev_t_ d, u32 *v) { ENTER(d); return num32(d, "arch", v); }

API int nvmlDeviceGetEnforcedPowerLimit(dev_t_ d, u32 *v)
{
	ENTER(d);
	return num32(d, there(d->id, "enforced_mw") ? "enforced_mw" : "limit_mw", v);
}

struct field { u32 id, scope; long long at, latency; u32 type, err; union { u32 ui; u64 ull; } v; };
API int nvmlDeviceGetFieldValues(dev_t_ d, int n, struct field *f)
{
	ENTER(d);
	NEED(f);
	for (int i = 0; i < n; i++) {
		f[i].type = 1;	/* unsigned int */
		if (f[i].id >= 269 && f[i].id <= 271) {
			static const char *const spent[] = { "sw_therm_ns", "hw_therm_ns", "brake_ns" };

			f[i].type = 3;	/* unsigned long long */
			f[i].err = num(d->id, spent[f[i].id - 269], &f[i].v.ull);
			continue;
		}
		if (f[i].id == 170)
			f[i].err = num32(d, "c2c_links", &f[i].v.ui);
		else if (f[i].id == 186 && f[i].scope <= 1)
			f[i].err = num32(d, f[i].scope ? "module_mw" : "instant_mw", &f[i].v.ui);
		else
			f[i].err = NOT_SUPPORTED;
	}
	return OK;
}
#endif

static int num64(dev_t_ d, const char *file, u64 *v)
{
	NEED(v);
	return num(d->id, file, v);
}
API int nvmlDeviceGetCurrentClocksThrottleReasons(dev_t_ d, u64 *v) { ENTER(d); return num64(d, "reasons", v); }
API int nvmlDeviceGetSupportedClocksThrottleReasons(dev_t_ d, u64 *v) { ENTER(d); return num64(d, "reasons_supported", v); }
#ifndef OLD
API int nvmlDeviceGetCurrentClocksEventReasons(dev_t_ d, u64 *v) { ENTER(d); return num64(d, "reasons", v); }
API int nvmlDeviceGetSupportedClocksEventReasons(dev_t_ d, u64 *v) { ENTER(d); return num64(d, "reasons_supported", v); }
#endif

struct violation { u64 at_us, ns; };
API int nvmlDeviceGetViolationStatus(dev_t_ d, int policy, struct violation *v)
{
	ENTER(d);
	NEED(v);
	v->at_us = 0;
	return policy == 1 ? num(d->id, "thermal_ns", &v->ns) : NOT_SUPPORTED;	/* 1: thermal */
}

API int nvmlDeviceGetPersistenceMode(dev_t_ d, u32 *v) { ENTER(d); return num32(d, "persistence", v); }

API int nvmlDeviceGetMigMode(dev_t_ d, u32 *now, u32 *pending)
{
	int e;

	ENTER(d);
	e = num32(d, "mig", now);
	return e ? e : num32(d, "mig", pending);
}

API int nvmlDeviceGetPowerManagementLimitConstraints(dev_t_ d, u32 *lo, u32 *hi)
{
	int e;

	ENTER(d);
	e = num32(d, "min_mw", lo);
	return e ? e : num32(d, "max_mw", hi);
}

API int nvmlDeviceSetPowerManagementLimit(dev_t_ d, u32 v)
{
	u64 lo, hi, mw, mj;
	int e;

	ENTER(d);
	if (there(d->id, "noperm"))
		return NO_PERM;
	e = num(d->id, "min_mw", &lo);
	if (!e)
		e = num(d->id, "max_mw", &hi);
	if (e || v < lo || v > hi)
		return e ? e : INVALID;
	settle(d->id, &mw, &mj);	/* the past is under the old limit */
	return put(d->id, "limit_mw", "%u\n", v);
}

struct util { u32 gpu, mem; };
API int nvmlDeviceGetUtilizationRates(dev_t_ d, struct util *u)
{
	int e;

	ENTER(d);
	NEED(u);
	u->mem = 0;
	e = num32(d, "util_pct", &u->gpu);
	num32(d, "mem_pct", &u->mem);
	return e;
}

struct proc { u32 pid; u64 mem; u32 gi, ci; };
API int nvmlDeviceGetComputeRunningProcesses_v3(dev_t_ d, u32 *n, struct proc *p)
{
	char b[512], *t, *save;
	u32 room, k = 0;

	ENTER(d);
	NEED(n);
	room = *n;
	if (get(d->id, "pids", b, sizeof(b)) > 0)
		for (t = strtok_r(b, " \n", &save); t; t = strtok_r(NULL, " \n", &save), k++)
			if (k < room && p)
				p[k] = (struct proc){ .pid = atoi(t), .gi = ~0u, .ci = ~0u };
	*n = k;
	return k > room ? TOO_SMALL : OK;
}
