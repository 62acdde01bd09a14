/* Calls tuned kernels of a library (.atlib) on the Atalla accelerator. C interface of libatalla_kernels; docs/library.md.
 *
 * A function that can fail returns 0 for success; atalla_library_error() then has one sentence about it, per thread. */
#ifndef ATALLA_KERNELS_H
#define ATALLA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct atalla_library atalla_library; /* immutable: threads may share it */

#define ATALLA_GEMM_BIAS 1u
#define ATALLA_GEMM_RELU 2u

typedef struct {
    int64_t cycles;  /* simulated, of all runs */
    int64_t runs;    /* 1: a kernel for just this shape, or one that covers it; more: tiles */
    int64_t m, n, k; /* of the kernel that ran */
    int exact;       /* whether that is the shape that was asked for */
} atalla_gemm_report;

/* The sentence about the last failure in this thread; empty if there was none. */
const char *atalla_library_error(void);

int atalla_library_open(const char *file, atalla_library **library);
void atalla_library_close(atalla_library *library); /* may be null */
size_t atalla_library_kernels(const atalla_library *library);
const char *atalla_library_machine(const atalla_library *library);

/* C[m,n] = A[m,k] B[n,k]^T, + bias[n] with ATALLA_GEMM_BIAS, negative values as 0 with ATALLA_GEMM_RELU. bf16 bit patterns,
 * dense, row-major. `bias` may be null without the flag, `report` always. A shape without a kernel of its own runs on one
 * that covers it, or in tiles of one. */
int atalla_gemm(const atalla_library *library, int64_t m, int64_t n, int64_t k, const uint16_t *a, const uint16_t *b,
                const uint16_t *bias, uint16_t *c, unsigned flags, atalla_gemm_report *report);

/* bf16 bit patterns, dense, outermost extent first. */
typedef struct {
    const uint16_t *data;
    const int64_t *shape;
    size_t rank;
} atalla_operand;

typedef struct {
    int64_t cycles; /* simulated, of all runs */
    int64_t runs;   /* 1: the kernel ran once; more: over parts of the tensors */
    int exact;      /* whether the kernel is one for just these shapes */
} atalla_operator_report;

/* Any other operator of the library by its name, with its tensors in the order that `atalla ops NAME` lists. `attributes` is
 * the JSON object of the workload, {"dim":-1}; null: none. `output` has room for `output_elements`, which must be what the
 * operator gives. Shapes without a kernel of their own run on one whose tensors are independent parts of the same
 * shape, such as rows; if there is none the call fails. `report` may be null. */
int atalla_operator(const atalla_library *library, const char *op, const char *attributes, const atalla_operand *inputs,
                    size_t count, uint16_t *output, size_t output_elements, atalla_operator_report *report);

#ifdef __cplusplus
}
#endif

#endif
