// Test double of libnvidia-ml.so.1: cumulative counters on a virtual clock. No NVIDIA code; layouts are declared by hand,
// and a test compares their sizes with those of the binding.
//
// Builds: plain; -DOLD_DRIVER (no GPM, memory v2, event reasons and process symbols, as before Hopper); -DSTALE (a library
// whose driver has been upgraded underneath: initialisation says 18).
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#define X __attribute__((visibility("default")))
enum { OK = 0, UNINIT = 1, INVAL = 2, NOTSUP = 3, NOPERM = 4, NOTFOUND = 6, SMALL = 7, TIMEOUT = 10, MISMATCH = 18, VERSION = 25 };
enum { MAX_DEVICES = 16, MAX_GI = 7, MAX_PROCESSES = 16, MAX_EVENTS = 64, MAX_METRIC = 512, MIG_BASE = 1000 };
enum { GPM_SAMPLE, UTILISATION, MEMORY, CLOCK, POWER, REASONS, FIELDS, PROCESSES, EVENTS, CALL_KINDS };

typedef struct { unsigned id, ret; double value; const char *sn, *ln, *unit; } metric_t;
typedef struct { unsigned version, num; void *s1, *s2; metric_t m[]; } mget_t; // flexible: any maximum of the binding
typedef struct { unsigned version, supported; } gsup_t;
typedef struct { unsigned id, scope; long long ts, lat; unsigned vt, ret; union { double d; unsigned long long ull; } v; } fv_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } mem2_t;
typedef struct { unsigned long long total, free, used; } mem1_t;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } proc_t;
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } event_t;
typedef struct { double t, sm, occ, tensor, dram, nvtx, nvrx, pctx, pcrx; } ctr_t; // seconds, active seconds, MiB
typedef struct { ctr_t c; int source; } sample_t;
typedef struct {
  int gpm, err, nvlink, mig, gis, xid_supported, processes;
  unsigned util_gpu, util_mem, bus, memclk, smclk, smclk_max, power_mw, limit_mw;
  unsigned long long total, used, reserved, reasons;
  unsigned gi_id[MAX_GI];
  int call_err[CALL_KINDS];
  unsigned metric_ret[MAX_METRIC];
  double metric_value[MAX_METRIC]; // instead of the measured one where metric_forced
  char metric_forced[MAX_METRIC];
  proc_t p[MAX_PROCESSES];
  ctr_t c, gi_c[MAX_GI];
} dev_t_;

static dev_t_ D[MAX_DEVICES];
static event_t E[MAX_EVENTS];
static int n, inited, init_err, events, registered[MAX_DEVICES];
static long live_samples, live_event_sets, calls[CALL_KINDS], inits;
static int threads;
static __thread int seen;
static void thread_of_call(void) { if (!seen) { seen = 1; __sync_fetch_and_add(&threads, 1); } }
static long number(void *h) { return (long)h; }
static int is_mig(void *h) { return number(h) > MIG_BASE; }
static int gi_of(void *h) { return is_mig(h) ? (int)((number(h) - MIG_BASE - 1) % 16) : -1; }
static dev_t_ *dev(void *h) {
  long i = is_mig(h) ? (number(h) - MIG_BASE - 1) / 16 : number(h) - 1;
  return i >= 0 && i < n && gi_of(h) < D[i].gis ? &D[i] : 0;
}
#define DEV thread_of_call(); dev_t_ *d = dev(h); if (!inited) return UNINIT; if (!d) return INVAL; if (d->err) return d->err
#define CALL(kind) DEV; calls[kind]++; if (d->call_err[kind]) return d->call_err[kind]
#define WHOLE_DEVICE if (d->mig || is_mig(h)) return NOTSUP

// ---- control surface of the tests
X void fake_reset(int count) {
  memset(D, 0, sizeof D); memset(calls, 0, sizeof calls); memset(registered, 0, sizeof registered);
  n = count; init_err = events = 0; inits = 0; threads = 0;
  for (int i = 0; i < n; i++) {
    dev_t_ *d = &D[i];
    d->gpm = d->nvlink = d->xid_supported = 1; d->total = 150754820096ULL; d->reserved = 500ULL << 20; d->bus = 6144; d->memclk = 3201;
    d->smclk = 1755; d->smclk_max = 1980; d->power_mw = 412345; d->limit_mw = 700000;
  }
}
X void fake_set(int i, int gpm, int err, int nvlink) { D[i].gpm = gpm; D[i].err = err; D[i].nvlink = nvlink; }
X void fake_coarse(int i, unsigned g, unsigned m, unsigned long long used, unsigned long long reasons) { D[i].util_gpu = g; D[i].util_mem = m; D[i].used = used; D[i].reasons = reasons; }
static void advance(ctr_t *c, double dt, double sm, double tensor, double dram, double nvtx, double nvrx) {
  c->t += dt; c->sm += sm * dt; c->tensor += tensor * dt; c->dram += dram * dt; c->nvtx += nvtx * dt; c->nvrx += nvrx * dt;
}
X void fake_advance(int i, double dt, double sm, double tensor, double dram, double nvtx, double nvrx) { advance(&D[i].c, dt, sm, tensor, dram, nvtx, nvrx); }
X void fake_advance_gi(int i, int gi, double dt, double sm, double tensor, double dram) { advance(&D[i].gi_c[gi], dt, sm, tensor, dram, 0, 0); }
X void fake_pcie(int i, double tx_mib, double rx_mib) { D[i].c.pctx += tx_mib; D[i].c.pcrx += rx_mib; }
X void fake_call_error(int i, int kind, int code) { D[i].call_err[kind] = code; }
X void fake_metric_return(int i, int id, unsigned code) { D[i].metric_ret[id] = code; }
X void fake_metric_value(int i, int id, double value) { D[i].metric_forced[id] = 1; D[i].metric_value[id] = value; }
X void fake_metric_measured(int i, int id) { D[i].metric_forced[id] = 0; }
X void fake_clocks(int i, unsigned sm, unsigned sm_max, unsigned mem) { D[i].smclk = sm; D[i].smclk_max = sm_max; D[i].memclk = mem; }
X void fake_power(int i, unsigned mw, unsigned limit_mw) { D[i].power_mw = mw; D[i].limit_mw = limit_mw; }
X void fake_process(int i, unsigned pid, unsigned gi) { D[i].p[D[i].processes++] = (proc_t){pid, 1ULL << 30, gi, 0xffffffffu}; }
X void fake_no_processes(int i) { D[i].processes = 0; }
X void fake_mig(int i, int count, unsigned first_gi) { D[i].mig = 1; D[i].gis = count; for (int g = 0; g < count; g++) D[i].gi_id[g] = first_gi + g; }
X void fake_xid_supported(int i, int yes) { D[i].xid_supported = yes; }
X void fake_xid(int i, unsigned long long code, unsigned gi) { if (registered[i] && events < MAX_EVENTS) E[events++] = (event_t){(void *)(long)(i + 1), 8, code, gi, 0xffffffffu}; }
X void fake_count(int count) { n = count; }
X void fake_init_error(int code) { init_err = code; }
X void fake_forget(void) { inited = 0; }
X long fake_live_samples(void) { return live_samples; }
X long fake_live_event_sets(void) { return live_event_sets; }
X long fake_calls(int kind) { return calls[kind]; }
X long fake_inits(void) { return inits; }
X int fake_initialised(void) { return inited; }
X int fake_threads(void) { return threads; }
X int fake_sizeof(int what) {
  switch (what) {
  case 0: return sizeof(metric_t);
  case 1: return sizeof(fv_t);
  case 2: return sizeof(mem2_t);
  case 3: return sizeof(mem1_t);
  case 4: return sizeof(proc_t);
  case 5: return sizeof(event_t);
  case 6: return sizeof(gsup_t);
  default: return (int)sizeof(mget_t); // up to the metrics
  }
}

// ---- the surface of NVML that is used
X int nvmlInitWithFlags(unsigned f) {
  (void)f; thread_of_call(); inits++;
#ifdef STALE
  return MISMATCH;
#endif
  if (init_err) return init_err;
  inited++; return OK;
}
X int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
X int nvmlShutdown(void) { thread_of_call(); if (!inited) return UNINIT; inited--; return OK; }
X const char *nvmlErrorString(int r) { return r == NOTSUP ? "Not Supported" : "fake error"; }
X int nvmlSystemGetDriverVersion(char *b, unsigned l) { strncpy(b, "580.95.05", l); return OK; }
X int nvmlDeviceGetCount_v2(unsigned *c) { thread_of_call(); if (!inited) return UNINIT; *c = n; return OK; }
X int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { thread_of_call(); if (!inited) return UNINIT; if ((int)i >= n) return INVAL; *h = (void *)(long)(i + 1); return OK; }
X int nvmlDeviceGetName(void *h, char *b, unsigned l) { DEV; strncpy(b, is_mig(h) ? "NVIDIA H200 MIG 1g.18gb" : "NVIDIA H200", l); return OK; }
X int nvmlDeviceGetUUID(void *h, char *b, unsigned l) {
  DEV; long i = d - D;
  if (is_mig(h)) snprintf(b, l, "MIG-00000000-0000-0000-%04ld-%012d", i, gi_of(h)); else snprintf(b, l, "GPU-00000000-0000-0000-0000-%012ld", i);
  return OK;
}
X int nvmlDeviceGetUtilizationRates(void *h, unsigned *u) { CALL(UTILISATION); WHOLE_DEVICE; u[0] = d->util_gpu; u[1] = d->util_mem; return OK; }
X int nvmlDeviceGetMemoryBusWidth(void *h, unsigned *w) { DEV; if (is_mig(h)) return NOTSUP; *w = d->bus; return OK; }
X int nvmlDeviceGetMaxClockInfo(void *h, unsigned t, unsigned *c) { DEV; if (is_mig(h)) return NOTSUP; *c = t == 2 ? d->memclk : d->smclk_max; return t == 1 || t == 2 ? OK : NOTSUP; }
X int nvmlDeviceGetClockInfo(void *h, unsigned t, unsigned *c) { CALL(CLOCK); if (is_mig(h) || t != 1) return NOTSUP; *c = d->smclk; return OK; }
X int nvmlDeviceGetPowerUsage(void *h, unsigned *mw) { CALL(POWER); if (is_mig(h)) return NOTSUP; *mw = d->power_mw; return OK; }
X int nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *mw) { DEV; if (is_mig(h)) return NOTSUP; *mw = d->limit_mw; return OK; }
X int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *r) { CALL(REASONS); if (is_mig(h)) return NOTSUP; *r = d->reasons; return OK; }
X int nvmlDeviceGetMemoryInfo(void *h, mem1_t *m) { CALL(MEMORY); *m = (mem1_t){d->total, d->total - d->reserved - d->used, d->used + d->reserved}; return OK; }
X int nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *pending) { DEV; *now = *pending = d->mig; return OK; }
X int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *c) { DEV; *c = MAX_GI; return OK; }
X int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned g, void **m) { DEV; if ((int)g >= d->gis) return NOTFOUND; *m = (void *)(MIG_BASE + 1 + 16 * (long)(d - D) + g); return OK; }
X int nvmlDeviceGetGpuInstanceId(void *h, unsigned *id) { DEV; if (!is_mig(h)) return INVAL; *id = d->gi_id[gi_of(h)]; return OK; }
X int nvmlDeviceGetFieldValues(void *h, int k, fv_t *v) {
  CALL(FIELDS); WHOLE_DEVICE;
  for (int i = 0; i < k; i++) {
    v[i].ts = (long long)(d->c.t * 1e6); v[i].vt = 3;
    int known = v[i].scope == 0xffffffffu && d->nvlink && (v[i].id == 138 || v[i].id == 139);
    v[i].ret = known ? OK : NOTSUP;
    if (known) v[i].v.ull = (unsigned long long)((v[i].id == 138 ? d->c.nvtx : d->c.nvrx) * 1024);
  }
  return OK;
}
X int nvmlEventSetCreate(void **s) { thread_of_call(); if (!inited) return UNINIT; *s = malloc(1); live_event_sets++; return OK; }
X int nvmlEventSetFree(void *s) { thread_of_call(); free(s); live_event_sets--; return OK; }
X int nvmlDeviceGetSupportedEventTypes(void *h, unsigned long long *t) { DEV; *t = d->xid_supported ? 8 : 0; return OK; }
X int nvmlDeviceRegisterEvents(void *h, unsigned long long t, void *s) { DEV; (void)s; if (!(t & 8) || !d->xid_supported) return NOTSUP; registered[d - D] = 1; return OK; }
X int nvmlEventSetWait_v2(void *s, event_t *e, unsigned ms) {
  (void)s; thread_of_call(); calls[EVENTS]++; if (!inited) return UNINIT; if (ms) abort(); // a poll never blocks
  if (!events) return TIMEOUT;
  *e = E[0]; memmove(E, E + 1, --events * sizeof *E); return OK;
}
#ifndef OLD_DRIVER
X int nvmlDeviceGetCurrentClocksEventReasons(void *h, unsigned long long *r) { return nvmlDeviceGetCurrentClocksThrottleReasons(h, r); }
X int nvmlDeviceGetMemoryInfo_v2(void *h, mem2_t *m) { CALL(MEMORY); if (m->version != 0x02000028) return VERSION; *m = (mem2_t){m->version, d->total, d->reserved, d->total - d->reserved - d->used, d->used}; return OK; }
X int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, proc_t *p) {
  CALL(PROCESSES);
  unsigned room = p ? *count : 0, found = 0;
  for (int i = 0; i < d->processes; i++) {
    if (is_mig(h) && d->p[i].gi != d->gi_id[gi_of(h)]) continue;
    if (found < room) p[found] = d->p[i];
    found++;
  }
  *count = found; return found > room ? SMALL : OK;
}
X int nvmlGpmQueryDeviceSupport(void *h, gsup_t *s) { DEV; if (s->version != 1) return VERSION; s->supported = d->gpm; return OK; }
X int nvmlGpmSampleAlloc(void **s) { thread_of_call(); if (!inited) return UNINIT; *s = calloc(1, sizeof(sample_t)); live_samples++; return OK; }
X int nvmlGpmSampleFree(void *s) { thread_of_call(); if (!s) return INVAL; free(s); live_samples--; return OK; }
X int nvmlGpmSampleGet(void *h, void *s) { CALL(GPM_SAMPLE); if (!s) return INVAL; if (!d->gpm) return NOTSUP; WHOLE_DEVICE; *(sample_t *)s = (sample_t){d->c, (int)(d - D)}; return OK; }
X int nvmlGpmMigSampleGet(void *h, unsigned gi, void *s) {
  CALL(GPM_SAMPLE); if (!s) return INVAL; if (!d->gpm || !d->mig || is_mig(h)) return NOTSUP;
  for (int g = 0; g < d->gis; g++) if (d->gi_id[g] == gi) { *(sample_t *)s = (sample_t){d->gi_c[g], (int)(d - D)}; return OK; }
  return NOTFOUND;
}
X int nvmlGpmMetricsGet(mget_t *g) {
  thread_of_call(); if (!inited) return UNINIT; if (g->version != 1) return VERSION; if (!g->s1 || !g->s2) return INVAL;
  sample_t *first = g->s1, *second = g->s2; dev_t_ *d = &D[second->source]; ctr_t *a = &first->c, *b = &second->c; double dt = b->t - a->t;
  for (unsigned i = 0; i < g->num; i++) {
    metric_t *m = &g->m[i]; double v = 0; m->ret = m->id < MAX_METRIC ? d->metric_ret[m->id] : NOTSUP;
    switch (m->id) {
    case 2: v = 100 * (b->sm - a->sm) / dt; break;
    case 5: v = 100 * (b->tensor - a->tensor) / dt; break;
    case 10: v = 100 * (b->dram - a->dram) / dt; break;
    case 20: v = (b->pctx - a->pctx) / dt; break;
    case 21: v = (b->pcrx - a->pcrx) / dt; break;
    case 60: v = (b->nvrx - a->nvrx) / dt; break;
    case 61: v = (b->nvtx - a->nvtx) / dt; break;
    default: m->ret = NOTSUP;
    }
    m->value = m->id < MAX_METRIC && d->metric_forced[m->id] ? d->metric_value[m->id] : v; // two equal samples: NaN with return code 0
    m->unit = 0; m->sn = m->ln = 0;
  }
  return OK;
}
#endif
