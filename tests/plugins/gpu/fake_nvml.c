/* A stand-in for NVIDIA's management library: the exported names that the plugin calls, and answers from a text file.
 *
 * FAKE_NVML_SCRIPT names the file; it is read again for each query, so that a test changes the machine while it runs.
 * Without it there is no driver. Each line is KEY=VALUE. A key belongs to a device, `0.power`, or to one of its MIG
 * instances, `0.mig1.memory`; a value that begins with `!` is the error code to answer with. A key without a line has a
 * default. With FAKE_NVML_LOG, a file, each call of init, shutdown and of any question is noted as `PID NAME`.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK 0
#define UNINITIALIZED 1
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define DRIVER_NOT_LOADED 9
#define TIMEOUT 10
#define INSUFFICIENT_SIZE 7
#define VERSION_MISMATCH 25

#define MOST 300

typedef unsigned long long u64;

typedef struct {
    int used;
    int gpu;
    int instance; /* -1 for a whole GPU */
    int generation;
} Device;

static Device devices[MOST * 9];
static int refcount = 0;
static int generation = 0;
static u64 events_taken = 0;
static int event_set;

static void note(const char *name) {
    const char *path = getenv("FAKE_NVML_LOG");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%d %s\n", (int)getpid(), name);
    fclose(file);
}

/* The value of a key, or NULL. */
static const char *lookup(const char *key) {
    static char line[512];
    const char *path = getenv("FAKE_NVML_SCRIPT");
    FILE *file = path ? fopen(path, "r") : NULL;
    size_t length = strlen(key);
    const char *found = NULL;
    if (!file) return NULL;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, key, length) && line[length] == '=') found = line + length + 1;
    }
    fclose(file);
    return found;
}

static void wait_if_told(const char *key) {
    const char *value = lookup(key);
    if (value) usleep((useconds_t)(atof(value) * 1e6));
}

/* The number of a key, or the default; returns the error code that the script asks for. */
static int number(const char *key, u64 otherwise, u64 *out) {
    const char *value = lookup(key);
    if (value && value[0] == '!') return atoi(value + 1);
    *out = value ? strtoull(value, NULL, 10) : otherwise;
    return OK;
}

static int text(const char *key, const char *otherwise, char *out, unsigned size) {
    const char *value = lookup(key);
    if (value && value[0] == '!') return atoi(value + 1);
    if (!value) value = otherwise;
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return OK;
}

static void key_of(const Device *device, const char *what, char *key, size_t size) {
    if (device->instance < 0) snprintf(key, size, "%d.%s", device->gpu, what);
    else snprintf(key, size, "%d.mig%d.%s", device->gpu, device->instance, what);
}

/* Returns OK if the query can be answered: initialised, a handle of ours that is not stale, the device not lost. */
static int usable(const Device *device, const char *name) {
    char key[64];
    u64 code = 0;
    int result;
    note(name);
    if (refcount <= 0) return UNINITIALIZED;
    if (!device || !device->used || device->generation != generation) return INVALID_ARGUMENT;
    key_of(device, "hang_s", key, sizeof key);
    wait_if_told(key);
    key_of(device, "all", key, sizeof key);
    result = number(key, 0, &code);
    return result;
}

static int ask(const Device *device, const char *name, const char *what, u64 otherwise, u64 *out) {
    char key[64];
    int result = usable(device, name);
    if (result != OK) return result;
    key_of(device, what, key, sizeof key);
    return number(key, otherwise, out);
}

static int ask_unsigned(const Device *device, const char *name, const char *what, u64 otherwise, unsigned *out) {
    u64 value = 0;
    int result = ask(device, name, what, otherwise, &value);
    if (result == OK) *out = (unsigned)value;
    return result;
}

int nvmlInitWithFlags(unsigned flags) {
    u64 code = 0;
    int result;
    (void)flags;
    note("init");
    if (!getenv("FAKE_NVML_SCRIPT")) return DRIVER_NOT_LOADED;
    wait_if_told("init_s");
    result = number("init", 0, &code);
    if (result != OK) return result;
    if (refcount++ == 0) generation++;
    return OK;
}

int nvmlShutdown(void) {
    note("shutdown");
    if (refcount <= 0) return UNINITIALIZED;
    refcount--;
    return OK;
}

const char *nvmlErrorString(int code) {
    (void)code;
    return "Some Other Error";
}

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    return text("driver", "580.00", out, size);
}

int nvmlDeviceGetCount_v2(unsigned *out) {
    u64 count = 0;
    int result = number("count", 1, &count);
    if (refcount <= 0) return UNINITIALIZED;
    if (result == OK) *out = (unsigned)count;
    return result;
}

static int take(int gpu, int instance, Device **out) {
    Device *device = &devices[gpu * 9 + instance + 1];
    device->used = 1;
    device->gpu = gpu;
    device->instance = instance;
    device->generation = generation;
    *out = device;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out) {
    char key[64];
    u64 code = 0;
    int result;
    if (refcount <= 0) return UNINITIALIZED;
    snprintf(key, sizeof key, "%u.handle", index);
    result = number(key, 0, &code);
    return result == OK ? take((int)index, -1, out) : result;
}

int nvmlDeviceGetUUID(Device *device, char *out, unsigned size) {
    char key[64], otherwise[64];
    int result = usable(device, "uuid");
    if (result != OK) return result;
    key_of(device, "uuid", key, sizeof key);
    if (device->instance < 0) snprintf(otherwise, sizeof otherwise, "GPU-0000000%d", device->gpu);
    else snprintf(otherwise, sizeof otherwise, "MIG-0000000%d-%d", device->gpu, device->instance);
    return text(key, otherwise, out, size);
}

int nvmlDeviceGetName(Device *device, char *out, unsigned size) {
    char key[64];
    int result = usable(device, "name");
    if (result != OK) return result;
    key_of(device, "name", key, sizeof key);
    return text(key, "Fake GPU", out, size);
}

int nvmlDeviceGetUtilizationRates(Device *device, unsigned *out) {
    int result = ask_unsigned(device, "utilization", "utilization", 50, &out[0]);
    return result == OK ? ask_unsigned(device, "utilization", "controller", 25, &out[1]) : result;
}

typedef struct {
    u64 total, available, used;
} Memory;

int nvmlDeviceGetMemoryInfo(Device *device, Memory *out) {
    int result = ask(device, "memory", "memory_v1", 912000000ULL, &out->used);
    if (result != OK) return result;
    result = ask(device, "memory", "total", 80000000000ULL, &out->total);
    out->available = out->total - out->used;
    return result;
}

#ifndef OLD_DRIVER
typedef struct {
    unsigned version;
    u64 total, reserved, available, used;
} MemoryV2;

int nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *out) {
    int result;
    if (out->version != (sizeof(MemoryV2) | 2U << 24)) return VERSION_MISMATCH;
    result = ask(device, "memory_v2", "memory", 7800000ULL, &out->used);
    if (result == OK) result = ask(device, "memory_v2", "reserved", 904200000ULL, &out->reserved);
    if (result == OK) result = ask(device, "memory_v2", "total", 80000000000ULL, &out->total);
    out->available = out->total - out->used;
    return result;
}

int nvmlDeviceGetCurrentClocksEventReasons(Device *device, u64 *out) {
    return ask(device, "clock_events", "clock_events", 0, out);
}

typedef struct {
    unsigned version, sensor;
    int temperature;
} Temperature;

int nvmlDeviceGetTemperatureV(Device *device, Temperature *out) {
    unsigned value = 0;
    int result = ask_unsigned(device, "temperature_v", "temperature_v", 44, &value);
    out->temperature = (int)value;
    return result;
}

int nvmlDeviceGetTotalEnergyConsumption(Device *device, u64 *out) {
    return ask(device, "energy", "energy", 123456ULL, out);
}
#endif

int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, u64 *out) {
    return ask(device, "throttle", "clock_events", 0, out);
}

int nvmlDeviceGetTemperature(Device *device, unsigned sensor, unsigned *out) {
    (void)sensor;
    return ask_unsigned(device, "temperature", "temperature", 41, out);
}

int nvmlDeviceGetPowerUsage(Device *device, unsigned *out) {
    return ask_unsigned(device, "power", "power", 250500, out);
}

int nvmlDeviceGetTotalEccErrors(Device *device, unsigned kind, unsigned counter, u64 *out) {
    if (counter != 0) return INVALID_ARGUMENT;
    return kind == 0 ? ask(device, "ecc", "corrected", 3, out) : ask(device, "ecc", "uncorrected", 0, out);
}

int nvmlDeviceGetPcieThroughput(Device *device, unsigned counter, unsigned *out) {
    return counter == 0 ? ask_unsigned(device, "pcie", "pcie_tx", 1500, out)
                        : ask_unsigned(device, "pcie", "pcie_rx", 2500, out);
}

int nvmlDeviceGetClockInfo(Device *device, unsigned kind, unsigned *out) {
    if (kind != 1 && kind != 2) return INVALID_ARGUMENT;
    return kind == 1 ? ask_unsigned(device, "clock", "clock_sm", 1980, out)
                     : ask_unsigned(device, "clock", "clock_memory", 2619, out);
}

int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    char key[64];
    u64 mode = 0;
    int result = usable(device, "mig_mode");
    if (result != OK) return result;
    snprintf(key, sizeof key, "%d.mig", device->gpu);
    if (!lookup(key)) return NOT_SUPPORTED;
    result = number(key, 0, &mode);
    *current = *pending = (unsigned)mode;
    return result;
}

int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *out) {
    (void)device;
    *out = 7;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **out) {
    char key[64];
    if (device->generation != generation) return INVALID_ARGUMENT;
    snprintf(key, sizeof key, "%d.mig%u.there", device->gpu, index);
    return lookup(key) ? take(device->gpu, (int)index, out) : NOT_FOUND;
}

int nvmlEventSetCreate(int **out) {
    u64 code = 0;
    *out = &event_set;
    return number("events", 0, &code);
}

int nvmlEventSetFree(int *set) {
    note("events_free");
    return set == &event_set ? OK : INVALID_ARGUMENT;
}

int nvmlDeviceRegisterEvents(Device *device, u64 types, int *set) {
    char key[64];
    u64 code = 0;
    if (types != 8 || set != &event_set) return INVALID_ARGUMENT;
    key_of(device, "events", key, sizeof key);
    return number(key, 0, &code);
}

typedef struct {
    Device *device;
    u64 type, data;
    unsigned gpu_instance, compute_instance;
} Event;

/* `xid.N=GPU:NUMBER` is the N-th event; each is told once. */
int nvmlEventSetWait_v2(int *set, Event *out, unsigned timeout_ms) {
    char key[64];
    const char *value;
    (void)timeout_ms;
    if (set != &event_set) return INVALID_ARGUMENT;
    snprintf(key, sizeof key, "xid.%llu", events_taken);
    value = lookup(key);
    if (!value) return TIMEOUT;
    events_taken++;
    memset(out, 0, sizeof *out);
    out->device = &devices[atoi(value) * 9];
    out->type = 8;
    out->data = strtoull(strchr(value, ':') + 1, NULL, 10);
    return OK;
}

/* For tests that share a process. */
void fake_nvml_reset(void) {
    memset(devices, 0, sizeof devices);
    refcount = 0;
    events_taken = 0;
}
