// Retired operations, a line each: the hook for comparing with RTL. docs/profile.md describes the fields.
#pragma once

#include <array>
#include <deque>
#include <iosfwd>

#include "isa/program.h"
#include "simulator/timing/observer.h"

namespace atalla {

// Writes while a program runs, in the order of issue; a line waits until its operation and all before it are done.
class RetireLog : public timing::Observer {
public:
    // `program` and `out` must outlive the log.
    RetireLog(const Program &program, std::ostream &out);
    // Writes what is not done, with "-" for when: the operations under way when a program was refused.
    void finish();

    void waits(int32_t, Stall, int64_t, int64_t) override {}
    void issues(int32_t packet, int64_t at, const MachineState &state) override;
    void operation(const timing::Issued &issued) override;
    void result(timing::Source source, int64_t at) override;
    void access(int64_t issued, int64_t end, bool store, bool missed) override;
    void pad_starts(uint32_t pad, bool write, bool of_transfer, uint32_t row, int32_t packet, int64_t at, int64_t busy,
                    int64_t lands) override;
    void transfer_ends(uint32_t pad, int32_t packet, int64_t issued, int64_t end) override;
    void opens_row(uint32_t, int64_t, int64_t, int64_t) override {}
    void serves_beat(uint32_t, uint32_t, bool, int, int64_t, int64_t) override {}
    void halted(int64_t, int64_t) override {}

private:
    static constexpr int64_t under_way = -1;
    struct Line {
        uint64_t order;  // of the packet
        int64_t issue, done;
        int32_t packet;
        int slot;
        std::string target, value;
    };
    // Lines are numbered from the first on; `first_` is the number of the oldest that waits.
    using Waiting = std::deque<uint64_t>;

    void set_done(Waiting &queue, int64_t done);
    void write_done();
    void write(const Line &line);

    const Program &program_;
    std::ostream &out_;
    const MachineState *state_ = nullptr;
    uint64_t packets_ = 0, first_ = 0;
    std::deque<Line> lines_;
    std::array<Waiting, timing::source_count> results_;
    std::array<Waiting, 4> stores_, transfers_;  // by pad
    Waiting scalar_stores_;
};

}  // namespace atalla
