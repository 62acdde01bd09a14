/* Runs a compiled model on ones and prints the first results. With pkg-config:
 *   cc run_model.c $(pkg-config --cflags --libs atalla) -o run_model && ./run_model model.atl */
#include <atalla.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char *what) {
    fprintf(stderr, "run_model: %s: %s\n", what, atalla_last_error());
    return 1;
}

int main(int argc, char **argv) {
    atalla_model *model = NULL;
    atalla_context *context = NULL;
    if (argc != 2) {
        fprintf(stderr, "usage: run_model MODEL.atl\n");
        return 2;
    }
    if (atalla_model_load(argv[1], &model) != ATALLA_OK) return fail("loading");
    if (atalla_context_create(model, 0, &context) != ATALLA_OK) return fail("creating a context");

    for (size_t i = 0; i < atalla_model_inputs(model); i++) {
        const char *name;
        int32_t dtype, rank;
        int64_t sizes[ATALLA_MAX_RANK], elements = 1;
        if (atalla_model_input(model, i, &name, &dtype, &rank, sizes) != ATALLA_OK) return fail("asking for an input");
        if (dtype != ATALLA_FLOAT32) {
            fprintf(stderr, "run_model: input %s is not float32\n", name);
            return 1;
        }
        for (int32_t d = 0; d < rank; d++) {
            if (sizes[d] < 0) {
                fprintf(stderr, "run_model: the sizes of input %s differ from call to call\n", name);
                return 1;
            }
            elements *= sizes[d];
        }
        float *ones = malloc((size_t)elements * sizeof *ones);
        if (ones == NULL) return 1;
        for (int64_t e = 0; e < elements; e++) ones[e] = 1;
        const atalla_tensor tensor = {ones, ATALLA_FLOAT32, rank, sizes, NULL};
        const atalla_status status = atalla_set_input(context, i, &tensor);
        free(ones); /* it was copied */
        if (status != ATALLA_OK) return fail("setting an input");
    }
    if (atalla_run(context) != ATALLA_OK) return fail("running");

    for (size_t i = 0; i < atalla_model_outputs(model); i++) {
        const char *name;
        atalla_tensor tensor;
        int64_t elements = 1;
        if (atalla_model_output(model, i, &name, NULL, NULL, NULL) != ATALLA_OK) return fail("asking for an output");
        if (atalla_get_output(context, i, &tensor) != ATALLA_OK) return fail("reading an output");
        for (int32_t d = 0; d < tensor.rank; d++) elements *= tensor.sizes[d];
        printf("%s:", name);
        for (int64_t e = 0; e < elements && e < 8 && tensor.dtype == ATALLA_FLOAT32; e++) printf(" %g", ((const float *)tensor.data)[e]);
        printf("%s\n", elements > 8 ? " ..." : "");
    }
    atalla_counters counters;
    if (atalla_get_counters(context, &counters) != ATALLA_OK) return fail("reading counters");
    printf("%llu cycles\n", (unsigned long long)counters.cycles);
    atalla_context_release(context);
    atalla_model_release(model);
    return 0;
}
