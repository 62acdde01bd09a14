// Whose cycles they are, in a program whose calls share their routines: those of the call that is under way.
#pragma once

#include <string>
#include <vector>

#include "isa/program.h"
#include "simulator/profile/profile.h"
#include "simulator/timing/observer.h"

namespace atalla {

// What a call enters, from begin to before end: a routine that others may enter, too. `name` is of who is called for: a kernel,
// an ATen node.
struct CallRange {
    std::string name;
    uint32_t begin = 0, end = 0;  // byte addresses
};

// Calls run one after the other, in the order in which they are given, each once a run of all of them. From the first packet of
// a call to before that of the next one, all cycles are of the call.
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

    struct Entry {
        int32_t packet = -1;
        size_t share = 0;
    };
    std::vector<Entry> entries_;  // of the calls
    size_t next_ = 0;             // the call that begins next
    bool waiting_ = false;        // for the first packet of the call before that
    std::vector<SourceShare> shares_;
    size_t current_ = 0;
};

}  // namespace atalla
