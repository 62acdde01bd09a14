#include "codegen/stream.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "codegen/index.h"
#include "codegen/spread.h"
#include "codegen/stream_plan.h"

namespace atalla::codegen {

namespace {

// The transfers of a plan, as code in front of the nest, beside it, and behind it.
class Streamer {
public:
    Streamer(Kernel &kernel, TransferCode &code, const LoopNest &nest, StreamPlan plan)
        : kernel_(kernel), code_(code), nest_(nest), plan_(std::move(plan)) {}

    void run(size_t at) {
        Body before, behind;
        for (const Stream &s : plan_.loads) s.copy->tiles.clear();
        for (size_t i = 0; i < plan_.loads.size(); i++) {
            if (plan_.apart)
                start_loads_apart(plan_.loads[i], plan_.fronts[i], plan_.load_starts[i], before);
            else
                start_loads(plan_.loads[i], plan_.fronts[i], plan_.load_starts[i], before);
        }
        for (const Stream &s : plan_.stores) s.copy->tiles.clear();
        for (size_t i = 0; i < plan_.stores.size(); i++) start_results(plan_.stores[i], plan_.result_starts[i], before, behind);
        const auto insert = [&](size_t place, Body &nodes) {
            kernel_.body.insert(kernel_.body.begin() + static_cast<std::ptrdiff_t>(place),
                                std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
        };
        insert(at + 1, behind);
        insert(at, before);
    }

private:
    // `first`: the group that starts first in the loop.
    Run group_of(const Stream &s, int64_t count, int64_t first, const std::function<int64_t(int)> &index) const {
        const auto from = static_cast<size_t>(index(s.tiles.begin()->first)) % 2;
        Run run{{}, count, s.row_step, s.mem_steps[from], s.mem_steps[0] != s.mem_steps[1] ? s.mem_steps[1 - from] : 0, {}};
        if (s.jumps()) {
            run.mem_step = s.dimensions.front().step.mem;
            run.other_mem_step = 0;
            int64_t every = 1;
            for (size_t d = 1; d < s.dimensions.size(); d++) {
                const TileDimension &inside = s.dimensions[d - 1];
                every *= inside.extent;
                const TilePlace more = s.dimensions[d].step - inside.step * inside.extent;
                run.jumps.push_back({more.mem, every, every - 1 - first % every, more.row});
            }
        }
        for (const auto &[pad, tiles] : s.tiles)
            if (const int64_t i = index(pad); i >= 0 && i < s.groups) run.group.push_back(tiles[static_cast<size_t>(i)]);
        return run;
    }

    // Transfers that start while the loop runs, and what counts those that have not started, as start_from() does.
    struct Started {
        Channel channel;
        Reg left;
    };

    // A group is one transfer of each pad, or two halves that start one after the other.
    std::vector<Channel> channels_of(const Stream &s, const Run &run) {
        if (!plan_.in_halves) return {code_.channel(*s.copy, run)};
        std::vector<Run> parts(2, run);
        for (Run &part : parts) part.group.clear();
        const std::vector<size_t> half = halves_of(run.group, *kernel_.machine);
        for (size_t i = 0; i < half.size(); i++) parts[half[i]].group.push_back(run.group[i]);
        std::erase_if(parts, [](const Run &part) { return part.group.empty(); });
        return code_.channels(*s.copy, parts);
    }

    std::vector<Channel> aimed(const Stream &s, const Run &run, Body &before) {
        std::vector<Channel> channels = channels_of(s, run);
        for (const Channel &c : channels) code_.aim(c, true, Reg{}, Reg{}, {}, before);
        return channels;
    }
    std::vector<Started> start_beside(const std::vector<Channel> &channels, const Starts &starts, Body &before) {
        std::vector<Started> started;
        int64_t first = starts.first;
        for (const Channel &c : channels) {
            started.push_back({c, start_from(kernel_, {c, {}, starts.count, {}}, first, starts.span, nest_.hot(),
                                             nest_.is_several(), code_, before)});
            first += plan_.half_distance();
        }
        return started;
    }

    void wait_beside(const std::vector<Channel> &channels, int64_t turn, Body &before) {
        const Reg due = kernel_.scalar("due");
        before.push_back(value_op(due, {-turn, {}}));
        Body group;
        code_.wait(channels, group);
        Op branch = side(due, group);
        branch.opcode = Opcode::beq_s;
        branch.aux = 1;
        branch.every = nest_.is_several();
        nest_.hot().body.push_back(std::move(branch));
    }

    // In front of the loop each pad has as many tiles: one that is ahead those after its first ones, then these; another one
    // its last ones, too.
    void start_loads(Stream &s, int64_t front, const Starts &starts, Body &before) {
        const Run run = group_of(s, starts.count, front, [&](int pad) { return front + s.ahead(pad); });
        const std::vector<Channel> channels = aimed(s, run, before);
        start_beside(channels, starts, before);
        if (plan_.stores.empty()) wait_beside(channels, plan_.turn_of_wait(s), before);
        std::vector<Tile> &first = s.copy->tiles;
        for (int64_t turn = 0; turn < front; turn++)
            for (const auto &[pad, tiles] : s.tiles) first.push_back(s.tile_of(pad, turn + s.ahead(pad)));
        for (int64_t turn = -s.most_ahead; turn < 0; turn++)
            for (const auto &[pad, tiles] : s.tiles) first.push_back(s.tile_of(pad, turn + s.ahead(pad)));
        first.insert(first.end(), s.apart.begin(), s.apart.end());
    }

    // What the first turn touches is waited for in front of the loop; each of the others has ended when the next one starts.
    void start_loads_apart(Stream &s, int64_t front, const Starts &starts, Body &before) {
        const auto at_once = plan_.columns ? s.part() : 1;
        const std::vector<Channel> channels =
            aimed(s, group_of(s, s.groups - at_once, front, [&](int) { return at_once; }), before);
        const std::vector<Tile> &places = s.first();
        for (auto n = static_cast<size_t>(at_once); n < static_cast<size_t>(front); n++)
            for (Channel c : channels) {
                if (s.jumps()) {
                    // Here the steps are known. It points one step of the first ones before the first.
                    c.left.clear();
                    c.row_jump = {};
                    c.run.mem_step = places[n + 1].mem - places[n].mem;
                    if (n > static_cast<size_t>(at_once)) c.run.row_step = places[n].row - places[n - 1].row;
                }
                code_.issue_step(c, before);
            }
        start_beside(channels, starts, before);
        for (int64_t group = 0; group < at_once; group++)
            for (const auto &[pad, tiles] : s.tiles) s.copy->tiles.push_back(s.tile_of(pad, group));
        s.copy->tiles.insert(s.copy->tiles.end(), s.apart.begin(), s.apart.end());
    }

    // Behind it those that are left, and the first ones of the pads that were ahead.
    void start_results(Stream &s, const Starts &starts, Body &before, Body &behind) {
        const Run run = group_of(s, starts.count, 0, [&](int pad) { return s.most_ahead - s.ahead(pad); });
        const std::vector<Started> started = start_beside(aimed(s, run, before), starts, before);
        if (plan_.unsure > 0) behind.push_back(code_.fence(s.copy->allocation));
        for (int64_t n = 0; n < plan_.unsure; n++)
            for (const auto &[channel, left] : started) {
                const Reg more = kernel_.scalar("more");
                behind.push_back(value_op(more, {2, {}}, {left}));
                If again{more, {}};
                code_.issue_step(channel, again.body);
                again.body.push_back(value_op(left, {-1, {}}, {left}));
                behind.push_back(std::move(again));
            }
        // Whole parts are loops of their own, in front of what is left of another.
        const auto leave = [&](int64_t first, int64_t end) {
            for (int64_t turn = first; turn < end; turn++)
                for (const auto &[pad, tiles] : s.tiles) s.copy->tiles.push_back(s.tile_of(pad, turn - s.ahead(pad)));
        };
        const int64_t first = starts.count + s.most_ahead, part = plan_.columns ? s.part() : 1,
                      whole = std::min((first + part - 1) / part * part, s.groups + s.most_ahead);
        leave(whole, s.groups + s.most_ahead);
        leave(first, whole);
    }

    Kernel &kernel_;
    TransferCode &code_;
    const LoopNest &nest_;
    StreamPlan plan_;
};

}  // namespace

bool may_stream(const Kernel &kernel, const Loop &loop) {
    constexpr int64_t least_iterations = 8;
    return kernel.loops[static_cast<size_t>(loop.id)].parent < 0 && loop.extent >= least_iterations;
}

void stream_copies(Kernel &kernel, TransferCode &code) {
    for (size_t at = 0; at < kernel.body.size(); at++) {
        if (!kernel.body[at].loop) continue;
        const LoopNest nest(kernel, *kernel.body[at].loop);
        if ((!nest.is_several() && !may_stream(kernel, nest.hot())) || !nest.computes_rows()) continue;
        if (std::optional<StreamPlan> plan = plan_streams(kernel, nest, at))
            Streamer(kernel, code, nest, std::move(*plan)).run(at);
    }
}

}  // namespace atalla::codegen
