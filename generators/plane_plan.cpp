#include "generators/plane_plan.h"

#include <algorithm>
#include <utility>

#include "generators/pad_room.h"

namespace atalla {

int64_t seen_elements(const PoolAxis &axis, int64_t results) {
    int64_t end = axis.size + axis.padding;
    for (const PoolPhase &phase : pool_phases(axis))
        end = std::max(end, phase.start + (std::max(phase.count, results) - 1) * phase.stride + phase.kernel);
    return end;
}

PlaneFrame::PlaneFrame(const PoolShape &shape, const Machine &machine, int64_t results)
    : pitch(round_up(seen_elements(shape.x), machine.pad.count)),
      rows(seen_elements(shape.y)),
      places(round_up((rows - 1) * pitch + std::max(pitch, seen_elements(shape.x, results)), machine.pad.count)) {}

PlaneBlocks PlaneBlocks::of_image(const PoolShape &shape, const Machine &machine) {
    const int64_t width = shape.x.size, height = shape.y.size, pads = machine.pad.count;
    PlaneBlocks blocks;
    if (!padded(shape) && width % pads == 0 && width * height % lanes == 0) {
        blocks.rows = 0;
        blocks.bands = width * height / lanes;
        return blocks;
    }
    if (width <= lanes) {
        for (int64_t rows = 1; rows * width <= lanes && rows <= height; rows++)
            if (height % rows == 0) blocks.rows = rows;
        blocks.elements = blocks.length = blocks.rows * width;
        blocks.bands = height / blocks.rows;
        return blocks;
    }
    for (blocks.parts = tiles_of(width);; blocks.parts++) {
        blocks.step = round_up(ceil_div(width - lanes, blocks.parts - 1), pads);
        if (width % blocks.parts == 0 && width / blocks.parts % pads == 0) blocks.step = width / blocks.parts;
        blocks.elements = width - (blocks.parts - 1) * blocks.step;
        if (blocks.elements >= blocks.step) break;
    }
    blocks.length = width;
    blocks.bands = height;
    return blocks.in_one_line(blocks.step);
}

PlaneBlocks PlaneBlocks::of_results(const PoolShape &shape, const Machine &machine) {
    const int64_t columns = shape.x.results, rows = shape.y.results;
    PlaneBlocks blocks;
    blocks.rows = std::clamp<int64_t>(lanes / columns, 1, rows);
    blocks.parts = tiles_of(columns);
    blocks.elements = blocks.parts == 1 ? blocks.rows * columns : round_up(ceil_div(columns, blocks.parts), machine.pad.count);
    blocks.step = blocks.elements;
    blocks.bands = ceil_div(rows, blocks.rows);
    blocks.length = blocks.rows * columns;
    return blocks.in_one_line(blocks.elements);
}

std::vector<int64_t> PlaneBlocks::columns_of_blocks(int64_t width) const {
    std::vector<int64_t> columns;
    if (rows > 0 && length == rows * width) {
        for (int64_t part = 0; part < parts; part++) columns.push_back(part * step);
        return columns;
    }
    for (int64_t column = 0; column < width; column += rows == 0 ? lanes : length) columns.push_back(column);
    if (columns.back() != width - 1) columns.push_back(width - 1);
    return columns;
}

PlaneBlocks PlaneBlocks::in_one_line(int64_t distance) {
    if (bands == 1 && parts > 1) {
        std::swap(bands, parts);
        length = distance;
        in_one_row = true;
    }
    return *this;
}

PlanePlan::PlanePlan(const PoolShape &shape, const Machine &machine, const Point &point)
    : columns(pool_phases(shape.x).size() > 1 ? 0 : round_up(shape.x.results, point["unroll"])),
      pitch(round_up(std::max(columns, shape.x.results), machine.pad.count)),
      frame(shape, machine, columns),
      image(PlaneBlocks::of_image(shape, machine)),
      back(PlaneBlocks::of_results(shape, machine)),
      bands(std::min(point["bands"], image.bands)),
      results(std::min(point["results"], back.bands)),
      together(point["planes"] / lanes) {}

bool planes_fit(const PoolShape &shape, const Machine &machine, const Point &point) {
    const PlanePlan plan(shape, machine, point);
    const int64_t unroll = point["unroll"], pads = machine.pad.count, slots = machine.timed() ? 2 : 1;
    // Straight-line code keeps to known pads where it goes on by whole rounds of them.
    const bool one_phase = pool_phases(shape.x).size() == 1;
    std::vector<PadUse> uses = {{plan.together * plan.frame.places, one_phase && unroll * shape.x.stride % pads == 0},
                                {plan.together * plan.pitch * plan.result_rows(), one_phase && unroll % pads == 0},
                                {slots * plan.bands * lanes, point["weight_unroll"] % pads == 0},
                                {slots * plan.results * lanes, true},
                                {lanes, false},
                                {shape.x.results, false},
                                {shape.y.results * plan.together, false}};
    if (shape.kind == Pooling::Weighted)
        uses.insert(uses.end(), {{plan.together * round_up(shape.x.kernel * shape.y.kernel, lanes), false},
                                 {lanes, false},
                                 {plan.together, false}});
    return fit_pads(machine, uses);
}

}  // namespace atalla
