#include "generators/convolution_operator.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "generators/convolution.h"
#include "generators/convolution_in_registers.h"
#include "generators/convolution_places_in_registers.h"
#include "generators/convolution_product.h"
#include "generators/convolution_space.h"
#include "generators/depthwise.h"
#include "generators/depthwise_rows.h"
#include "generators/movement.h"
#include "generators/pipeline_workload.h"
#include "generators/reference_peaks.h"
#include "generators/registry.h"
#include "isa/error.h"
#include "isa/vectors.h"
#include "schedules/visit_bound.h"
#include "simulator/numerics.h"

namespace atalla {

namespace {

class ConvolutionWorkload : public PipelineWorkload {
public:
    ConvolutionWorkload(const WorkloadRequest &request, const ConvolutionShape &shape, const Shape &result)
        : PipelineWorkload(request), shape_(shape) {
        inputs_ = {{"X", shape.x_extents()}, {"F", shape.f_extents()}};
        if (shape.bias) inputs_.push_back({"bias", shape.bias_extents()});
        outputs_ = {{"Y", shape.out_extents()}};
        result_shape_ = result;
    }

    double flops() const override {
        return 2 * static_cast<double>(outputs_[0].elements()) *
               static_cast<double>(shape_.in / shape_.merged * shape_.kernel_y * shape_.kernel_x);
    }

    Space space(const Machine &machine) const override {
        if (places_in_registers(machine)) return convolution_places_space(shape_, machine);
        return in_registers() ? register_convolution_space(shape_, machine) : convolution_space(shape_, machine);
    }
    Point naive_point(const Machine &machine) const override {
        if (places_in_registers(machine)) return convolution_places_naive_point(shape_, machine);
        return in_registers() ? register_convolution_naive_point(shape_, machine) : convolution_naive_point(shape_, machine);
    }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        if (places_in_registers(machine)) return convolution_of_places_in_registers(shape_, machine, point);
        return in_registers() ? convolution_in_registers(shape_, machine, point) : convolution(shape_, machine, point);
    }

    Bound bound(const Machine &machine) const override {
        const KernelWork least = work(machine);
        const Bound bound = kernel_bound(machine, least);
        // Kernels of one channel need no array.
        const int64_t loads =
            std::min({int64_t{lanes}, shape_.out / shape_.merged, shape_.images * shape_.rows() * shape_.columns()});
        const int64_t visits =
            shape_.in == shape_.merged ? 0 : least_visit_cycles(machine, least.array_rows, least.rows_stored, loads);
        return visits == 0 ? bound : with_term(bound, "visits", visits);
    }

    double draft(const Machine &machine, const Point &point) const override {
        if (places_in_registers(machine)) return convolution_places_draft(shape_, machine, point);
        return in_registers() ? register_convolution_draft(shape_, machine, point) : convolution_draft(shape_, machine, point);
    }
    std::string words(const Machine &machine, const Point &point) const override {
        return places_in_registers(machine) ? convolution_places_words(point) : PipelineWorkload::words(machine, point);
    }

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        Reference result;
        const ConvolutionShape &s = shape_;
        const std::vector<KernelElement> of_lanes = s.packs_lanes() ? elements_of_lanes(s) : std::vector<KernelElement>{};
        const auto append = [&](int64_t image, int64_t channel, int64_t y, int64_t column) {
            const int64_t group = channel / s.out;
            const uint16_t *x = inputs[0].data() + s.x_base(image, group), *f = inputs[1].data();
            if (s.banded)
                f += (group * s.band().tiles * s.kernel_x * s.out + channel % s.out) * s.band().rows * s.band().lanes();
            else
                f += (group * s.out + (s.packed ? s.packed_channel(channel % s.out) : channel % s.out)) *
                     (inputs_[1].elements() / (s.groups * s.out));
            // Of merged groups a kernel as PyTorch has it meets the channels of its own.
            if (!s.packed) x += s.x_offset(channel % s.out / (s.out / s.merged) * (s.in / s.merged), 0, 0);
            const double bias = s.bias ? bf16_float(inputs[2][static_cast<size_t>(channel)]) : 0;
            if (s.packs_lanes())
                append_sum_of_tiles(x, f, of_lanes, y, column, bias, result);
            else
                append_sum(x, f, y, column, bias, result);
        };
        const int64_t channels = s.groups * s.out, places = s.rows() * s.columns();
        for (int64_t at = 0; at < s.images * channels * places; at++) {
            const int64_t image = at / (channels * places), channel = s.channels_last ? at % channels : at / places % channels,
                          place = s.channels_last ? at / channels % places : at % places;
            append(image, channel, place / s.columns(), place % s.columns());
        }
        return {shape_.epilogue.reference(std::move(result), sum_ulps())};
    }
    double tolerance_ulps() const override { return sum_ulps() + shape_.epilogue.tolerance_ulps(); }

    std::vector<Arrangement> arrangements(const Machine &machine) const override {
        if (shape_.packed || shape_.banded) return {};
        // Bands are for pads that hold nothing else; elsewhere they take many times as long.
        const bool banded = !machine.timed() && !shape_.channels_last;
        nlohmann::json request = nlohmann::json::parse(text());
        ConvolutionShape arranged = shape_.with_own_groups();
        (banded ? arranged.banded : arranged.packed) = true;
        // Fewer k tiles are fewer additions, or rows of the array.
        arranged.shares = true;
        arranged.shares = !banded && !shape_.channels_last && arranged.sharing_pays(machine);
        request["attributes"]["weight_layout"] = banded ? "banded" : arranged.shares ? "shared" : "packed";
        arranged = arranged.with_merged_groups();
        try {
            return {{find_operator(request_.reader).parse(request.dump()), 1, weight_elements(arranged), "weight-layout"}};
        } catch (const Error &) {
            return {};  // a kernel that the layout does not have
        }
    }

protected:
    KernelWork work(const Machine &machine) const override {
        KernelWork work;
        work.bytes = tensor_bytes();
        // Each result sums the products with the elements of the image that its window covers, 32 in a product of the array.
        const auto covered = [](int64_t at, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, int64_t size) {
            int64_t n = 0;
            for (int64_t u = 0; u < kernel; u++) {
                const int64_t place = at * stride + u * dilation - padding;
                n += place >= 0 && place < size;
            }
            return n;
        };
        std::vector<int64_t> across;
        for (int64_t column = 0; column < shape_.columns(); column++)
            across.push_back(
                covered(column, shape_.kernel_x, shape_.stride_x, shape_.padding_x, shape_.dilation_x, shape_.width));
        int64_t products = 0, sums = 0;
        for (int64_t row = 0; row < shape_.rows(); row++) {
            const int64_t down =
                covered(row, shape_.kernel_y, shape_.stride_y, shape_.padding_y, shape_.dilation_y, shape_.height);
            for (int64_t n : across) {
                const int64_t blocks = tiles_of(shape_.in / shape_.merged * down * n);
                products += blocks;
                sums += std::max<int64_t>(0, blocks - 1);
            }
        }
        const int64_t planes = shape_.images * shape_.groups * shape_.out;
        work.array_rows = tiles_of(planes * products);
        if (!machine.sa.psum_in) work.lanes.adds = tiles_of(planes * sums);
        work.rows_stored = tiles_of(outputs_[0].elements());
        shape_.epilogue.add_to(work, work.rows_stored);
        return work;
    }

private:
    bool in_registers() const { return shape_.banded; }
    bool places_in_registers(const Machine &machine) const {
        return shape_.channels_last && shape_.packed && has_small_pads(machine);
    }
    double sum_ulps() const { return static_cast<double>(shape_.k_tiles()) + 2; }
    // In the machine's order: the bias, 32 channels, blocks of channels, the columns of the kernel, its rows.
    void append_sum(const uint16_t *x, const uint16_t *f, int64_t y, int64_t column, double bias, Reference &result) const {
        const ConvolutionShape &s = shape_;
        if (s.banded) return append_banded_sum(x, f, y, column, bias, result);
        const bool folded = s.rows_on_lanes();
        const int64_t window = s.lane_window(), band = s.band_rows();
        if (folded) f += y % band * s.taps() * s.channel_tiles() * s.in * window;
        double sum = bias, peak = std::abs(bias);
        for (int64_t u = 0; u < (folded ? 1 : s.kernel_y); u++)
            for (int64_t v = 0; v < s.kernel_x; v++)
                for (int64_t tile = 0; tile < s.channel_tiles(); tile++) {
                    double dot = 0, within = 0;
                    for (int64_t l = 0; l < lanes; l++) {
                        const int64_t channel = folded ? l / window : tile * lanes + l,
                                      tap = folded ? tile * window + l % window : u;
                        // Of a band what the weights say of all its window.
                        const int64_t row = (band > 1 ? y / band * band * s.stride_y + tap
                                                      : y * s.stride_y + tap * s.dilation_y) -
                                            s.padding_y,
                                      at = column * s.stride_x + v * s.dilation_x - s.padding_x;
                        if (channel >= (s.packed ? s.in : s.in / s.merged) || tap >= (band > 1 ? window : s.kernel_y) ||
                            row < 0 || row >= s.height || at < 0 || at >= s.width)
                            continue;
                        const int64_t packed = folded ? ((v * s.channel_tiles() + tile) * s.in + channel) * window + l % window
                                                      : (tap * s.kernel_x + v) * s.in + channel;
                        dot += static_cast<double>(bf16_float(x[s.x_offset(channel, row, at)])) *
                               bf16_float(f[s.packed ? packed : (channel * s.kernel_y + tap) * s.kernel_x + v]);
                        within = std::max(within, std::abs(dot));
                    }
                    sum += dot;
                    peak = std::max({peak, std::abs(dot), std::abs(sum), within * float32_share});
                }
        result.values.push_back(sum);
        result.peaks.push_back(peak);
    }

    // Of all lanes of all k tiles, since to find one out takes longer than to multiply it.
    static std::vector<KernelElement> elements_of_lanes(const ConvolutionShape &s) {
        std::vector<KernelElement> elements;
        for (int64_t tile = 0; tile < s.k_tiles(); tile++)
            for (int64_t lane = 0; lane < lanes; lane++) elements.push_back(s.element_of(tile, lane));
        return elements;
    }

    // What the weights say of the element of each lane.
    void append_sum_of_tiles(const uint16_t *x, const uint16_t *f, const std::vector<KernelElement> &of_lanes, int64_t y,
                             int64_t column, double bias, Reference &result) const {
        const ConvolutionShape &s = shape_;
        double sum = bias, peak = std::abs(bias);
        for (int64_t tile = 0; tile < s.k_tiles(); tile++) {
            double dot = 0, within = 0;
            for (int64_t l = 0; l < lanes; l++) {
                const KernelElement &e = of_lanes[static_cast<size_t>(tile * lanes + l)];
                const int64_t row = y * s.stride_y + e.row * s.dilation_y - s.padding_y,
                              at = column * s.stride_x + e.column - s.padding_x;
                if ((e.column >= s.kernel_x && !e.elsewhere) || row < 0 || row >= s.height || at < 0 || at >= s.width) continue;
                dot += static_cast<double>(bf16_float(x[(e.channel * s.height + row) * s.width + at])) *
                       bf16_float(f[tile * lanes + l]);
                within = std::max(within, std::abs(dot));
            }
            sum += dot;
            peak = std::max({peak, std::abs(dot), std::abs(sum), within * float32_share});
        }
        result.values.push_back(sum);
        result.peaks.push_back(peak);
    }

    // Where the elements of an arranged weight are in PyTorch's.
    static std::vector<int64_t> weight_elements(const ConvolutionShape &s) {
        std::vector<int64_t> elements;
        const auto add = [&](int64_t out, int64_t channel, int64_t row, int64_t column) {
            // Of the groups that are merged into one, that of the output channel has weights.
            const int64_t in = s.in / s.merged, of_group = channel - out % s.out / (s.out / s.merged) * in;
            const bool inside = of_group >= 0 && of_group < in && row >= 0 && row < s.kernel_y && column < s.kernel_x;
            elements.push_back(inside ? ((out * in + of_group) * s.kernel_y + row) * s.kernel_x + column : -1);
        };
        // In the order of f_extents(), the outermost first.
        const auto loop = [](int64_t end, const auto &body) {
            for (int64_t i = 0; i < end; i++) body(i);
        };
        if (s.banded) {
            const ConvolutionBand band = s.band();
            loop(s.groups, [&](int64_t group) {
                loop(band.tiles, [&](int64_t tile) {
                    loop(s.kernel_x, [&](int64_t column) {
                        loop(s.out, [&](int64_t out) {
                            loop(band.rows, [&](int64_t row) {
                                loop(band.channels, [&](int64_t channel) {
                                    loop(band.window, [&](int64_t window) {
                                        add(group * s.out + out, tile * band.channels + channel, s.kernel_row(window, row),
                                            column);
                                    });
                                });
                            });
                        });
                    });
                });
            });
        } else if (s.passes_matrices()) {
            const ConvolutionDiagonal diagonal = s.diagonal();
            loop(s.groups, [&](int64_t group) {
                loop(diagonal.kinds, [&](int64_t kind) {
                    loop(s.kernel_y, [&](int64_t row) {
                        loop(diagonal.places, [&](int64_t place) {
                            loop(diagonal.stored, [&](int64_t column) {
                                // From the first column of the place's window; the first part begins with the image, behind the
                                // padding.
                                const int64_t from = column - place * s.stride_x + (kind == 0 ? s.padding_x : 0);
                                const bool inside = from >= 0 && from % s.dilation_x == 0 && from / s.dilation_x < s.kernel_x;
                                elements.push_back(inside ? (group * s.kernel_y + row) * s.kernel_x + from / s.dilation_x : -1);
                            });
                        });
                    });
                });
            });
        } else if (s.rows_on_lanes() && !s.packs_lanes()) {
            loop(s.groups * s.out, [&](int64_t out) {
                loop(s.band_rows(), [&](int64_t row) {
                    loop(s.kernel_x, [&](int64_t column) {
                        loop(s.channel_tiles(), [&](int64_t tile) {
                            loop(s.in, [&](int64_t channel) {
                                loop(s.lane_window(),
                                     [&](int64_t window) { add(out, channel, s.lane_tap(tile, window, row), column); });
                            });
                        });
                    });
                });
            });
        } else {
            std::vector<int64_t> stored(static_cast<size_t>(s.groups * s.out));  // the channels in the order of memory
            loop(s.groups * s.out,
                 [&](int64_t out) { stored[static_cast<size_t>(out / s.out * s.out + s.packed_channel(out % s.out))] = out; });
            if (s.packs_lanes()) {
                const std::vector<KernelElement> of_lanes = elements_of_lanes(s);
                loop(s.groups * s.out, [&](int64_t at) {
                    for (const KernelElement &e : of_lanes)
                        add(stored[static_cast<size_t>(at)], e.channel, e.row, e.elsewhere ? s.kernel_x : e.column);
                });
                return elements;
            }
            loop(s.groups * s.out, [&](int64_t at) {
                loop(s.kernel_y, [&](int64_t row) {
                    loop(s.kernel_x, [&](int64_t column) {
                        loop(s.in, [&](int64_t channel) { add(stored[static_cast<size_t>(at)], channel, row, column); });
                    });
                });
            });
        }
        return elements;
    }

    // What the weights say, in windows that begin with the band's first row.
    void append_banded_sum(const uint16_t *x, const uint16_t *f, int64_t y, int64_t column, double bias,
                           Reference &result) const {
        const ConvolutionShape &s = shape_;
        const ConvolutionBand band = s.band();
        double sum = 0, peak = 0;
        for (int64_t tile = 0; tile < band.tiles; tile++)
            for (int64_t v = 0; v < s.kernel_x; v++) {
                double dot = 0, within = 0;
                for (int64_t l = 0; l < band.lanes(); l++) {
                    const int64_t channel = tile * band.channels + l / band.window,
                                  row = y / band.rows * band.rows * s.stride_y + l % band.window - s.padding_y;
                    const int64_t at = column * s.stride_x + v * s.dilation_x - s.padding_x;
                    if (channel >= s.in || row < 0 || row >= s.height || at < 0 || at >= s.width) continue;
                    const int64_t weight = ((tile * s.kernel_x + v) * s.out * band.rows + y % band.rows) * band.lanes() + l;
                    dot +=
                        static_cast<double>(bf16_float(x[(channel * s.height + row) * s.width + at])) * bf16_float(f[weight]);
                    within = std::max(within, std::abs(dot));
                }
                sum += dot;
                peak = std::max({peak, std::abs(dot), std::abs(sum), within * float32_share});
            }
        result.values.push_back(sum + bias);
        result.peaks.push_back(std::max({peak, std::abs(bias), std::abs(sum + bias)}));
    }

    ConvolutionShape shape_;
};

// One or two numbers of at least 1 for the dimensions of the image.
std::array<int64_t, 2> pair_of(const WorkloadRequest &request, const std::string &name, bool one_dimension) {
    std::vector<int64_t> values = request.integers(name);
    const size_t wanted = one_dimension ? 1 : 2;
    if (values.size() == 1) values.resize(wanted, values[0]);
    if (values.size() != wanted)
        throw Error(fmt::format("{}: {} must have {}, not {}", request.op, name, one_dimension ? "1 value" : "2 values or 1",
                                values.size()));
    for (int64_t value : values)
        if (value < 1) throw Error(fmt::format("{}: {} is {}, but must be at least 1", request.op, name, value));
    return one_dimension ? std::array<int64_t, 2>{1, values[0]} : std::array<int64_t, 2>{values[0], values[1]};
}

// Zeros on both sides of each dimension, or (as many numbers again) those behind it apart.
void set_padding(ConvolutionShape &shape, const WorkloadRequest &request, bool one_dimension) {
    std::vector<int64_t> values = request.integers("padding");
    const size_t dims = one_dimension ? 1 : 2;
    if (values.size() == 1) values.resize(dims, values[0]);
    if (values.size() == dims) {
        values.resize(2 * dims);
        std::copy_n(values.begin(), dims, values.begin() + static_cast<ptrdiff_t>(dims));
    }
    if (values.size() != 2 * dims)
        throw Error(fmt::format("{}: padding must have {} values, not {}", request.op, one_dimension ? "1 or 2" : "1, 2 or 4",
                                values.size()));
    for (const int64_t value : values)
        if (value < 0) throw Error(fmt::format("{}: padding is {}, but must be at least 0", request.op, value));
    shape.padding_x = values[dims - 1], shape.padding_end_x = values[2 * dims - 1];
    if (!one_dimension) shape.padding_y = values[0], shape.padding_end_y = values[2];
}

std::unique_ptr<Workload> make_with(const WorkloadRequest &request, const Epilogue &epilogue) {
    const std::string &op = request.op;
    const auto demand = [&](bool condition, const std::string &message) {
        if (!condition) throw Error(op + ": " + message);
    };
    Shape x = request.shape("input"), f = request.shape("weight");
    const std::string layout = request.word("weight_layout"), of_image = request.word("layout");
    demand(of_image == "nchw" || of_image == "nhwc", fmt::format("layout must be nchw or nhwc, not '{}'", of_image));
    demand(layout == "oihw" || layout == "packed" || layout == "shared" || layout == "banded",
           fmt::format("weight_layout must be oihw, packed, shared or banded, not '{}'", layout));
    const bool line = op == "conv1d" || (op != "conv2d" && f.size() == 3);
    const size_t rank = line ? 3 : 4;
    demand(f.size() == rank, fmt::format("the weight must have {} dimensions, not {}", rank, f.size()));
    demand(x.size() == rank || x.size() + 1 == rank,
           fmt::format("the input must have {} or {} dimensions, not {}", rank - 1, rank, x.size()));
    if (x.size() + 1 == rank) x.insert(x.begin(), 1);
    ConvolutionShape shape;
    shape.channels_last = of_image == "nhwc";
    if (shape.channels_last) {
        demand(layout == "oihw" || layout == "packed",
               fmt::format("weights of images with channels innermost are oihw or packed, not {}", layout));
        std::rotate(x.begin() + 1, x.end() - 1, x.end());
    }
    if (line) {
        x.insert(x.begin() + 2, 1);
        f.insert(f.begin() + 2, 1);
    }
    if (request.attributes.contains("transposed"))
        demand(!request.flag("transposed"), "transposed convolutions are not supported");
    shape.epilogue = epilogue;
    shape.epilogue_work = epilogue.operations();
    shape.shares = layout == "shared";
    shape.packed = layout == "packed" || shape.shares;
    shape.banded = layout == "banded";
    const auto stride = pair_of(request, "stride", line), dilation = pair_of(request, "dilation", line);
    shape.stride_y = stride[0], shape.stride_x = stride[1], shape.dilation_y = dilation[0], shape.dilation_x = dilation[1];
    shape.groups = request.integer("groups");
    shape.images = x[0], shape.height = x[2], shape.width = x[3], shape.kernel_y = f[2], shape.kernel_x = f[3], shape.in = f[1];
    if (request.attributes.at("padding").is_string()) {
        const std::string word = request.word("padding");
        demand(word == "same" || word == "valid",
               fmt::format("padding must be a number of elements, same or valid, not '{}'", word));
        if (word == "same") {
            demand(stride[0] == 1 && stride[1] == 1, "padding 'same' needs a stride of 1");
            // Of an odd number one more is behind the image.
            const int64_t all_y = shape.dilation_y * (shape.kernel_y - 1), all_x = shape.dilation_x * (shape.kernel_x - 1);
            shape.padding_y = all_y / 2, shape.padding_x = all_x / 2, shape.padding_end_y = all_y - all_y / 2,
            shape.padding_end_x = all_x - all_x / 2;
        }
    } else {
        set_padding(shape, request, line);
    }
    demand(shape.groups >= 1, fmt::format("groups is {}, but must be at least 1", shape.groups));
    demand(f[0] % shape.groups == 0, fmt::format("{} output channels cannot be divided into {} groups", f[0], shape.groups));
    shape.out = f[0] / shape.groups;
    demand(x[1] == shape.in * shape.groups,
           fmt::format("given groups={} and a weight of {}, expected an input of {} channels, but it has {}", shape.groups,
                       shape_text(request.shape("weight")), shape.in * shape.groups, x[1]));
    if (request.has("bias")) {
        demand(request.shape("bias") == Shape{f[0]},
               fmt::format("the bias must have {} elements, not the shape {}", f[0], shape_text(request.shape("bias"))));
        shape.bias = true;
    }
    for (size_t d = 1; d < x.size(); d++) demand(x[d] > 0, "the input has no elements in a dimension other than the batch");
    for (size_t d = 1; d < f.size(); d++)
        demand(f[d] > 0, "the weight has no elements in a dimension other than that of the results");
    const int64_t reach_y = shape.dilation_y * (shape.kernel_y - 1) + 1, reach_x = shape.dilation_x * (shape.kernel_x - 1) + 1;
    demand(shape.padded_height() >= reach_y && shape.padded_width() >= reach_x,
           fmt::format("the kernel of {}x{} is larger than the padded input of {}x{}", reach_y, reach_x, shape.padded_height(),
                       shape.padded_width()));
    Shape result = {x[0], f[0], shape.rows(), shape.columns()};
    if (line) result.erase(result.begin() + 2);
    if (shape.channels_last) std::rotate(result.begin() + 1, result.begin() + 2, result.end());
    if (request.shape("input").size() + 1 == rank) result.erase(result.begin());
    if (x[0] == 0 || f[0] == 0) return constant_workload(request, result);
    demand(!shape.banded || shape.band().window > 0,
           fmt::format("a kernel of {} rows does not fit the 32 lanes of banded weights", reach_y));
    demand(!shape.shares || shape.shared_columns() > 0,
           "columns of this kernel cannot share k tiles, as the weight layout shared has it");
    const bool product = shape.is_product();  // which groups that are merged are not
    shape = shape.with_merged_groups();
    auto workload = std::make_unique<ConvolutionWorkload>(request, shape, result);
    if (product) return convolution_as_product(request, shape, std::move(result), std::move(workload));
    if (shape.passes_matrices()) return depthwise_rows_workload(request, shape, std::move(workload));
    return is_depthwise(shape) && !shape.channels_last ? depthwise_workload(request, shape, std::move(workload))
                                                       : std::unique_ptr<Workload>(std::move(workload));
}

}  // namespace

std::vector<OperatorDeclaration> convolution_operators() {
    OperatorDeclaration row;
    row.card.family = "convolution";
    row.card.algorithm =
        "a product without an im2col in memory: lanes are 32 input channels, or of at most 16 the channels of several rows of "
        "the kernel, or of all rows that some rows of the result read, or rows of it as "
        "they lie in memory where windows do not overlap; products in float32, rounded, added over blocks of "
        "channels, then columns, then rows of the kernel; depthwise convolutions are windows over planes, products and sums of "
        "32 planes in bf16, or with packed weights rows of planes that pass matrices with the kernel along their diagonals";
    row.card.space =
        "rows turned at once, the strip of the result that one load of the weights serves, where its sums stay, unrolling; "
        "channels that stream past turned places";
    row.card.bound =
        "lanes (sums of 32-deep products), array, visits (its gaps and the registers), DRAM, pads, issue; only what the window "
        "covers";
    row.card.reference = "float64";
    row.card.supports =
        "bf16, stride, padding, dilation, groups; an infinity or NaN spreads over its block of 32 x 32 elements";
    row.card.refuses =
        "transposed convolutions; kernels and rows of an image that do not fit the pads, which on fsim all but banded weights "
        "of "
        "planes, and packed ones with channels innermost, do not";
    row.card.fuses = "bias, with which the sums begin, behind those of banded weights; pointwise operators behind the result";
    row.tensors = {{"input", {"input"}, "of images x channels x height x width"},
                   {"weight", {"weight"}, "of out x channels/groups x height x width"},
                   {"bias", {"bias"}, "of out", false}};
    const nlohmann::json one = nlohmann::json::array({1}), zero = nlohmann::json::array({0});
    row.attributes = {
        {"stride", "steps of the kernel", one},
        {"padding", "zeros on every side; of an image four numbers, above, left, below, right; of a line two", zero},
        {"dilation", "steps between the elements of the kernel", one},
        {"groups", "groups of channels that do not mix", 1},
        {"layout", "of the image and the result: nchw, as PyTorch has it, or nhwc, channels innermost", "nchw"},
        {"weight_layout",
         "how the weight lies in memory: oihw, as PyTorch has it, or packed, shared or banded, as kernels read it: "
         "docs/convolution.md; commands arrange it beforehand where they are not told",
         "oihw", false, true}};
    row.make = [](const WorkloadRequest &request) { return make_with(request, {}); };
    row.make_with = make_with;
    std::vector<OperatorDeclaration> rows(4, row);
    rows[0].name = "conv2d";
    rows[0].schemas = {"conv2d"};
    rows[0].help = "convolution of images";
    rows[0].example = {{"shape", "1x64x56x56,64x64x3x3"}, {"padding", "1"}};
    rows[1].name = "conv1d";
    rows[1].schemas = {"conv1d"};
    rows[1].help = "convolution along a line";
    rows[1].example = {{"shape", "1x80x300,384x80x3,384"}, {"padding", "1"}};
    rows[2].name = "convolution";
    rows[2].schemas = {"convolution"};
    rows[2].help = "conv1d or conv2d by the dimensions of the weight";
    rows[2].example = {{"shape", "1x64x56x56,64x64x3x3"}, {"padding", "1"}};
    rows[2].attributes.push_back({"transposed", "not supported", false});
    rows[2].ignored = {"output_padding"};
    rows[3].name = "conv2d_padding";
    rows[3].schemas = {"conv2d.padding", "conv1d.padding"};
    rows[3].help = "conv2d with padding by a word";
    rows[3].example = {{"shape", "1x64x56x56,64x64x3x3"}, {"padding", "same"}};
    rows[3].attributes[1] = {"padding", "same or valid", "valid"};
    return rows;
}

}  // namespace atalla
