// The C interface: checks pointers, turns exceptions into statuses.
#include "library/atalla_kernels.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "isa/error.h"
#include "library/gemm_dispatch.h"
#include "library/operator_dispatch.h"

using namespace atalla;

struct atalla_library {
    KernelLibrary library;
    GemmDispatch gemm{library};
    OperatorDispatch operators{library};
};

namespace {

thread_local std::string last_error;

template <class Function>
int guarded(const Function &function) {
    try {
        function();
        return 0;
    } catch (const std::bad_alloc &) {
        last_error = "out of memory";
    } catch (const std::exception &error) {
        last_error = error.what();
    }
    return 1;
}

constexpr int64_t most_elements = int64_t{1} << 40;
constexpr size_t most_dimensions = 64;

void demand(std::initializer_list<std::pair<const char *, const void *>> pointers) {
    for (const auto &[name, pointer] : pointers)
        if (pointer == nullptr) throw Error(fmt::format("'{}' is a null pointer", name));
}

int64_t elements(int64_t rows, int64_t columns) {
    if (rows < 1 || columns < 1 || rows > most_elements / columns)
        throw Error(fmt::format("a matrix cannot have {} x {} elements", rows, columns));
    return rows * columns;
}

std::vector<int64_t> shape_of(const atalla_operand &operand) {
    if (operand.rank > most_dimensions) throw Error(fmt::format("a tensor cannot have {} dimensions", operand.rank));
    if (operand.rank > 0) demand({{"shape", operand.shape}});
    std::vector<int64_t> shape(operand.shape, operand.shape + operand.rank);
    int64_t count = 1;
    for (const int64_t extent : shape) {
        if (extent < 1) throw Error(fmt::format("a tensor of {} has no elements", fmt::join(shape, "x")));
        if (extent > most_elements / count)
            throw Error(fmt::format("a tensor cannot be as large as {}", fmt::join(shape, "x")));
        count *= extent;
    }
    return shape;
}

}  // namespace

const char *atalla_library_error(void) { return last_error.c_str(); }

int atalla_library_open(const char *file, atalla_library **library) {
    return guarded([&] {
        demand({{"file", file}, {"library", library}});
        *library = nullptr;
        *library = new atalla_library{read_library(file)};
    });
}

void atalla_library_close(atalla_library *library) { delete library; }

size_t atalla_library_kernels(const atalla_library *library) {
    return library == nullptr ? 0 : library->library.kernels.size();
}

const char *atalla_library_machine(const atalla_library *library) {
    return library == nullptr ? "" : library->library.machine.name.c_str();
}

int atalla_gemm(const atalla_library *library, int64_t m, int64_t n, int64_t k, const uint16_t *a, const uint16_t *b,
                const uint16_t *bias, uint16_t *c, unsigned flags, atalla_gemm_report *report) {
    return guarded([&] {
        demand({{"library", library}, {"a", a}, {"b", b}, {"c", c}});
        if (flags & ~(ATALLA_GEMM_BIAS | ATALLA_GEMM_RELU)) throw Error(fmt::format("there is no flag {}", flags));
        const GemmCall call{m, n, k, (flags & ATALLA_GEMM_BIAS) != 0, (flags & ATALLA_GEMM_RELU) != 0};
        if (call.bias) demand({{"bias", bias}});
        GemmChoice choice;
        const int64_t a_elements = elements(m, k), b_elements = elements(n, k);
        elements(m, n);
        const Bf16 result = library->gemm.run(call, {a, a + a_elements}, {b, b + b_elements},
                                              call.bias ? Bf16(bias, bias + n) : Bf16(), &choice);
        std::copy(result.begin(), result.end(), c);
        if (report)
            *report = {choice.cycles, choice.tiles, choice.m,
                       choice.n,      choice.k,     choice.m == m && choice.n == n && choice.k == k};
    });
}

int atalla_operator(const atalla_library *library, const char *op, const char *attributes, const atalla_operand *inputs,
                    size_t count, uint16_t *output, size_t output_elements, atalla_operator_report *report) {
    return guarded([&] {
        demand({{"library", library}, {"op", op}, {"inputs", inputs}, {"output", output}});
        OperatorCall call{op, attributes == nullptr ? "{}" : attributes, {}};
        for (size_t i = 0; i < count; i++) {
            demand({{"data", inputs[i].data}});
            call.inputs.push_back({shape_of(inputs[i]), inputs[i].data});
        }
        OperatorChoice choice;
        const std::vector<Bf16> results = library->operators.run(call, &choice);
        if (results.size() != 1) throw Error(fmt::format("{} has {} outputs; this interface takes one", op, results.size()));
        if (results.front().size() != output_elements)
            throw Error(
                fmt::format("{} gives {} elements, but there is room for {}", op, results.front().size(), output_elements));
        std::copy(results.front().begin(), results.front().end(), output);
        if (report) *report = {choice.cycles, choice.runs, choice.exact()};
    });
}
