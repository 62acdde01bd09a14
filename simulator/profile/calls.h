// Whose cycles they are, in a program whose calls share their routines: those of the call that is under way.
#pragma once

#include <string>
#include <vector>

#include "isa/program.h"
#include "simulator/profile/profile.h"
#include "simulator/timing/observer.h"

namespace atalla {

// The packets that make a call, from begin to before end; `name` is of who is called for: a kernel, an ATen node.
struct CallRange {
    std::string name;
    uint32_t begin = 0, end = 0;  // byte addresses
};

// From the first packet of a call to before that of the next one, all cycles are of the call.
class CallShares : public timing::Observer {
public:
    CallShares(const Program &program, const std::vector<CallRange> &calls);

    // By name, most cycles first; "(entry)" for what comes before the first call.
    std::vector<SourceShare> take();

    void waits(int32_t packet, Stall cause, int64_t from, int64_t to) override;
    void issues(int32_t packet, int64_t at, const MachineState &state) override;
    void operation(const timing::Issued &) override {}
    void result(timing::Source, int64_t) override {}
    void access(int64_t, int64_t, bool, bool) override {}
    void pad_starts(uint32_t, bool, bool, uint32_t, int32_t, int64_t, int64_t, int64_t) override {}
    void transfer_ends(uint32_t, int32_t, int64_t, int64_t) override {}
    void opens_row(uint32_t, int64_t, int64_t, int64_t) override {}
    void serves_beat(uint32_t, uint32_t, bool, int, int64_t, int64_t) override {}
    void halted(int64_t halt, int64_t last) override;

private:
    void enter(int32_t packet);

    std::vector<int32_t> share_of_packet_;  // of the packets that make a call, else -1
    std::vector<SourceShare> shares_;
    size_t current_ = 0;
};

}  // namespace atalla
