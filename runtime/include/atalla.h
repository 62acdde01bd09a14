/* Runs compiled models (.atl files) on the Atalla accelerator. C interface of libatalla_runtime; docs/runtime.md has a tour.
 *
 * Every function that can fail returns a status; atalla_last_error() then has one sentence about it, per thread.
 * Null pointers are errors, not crashes, except where a parameter says "may be null"; functions without a status give 0 or ""
 * for them. A context that is in use by another call, of another thread or around one of its host kernels, is an error, too. */
#ifndef ATALLA_H
#define ATALLA_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ATALLA_API __attribute__((visibility("default")))
#else
#define ATALLA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    ATALLA_OK = 0,
    ATALLA_INVALID_ARGUMENT = 1, /* a null pointer, an index out of range, a wrong element type or shape */
    ATALLA_FAILED = 2,           /* a file, the program or a host kernel */
    ATALLA_OUT_OF_MEMORY = 3
} atalla_status;

/* The numbers of PyTorch's exported programs. */
typedef enum {
    ATALLA_UINT8 = 1,
    ATALLA_INT8 = 2,
    ATALLA_INT16 = 3,
    ATALLA_INT32 = 4,
    ATALLA_INT64 = 5,
    ATALLA_FLOAT16 = 6,
    ATALLA_FLOAT32 = 7,
    ATALLA_FLOAT64 = 8,
    ATALLA_BOOL = 12,
    ATALLA_BFLOAT16 = 13
} atalla_dtype;

#define ATALLA_MAX_RANK 64

/* A tensor in the caller's memory, or a view of one of ours. `strides` counts elements and may be null: dense, row-major. Any
 * stride is allowed, zero and negative ones too; `data` is where the element with all indices zero lies. */
typedef struct {
    void *data;
    int32_t dtype; /* atalla_dtype */
    int32_t rank;
    const int64_t *sizes;
    const int64_t *strides;
} atalla_tensor;

typedef struct atalla_model atalla_model;     /* immutable: threads may share it */
typedef struct atalla_context atalla_context; /* one thread at a time */

/* The sentence about the last failure in this thread; empty if there was none. Valid until the next call in this thread. */
ATALLA_API const char *atalla_last_error(void);
/* "0.1.0". */
ATALLA_API const char *atalla_version(void);

/* ---- models */

/* Maps a file; nothing is copied. */
ATALLA_API atalla_status atalla_model_load(const char *file, atalla_model **model);
/* The bytes are copied and may go away. */
ATALLA_API atalla_status atalla_model_load_memory(const void *bytes, size_t size, atalla_model **model);
/* Contexts keep their model alive. May be null. */
ATALLA_API void atalla_model_release(atalla_model *model);

ATALLA_API size_t atalla_model_inputs(const atalla_model *model);
ATALLA_API size_t atalla_model_outputs(const atalla_model *model);
/* Name, element type and sizes of an input or output; a size that differs from call to call is -1. Pointers live as long as the
 * model. `name`, `dtype`, `rank` and `sizes` may be null. `sizes` has room for ATALLA_MAX_RANK. */
ATALLA_API atalla_status atalla_model_input(const atalla_model *model, size_t index, const char **name, int32_t *dtype,
                                            int32_t *rank, int64_t *sizes);
ATALLA_API atalla_status atalla_model_output(const atalla_model *model, size_t index, const char **name, int32_t *dtype,
                                             int32_t *rank, int64_t *sizes);
/* Everything that `atalla inspect --json` prints; "" for a null pointer. Lives as long as the model. */
ATALLA_API const char *atalla_model_json(const atalla_model *model);

/* ---- running */

/* `step_limit`: packets after which a program counts as wild; 0 for the default. */
ATALLA_API atalla_status atalla_context_create(const atalla_model *model, uint64_t step_limit, atalla_context **context);
ATALLA_API void atalla_context_release(atalla_context *context); /* may be null */

/* Copies the elements. The element type and the number of dimensions must be the model's, and there must be no more elements
 * than it takes; whether the sizes fit is for the run to say. */
ATALLA_API atalla_status atalla_set_input(atalla_context *context, size_t index, const atalla_tensor *tensor);
/* Runs the model on the inputs that were set last; it fits them to one of its specializations. */
ATALLA_API atalla_status atalla_run(atalla_context *context);
/* The same, and writes what the accelerator did in which cycle: a trace that ui.perfetto.dev opens. */
ATALLA_API atalla_status atalla_run_traced(atalla_context *context, const char *file);
/* A dense view of an output, valid until the next run. */
ATALLA_API atalla_status atalla_get_output(const atalla_context *context, size_t index, atalla_tensor *tensor);
/* Copies an output into the caller's memory; element type and sizes must be the output's, the strides may be any. */
ATALLA_API atalla_status atalla_copy_output(const atalla_context *context, size_t index, const atalla_tensor *tensor);
/* Tensors that keep their value between calls (a cache) get their first value again. */
ATALLA_API atalla_status atalla_reset_states(atalla_context *context);
/* They get their values in another context, whose model is the same one, compiled for other sizes. */
ATALLA_API atalla_status atalla_take_states(atalla_context *context, const atalla_context *from);

typedef struct {
    uint64_t runs;            /* of the context */
    uint64_t programs_loaded; /* of the context: grows only with sizes that are new to it */
    /* of the last run: */
    uint64_t cycles, packets; /* of the accelerator */
    uint64_t device_calls, host_calls;
    uint64_t bytes_to_device, bytes_from_device;
} atalla_counters;
ATALLA_API atalla_status atalla_get_counters(const atalla_context *context, atalla_counters *counters);
/* All counters and every step of the last run, as JSON. Valid until the next call with this context. */
ATALLA_API const char *atalla_profile_json(atalla_context *context);

/* ---- host kernels of the caller */

typedef struct atalla_call atalla_call; /* valid during the kernel */
/* Fills all results of the call. Anything but ATALLA_OK ends the run with the text of atalla_call_fail(). */
typedef atalla_status (*atalla_kernel)(atalla_call *call, void *user);
/* Contexts that are created from now on run this operator, "mylib::op", with the kernel; also instead of a built-in one. */
ATALLA_API atalla_status atalla_register_kernel(const char *target, atalla_kernel kernel, void *user);

/* Arguments by the names of the operator's schema. An operand is a read-only view. */
ATALLA_API atalla_status atalla_call_operand(const atalla_call *call, const char *name, atalla_tensor *tensor);
ATALLA_API atalla_status atalla_call_integer(const atalla_call *call, const char *name, int64_t *value);
ATALLA_API atalla_status atalla_call_number(const atalla_call *call, const char *name, double *value);
/* A dense tensor to write. */
ATALLA_API atalla_status atalla_call_result(atalla_call *call, size_t index, atalla_tensor *tensor);
ATALLA_API size_t atalla_call_results(const atalla_call *call);
ATALLA_API atalla_status atalla_call_fail(atalla_call *call, const char *sentence);

#ifdef __cplusplus
}
#endif

#endif
